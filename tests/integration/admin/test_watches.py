"""What do watches and their proposals tell, and what may be done with them?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.exceptions import Refused
from buildqueue.models import BuildJob, Proposal, SourceWatch
from buildqueue.queue.outcomes import Actor
from tests.factories import make_agent, make_job

from .builtrows import make_active, make_proposal, make_source, make_watch
from .pages import act_url, html_of, page_of, text_of

WATCHES = "/admin/buildqueue/sourcewatch/"
PROPOSALS = "/admin/buildqueue/proposal/"
SOURCES = "/admin/buildqueue/source/"


def post(client: Client, act: str, row: Any, **more: Any) -> Any:
    asked = {"id": str(row.pk), "from": "page", "reason": "because"}
    address = act_url(act, row._meta.model_name)
    return client.post(address, asked | more, follow=True)


def test_a_watchs_page_tells_how_its_checks_went(root: Client) -> None:
    watch = make_watch(
        ref="main",
        git_url="https://u:hunter2@github.com/acme/search",
        status="paused",
        failures=5,
        last_error="no such host",
        pause_reason="5 checks in a row failed",
        secret_name="GIT_TOKEN",
        last_commit="9f2b41c7d05e8a36",
        interval_minutes=15,
        checked_at=timezone.now(),
    )
    proposal = make_proposal(watch)

    page = root.get(page_of(watch))

    for words in (
        "Branch or tag: main",
        "Why paused: 5 checks in a row failed",
        "Last error: no such host",
        "Failures in a row: 5/5",
        "Secret for it: GIT_TOKEN",
        "Checked every: 15 min",
        "New version: the next patch",
        "Check now: it is paused",
    ):
        assert words in text_of(page)
    assert page_of(proposal) in html_of(page)
    assert 'href="https://github.com/acme/search/commit/9f2b41c7d05e8a36"' in html_of(
        page
    )
    assert "hunter2" not in html_of(page)


def test_a_watch_is_paused_resumed_and_checked(root: Client) -> None:
    watch = make_watch(failures=2)

    post(root, "pause", watch)
    watch.refresh_from_db()
    assert (watch.status, watch.pause_reason) == ("paused", "paused by root: because")

    post(root, "resume", watch)
    watch.refresh_from_db()
    assert (watch.status, watch.failures) == ("active", 0)

    answer = post(root, "check", watch)
    assert "The repository is being asked." in text_of(answer)
    assert BuildJob.objects.get().kind == "watch_check"


def test_a_removed_watch_takes_its_proposals_along_and_leads_to_the_list(
    root: Client,
) -> None:
    watch = make_watch()
    make_proposal(watch)

    answer = post(root, "remove", watch)

    assert answer.redirect_chain[-1][0] == WATCHES
    assert not SourceWatch.objects.exists()
    assert not Proposal.objects.exists()


def test_the_watch_of_a_deleted_agent_is_not_resumed(root: Client) -> None:
    watch = make_watch(make_agent(deleted_at=timezone.now()), status="paused")

    answer = post(root, "resume", watch)

    assert "the agent was deleted" in text_of(answer)
    assert "Resume: its agent was deleted" in text_of(root.get(page_of(watch)))


@pytest.mark.parametrize("wanted", ["active", "paused", "given_up", "all", "x"])
def test_watches_are_found_by_how_they_are(root: Client, wanted: str) -> None:
    rows = {
        "active": make_watch(),
        "paused": make_watch(status="paused", failures=1),
        "given_up": make_watch(status="paused", failures=5),
    }
    among = {"active": {"active"}, "paused": {"paused", "given_up"}}

    listed = root.get(WATCHES, {"status": wanted}).context["cl"].result_list

    names = among.get(wanted, {wanted} if wanted in rows else set(rows))
    assert {row.pk for row in listed} == {rows[name].pk for name in names}


def test_the_list_of_proposals_shows_what_waits_for_a_person(root: Client) -> None:
    waits = make_proposal()
    make_proposal(make_watch(make_agent(deleted_at=timezone.now())))
    settled = make_proposal(
        status="dismissed", decided_at=timezone.now(), decided_by="ada"
    )

    page, every = root.get(PROPOSALS), root.get(PROPOSALS, {"status": "all"})

    assert list(page.context["cl"].result_list) == [waits]
    assert "waiting for a person" in text_of(page)
    assert len(every.context["cl"].result_list) == 3
    assert "dismissed" in text_of(every)
    assert "it is dismissed, decided by ada" in text_of(root.get(page_of(settled)))


def test_dismissing_closes_it_without_a_job(root: Client) -> None:
    proposal = make_proposal()

    answer = post(root, "dismiss", proposal, reason="")

    proposal.refresh_from_db()
    assert (proposal.status, proposal.decided_by) == ("dismissed", "root")
    assert "Dismissed; this commit is not proposed again." in text_of(answer)
    assert not BuildJob.objects.exists()


def test_accepting_queues_the_update_and_links_its_job(root: Client) -> None:
    proposal = make_proposal(make_watch(make_active()))

    answer = post(root, "accept", proposal)

    proposal.refresh_from_db()
    assert proposal.status == "accepted"
    assert proposal.job is not None
    assert "Accepted; the update is queued." in text_of(answer)
    assert page_of(proposal.job) in html_of(root.get(page_of(proposal)))


def test_what_the_domain_refuses_to_accept_stays_open_and_is_told(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(proposal: Proposal, *, actor: Actor) -> None:
        raise Refused("too_many_builds", "one build of the agent is open already")

    monkeypatch.setattr("buildqueue.builds.proposals.accept", refuses)
    proposal = make_proposal()

    answer = post(root, "accept", proposal)

    assert "one build of the agent is open already" in text_of(answer)
    proposal.refresh_from_db()
    assert proposal.status == "open"


@pytest.mark.parametrize("address", [WATCHES, PROPOSALS, SOURCES])
def test_lists_cost_the_same_for_few_rows_and_for_many(
    root: Client, address: str
) -> None:
    def fill() -> None:
        make_proposal(make_watch())
        make_source()

    fill()
    root.get(address)
    with CaptureQueriesContext(connection) as few:
        root.get(address)
    for _ in range(5):
        fill()
    with CaptureQueriesContext(connection) as many:
        page = root.get(address)

    assert len(many) == len(few) <= 8
    assert len(page.context["cl"].result_list) == 6


def test_the_pages_of_a_watch_and_a_proposal_cost_the_same(root: Client) -> None:
    small, large = make_watch(), make_watch()
    for watch, number in ((small, 1), (large, 13)):
        for _ in range(number):
            last = make_proposal(watch, job=make_job())
    root.get(page_of(small))
    with CaptureQueriesContext(connection) as few:
        root.get(page_of(small))
    with CaptureQueriesContext(connection) as many:
        page = root.get(page_of(large))
    with CaptureQueriesContext(connection) as one:
        root.get(page_of(last))

    assert len(many) == len(few) <= 8
    assert len(one) <= 6
    assert f"{PROPOSALS}?status=all&amp;watch={large.pk}" in html_of(page)


def test_a_source_is_told_by_its_name_checksum_and_size(root: Client) -> None:
    source = make_source()

    page = text_of(root.get(f"{SOURCES}{source.key.replace('_', '_5F')}/change/"))

    assert source.key in page
    assert f"Checksum (SHA-256): {source.sha256}" in page
    assert "47.1 KB" in page.replace("\N{NO-BREAK SPACE}", " ")
    listed = root.get(SOURCES, {"q": source.sha256[:10]}).context["cl"].result_list
    assert list(listed) == [source]
