"""Does the control room work in a browser: readable, reachable, live, and policy-clean?"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from buildqueue.models import BuildJob, JobProgress, LogChunk
from buildqueue.queue import handlers
from tests.factories import make_agent, make_job
from tests.support.waiting import wait_until

from . import decided, hosted, scene
from .conftest import IMAGES, OpenPage

pytestmark = pytest.mark.browser

HOME = "/admin/buildqueue/"
OVERVIEW = f"{HOME}overview/"
JOBS = f"{HOME}buildjob/"
ACTIONS = f"{HOME}jobaction/"
PICTURED = (
    "overview",
    "jobs",
    "job",
    "agent",
)  # in the docs; a test's own folder gets all
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 420, "height": 900}


def hosted_addresses(job: BuildJob) -> dict[str, str]:
    """Return the pages of what the build system keeps."""
    made = hosted.build(job.agent, job.owner_id)
    agent, secret = f"{HOME}agent/", f"{HOME}ownersecret/"
    return {
        "agent": f"{agent}{job.agent_id}/change/",
        "rollback": f"{agent}acts/rollback/?id={job.agent_id}&from=page",
        "scale": f"{agent}acts/scale/?id={job.agent_id}&from=page",
        "build": f"{HOME}agentbuild/{made.failed.pk}/change/",
        "builds": f"{HOME}agentbuild/",
        "connector": f"{HOME}mcpconnector/{made.connector.pk}/change/",
        "watch": f"{HOME}sourcewatch/{made.watch.pk}/change/",
        "watches": f"{HOME}sourcewatch/",
        "proposal": f"{HOME}proposal/{made.proposal.pk}/change/",
        "proposals": f"{HOME}proposal/",
        "secret": f"{secret}{made.secret.pk}/change/",
        "set": f"{secret}acts/set/?id={made.secret.pk}&from=page",
        "sources": f"{HOME}source/",
    }


def addresses(job: BuildJob) -> dict[str, str]:
    report = BuildJob.objects.get(kind=scene.REPORT, status="in_progress")
    asks = BuildJob.objects.get(status="waiting_input")
    waits = BuildJob.objects.get(status="waiting_approval")
    review = waits.actions.get(key="mail")
    kept = hosted_addresses(job)
    return {
        "overview": OVERVIEW,
        "jobs": JOBS,
        "job": f"{JOBS}{job.pk}/change/",
        "report": f"{JOBS}{report.pk}/change/",
        "question": f"{JOBS}{asks.pk}/change/",
        "answer": f"{JOBS}acts/answer/?id={asks.pk}&from=page",
        "due": f"{JOBS}acts/change_due/?id={asks.pk}",
        "approval": f"{JOBS}{waits.pk}/change/",
        "actions": f"{ACTIONS}?status=all",
        "action": f"{ACTIONS}{review.pk}/change/",
        "approve": f"{ACTIONS}acts/approve/?id={review.pk}&from=page",
        "confirm": f"{JOBS}acts/cancel/?id={job.pk}&from=page",
        **kept,
    }


# What a page must keep to be usable by everybody; each entry tells what breaks it.
CHECKS = """
() => {
  const seen = [...document.querySelectorAll('#content *')].filter(
    (e) => e.offsetParent !== null || e.tagName === 'CAPTION');
  const broken = [];
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at)))
    broken.push(`id ${id} twice`);
  for (const e of document.querySelectorAll('[aria-labelledby]'))
    if (!document.getElementById(e.getAttribute('aria-labelledby')))
      broken.push(`label ${e.getAttribute('aria-labelledby')} missing`);
  for (const table of document.querySelectorAll('table.bq-table')) {
    if (!table.caption?.textContent.trim()) broken.push('table without caption');
    for (const th of table.querySelectorAll('th'))
      if (!th.scope) broken.push(`th without scope: ${th.textContent.trim()}`);
  }
  for (const e of document.querySelectorAll('.bq-badge'))
    if (!e.textContent.replace(e.firstChild.textContent, '').trim())
      broken.push('status without a word');
  for (const e of document.querySelectorAll('.bq a, .bq button, .bq summary, .bq label')) {
    const box = e.getBoundingClientRect();
    if (e.offsetParent && !e.closest('p, pre') && box.height < 24)
      broken.push(`target of ${box.height} px: ${e.textContent.trim()}`);
  }
  for (const e of document.querySelectorAll('.bq input:not([type=hidden])'))
    if (!e.labels.length) broken.push(`input ${e.name} without label`);
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1)
    broken.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  for (const e of document.querySelectorAll('[style], [onclick], style, script:not([src])'))
    if (e.closest('#content')) broken.push(`inline: ${e.outerHTML.slice(0, 80)}`);
  return broken;
}
"""

# The contrast of every visible text of the app's own parts, by WCAG's formula.
CONTRAST = """
() => {
  const canvas = document.createElement('canvas').getContext('2d');
  const paint = (colors) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map(
      (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const low = new Set();
  for (const e of document.querySelectorAll('.bq *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim());
    if (!own || !e.offsetParent || e.closest('.bq-hidden')) continue;
    const layers = [];
    let faded = 1;
    for (let up = e; up; up = up.parentElement) {
      layers.unshift(getComputedStyle(up).backgroundColor);
      faded *= Number(getComputedStyle(up).opacity);
    }
    const ground = paint(['white', ...layers]);
    const ink = paint(['white', ...layers, getComputedStyle(e).color]);
    const mixed = ink.map((v, at) => v * faded + ground[at] * (1 - faded));
    const [a, b] = [light(mixed), light(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5)
      low.add(`${ratio.toFixed(2)}: ${e.className} ${e.textContent.trim()}`);
  }
  return [...low];
}
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_every_page_is_readable_reachable_and_policy_clean(
    open_page: OpenPage,
    faults: list[str],
    images: Path,
    monkeypatch: pytest.MonkeyPatch,
    theme: str,
    size: str,
) -> None:
    # The pictures offer no kinds of the tests.
    monkeypatch.setattr(handlers, "kinds", lambda: list(scene.KINDS))
    job = scene.build()
    viewport = WIDE if size == "wide" else NARROW

    for name, address in addresses(job).items():
        page = open_page(address, viewport=viewport, color_scheme=theme)
        page.wait_for_load_state("networkidle")
        assert page.evaluate(CHECKS) == [], name
        assert page.evaluate(CONTRAST) == [], name
        suffix = theme if size == "wide" else f"narrow-{theme}"
        if name in PICTURED or images != IMAGES:
            page.screenshot(path=images / f"{name}-{suffix}.png", full_page=True)
        page.close()
        assert faults == [], name


def _print(job: BuildJob, seq: int, text: str, step: str | None = None) -> None:
    LogChunk.objects.create(
        job_id=job.pk,
        run_id=job.lease_id or uuid.uuid4(),
        attempt=1,
        seq=seq,
        stream="stdout",
        step=step,
        text=text,
    )


def test_the_name_of_a_step_that_begins_appears_by_itself(
    open_page: OpenPage, faults: list[str]
) -> None:
    job = make_job("in_progress")
    _print(job, 1, "==> build\nhalf", "build")
    page = open_page(f"{JOBS}{job.pk}/change/")
    log = page.locator("[data-bq-log]")

    _print(job, 2, " a line\n", "build")
    _print(job, 3, "==> start\nup\n", "start")
    _print(job, 4, "from the middle\n", "<b>health")
    log.get_by_text("from the middle").wait_for()

    assert log.locator(".bq-step").all_inner_texts() == [
        "==> build",
        "==> start",
        "==> <b>health",
    ]
    assert "half a line" in log.inner_text().split("\n")
    assert faults == []


def test_new_lines_and_the_end_appear_by_themselves(
    open_page: OpenPage, faults: list[str]
) -> None:
    job = make_job("in_progress")
    _print(job, 1, "first\nhalf")
    page = open_page(f"{JOBS}{job.pk}/change/")
    log = page.locator("[data-bq-log]")

    _print(job, 2, " a line\n<b>\x1b[31mred\x1b[0m\n")
    log.get_by_text("red", exact=True).wait_for()
    BuildJob.objects.filter(pk=job.pk).update(
        status="done", completed_at=job.picked_at, lease_id=None, lease_until=None
    )
    page.get_by_text("The job has ended.").wait_for()

    assert log.inner_text().split("\n")[:4] == [
        "attempt 1",
        "first",
        "half a line",
        "<b>red",
    ]
    assert log.locator("b").count() == 0
    assert (
        "done" in page.locator("[data-bq-region=summary] .bq-badge").first.inner_text()
    )
    assert faults == []


def test_updates_stop_while_they_are_switched_off(open_page: OpenPage) -> None:
    job = make_job("in_progress")
    page = open_page(f"{JOBS}{job.pk}/change/")
    page.clock.install()
    page.reload()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Live updates").uncheck()
    page.get_by_text("Live updates paused.").wait_for()
    asked.clear()

    _print(job, 1, "unseen\n")
    page.clock.fast_forward(60_000)
    page.evaluate("() => fetch('/admin/')")

    assert [url for url in asked if "/log/" in url] == []
    page.get_by_label("Live updates").check()
    page.get_by_text("unseen").wait_for()


def test_a_lost_connection_is_told_and_made_up_for(open_page: OpenPage) -> None:
    job = make_job("in_progress")
    page = open_page(f"{JOBS}{job.pk}/change/")
    page.route("**/log/?since=*", lambda route: route.abort())
    page.get_by_text("Connection lost, retrying in").wait_for()
    _print(job, 1, "after all\n")

    page.unroute("**/log/?since=*")

    page.get_by_text("after all").wait_for()


def test_a_job_is_cancelled_with_a_reason_without_any_script(
    browser: Any, open_page: OpenPage
) -> None:
    job = make_job()
    page = open_page(f"{JOBS}{job.pk}/change/", java_script_enabled=False)

    page.get_by_role("link", name="Cancel", exact=True).click()
    page.get_by_label("Reason").fill("not needed")
    page.get_by_role("button", name="Cancel 1 job").click()

    page.get_by_text("The job is cancelled.").wait_for()
    wait_until(lambda: BuildJob.objects.filter(pk=job.pk, status="cancelled").exists())


def test_a_question_is_answered_and_an_action_approved_without_any_script(
    open_page: OpenPage,
) -> None:
    asks, waits = decided.asks(), decided.waits_for_approval()
    page = open_page(f"{JOBS}{asks.pk}/change/", java_script_enabled=False)

    page.get_by_role("link", name="Answer", exact=True).click()
    page.get_by_label("Sender").select_option("sales")
    page.get_by_label("Mails at once").fill("12")
    page.get_by_label("Send one to yourself first").select_option("yes")
    page.get_by_role("button", name="Answer").click()
    page.get_by_text("Your answer is stored; the job goes on.").wait_for()

    page = open_page(f"{JOBS}{waits.pk}/change/", java_script_enabled=False)
    page.get_by_role("link", name="Approve", exact=True).click()
    page.get_by_text("Your invoice for November").wait_for()
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("Approved; the job goes on and does it, once.").wait_for()

    given = JobProgress.objects.get(pk=asks.pk).answers
    assert given == {"sender": "sales", "batch": 12, "test_first": True}
    assert waits.actions.get(key="mail").status == "approved"


def test_an_agent_is_rolled_back_from_its_page_without_any_script(
    open_page: OpenPage,
) -> None:
    agent = make_agent(name="search-api", status="running", version="2.3.0")
    hosted.build(agent, agent.owner_id)
    page = open_page(f"{HOME}agent/{agent.pk}/change/", java_script_enabled=False)

    page.get_by_role("link", name="Roll back", exact=True).click()
    page.get_by_label("Version").select_option("2.1.0")
    page.get_by_label("Reason").fill("2.3.0 answers nonsense")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_text("The version is being deployed.").wait_for()

    build = agent.builds.order_by("-created_at").first()
    assert build is not None
    assert build.job is not None
    assert (build.version_tag, build.job.kind) == ("2.1.0", "rollback")
    page.get_by_role("link", name=str(build.job), exact=True).click()
    page.get_by_text("2.3.0 answers nonsense").first.wait_for()


def test_progress_appears_by_itself(open_page: OpenPage) -> None:
    job = make_job("in_progress")
    page = open_page(f"{JOBS}{job.pk}/change/")
    page.get_by_text("Runs", exact=True).wait_for()

    JobProgress.objects.create(job=job, done=3, total=4, message="pages read")

    page.get_by_text("3 of 4").wait_for()


def test_an_overview_refreshes_without_losing_its_reader(open_page: OpenPage) -> None:
    page = open_page(OVERVIEW)
    page.clock.install()
    page.reload()
    make_job("failed", error_code="told_to")

    page.clock.fast_forward(11_000)

    page.get_by_text("told_to").wait_for()
