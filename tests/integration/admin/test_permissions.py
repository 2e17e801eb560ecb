"""Who may do what? Every act, posted by everybody, in both ways it can be posted."""

from __future__ import annotations

import pytest
from django.test import Client

from buildqueue.models import BuildJob
from buildqueue.queue.verbs import VERBS
from tests.factories import make_job

from .conftest import Login
from .pages import JOBS, act_url

SOURCE = {
    "retry": "failed",
    "cancel": "pending",
    "pause": "pending",
    "resume": "paused",
    "release": "in_progress",
    "force_fail": "pending",
}
RESULT = {
    "retry": "pending",
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "pending",
    "release": "pending",
    "force_fail": "failed",
}
PERMISSION = {name: perm.split(".")[1] for name, (_v, _t, perm) in VERBS.items()}
OTHERS = ("view_payload", "view_log", "change_buildjob", "add_buildjob")


def status_of(job: BuildJob) -> str:
    return BuildJob.objects.values_list("status", flat=True).get(pk=job.pk)


def post_act(client: Client, name: str, job: BuildJob) -> int:
    asked = {"id": str(job.pk), "reason": "because"}
    return client.post(act_url(name), asked).status_code


def post_action(client: Client, name: str, job: BuildJob) -> int:
    asked = {"action": name, "_selected_action": str(job.pk), "index": "0"}
    return client.post(JOBS, asked).status_code


def test_the_table_names_every_verb() -> None:
    assert set(SOURCE) == set(RESULT) == set(VERBS)


@pytest.mark.django_db
@pytest.mark.parametrize("verb", sorted(SOURCE))
def test_nobody_without_a_login_can_act(client: Client, verb: str) -> None:
    job = make_job(SOURCE[verb])

    assert post_act(client, verb, job) == 302
    assert post_action(client, verb, job) == 302
    assert status_of(job) == SOURCE[verb]


@pytest.mark.parametrize("verb", sorted(SOURCE))
def test_a_user_who_is_not_staff_cannot_act(
    login: Login, verb: str, client: Client
) -> None:
    from tests.factories import make_user

    client.force_login(make_user("owner", "view_buildjob", PERMISSION[verb]))
    job = make_job(SOURCE[verb])

    assert post_act(client, verb, job) == 302
    assert status_of(job) == SOURCE[verb]


@pytest.mark.parametrize("verb", sorted(SOURCE))
def test_who_may_only_view_can_run_nothing(login: Login, verb: str) -> None:
    viewer, job = login("view_buildjob"), make_job(SOURCE[verb])

    assert post_act(viewer, verb, job) == 403
    assert viewer.get(act_url(verb), {"id": str(job.pk)}).status_code == 403
    post_action(viewer, verb, job)
    assert status_of(job) == SOURCE[verb]
    assert f'value="{verb}"' not in viewer.get(JOBS).content.decode()


@pytest.mark.parametrize("verb", sorted(SOURCE))
def test_no_other_permission_opens_a_verb(login: Login, verb: str) -> None:
    others = sorted({*PERMISSION.values()} - {PERMISSION[verb]})
    user, job = (
        login("view_buildjob", *others, *OTHERS, name="o"),
        make_job(SOURCE[verb]),
    )

    assert post_act(user, verb, job) == 403
    post_action(user, verb, job)
    assert status_of(job) == SOURCE[verb]


@pytest.mark.parametrize("verb", sorted(SOURCE))
def test_a_verbs_own_permission_opens_it(login: Login, verb: str) -> None:
    user, job = login("view_buildjob", PERMISSION[verb]), make_job(SOURCE[verb])

    confirmation = post_action(user, verb, job)

    assert confirmation == 200
    assert status_of(job) == SOURCE[verb]  # asked first
    assert post_act(user, verb, job) == 302
    assert status_of(job) == RESULT[verb]


@pytest.mark.parametrize("verb", sorted(SOURCE))
def test_a_verbs_permission_without_seeing_jobs_is_not_enough(
    login: Login, verb: str
) -> None:
    user, job = login(PERMISSION[verb]), make_job(SOURCE[verb])

    assert post_act(user, verb, job) == 403
    assert status_of(job) == SOURCE[verb]


@pytest.mark.parametrize("verb", sorted(SOURCE))
def test_a_superuser_can_act(root: Client, verb: str) -> None:
    job = make_job(SOURCE[verb])

    assert post_act(root, verb, job) == 302
    assert status_of(job) == RESULT[verb]


@pytest.mark.parametrize("verb", sorted(SOURCE))
def test_a_post_without_the_csrf_token_is_refused(login: Login, verb: str) -> None:
    user, job = login("view_buildjob", PERMISSION[verb]), make_job(SOURCE[verb])
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = user.cookies

    assert post_act(strict, verb, job) == 403
    assert status_of(job) == SOURCE[verb]


@pytest.mark.parametrize("address", ["add/", "{pk}/delete/"])
def test_even_a_superuser_gets_no_form_to_add_or_delete(
    root: Client, address: str
) -> None:
    job = make_job()

    assert root.get(JOBS + address.format(pk=job.pk)).status_code == 403
    assert (
        root.post(JOBS + address.format(pk=job.pk), {"post": "yes"}).status_code == 403
    )
    assert BuildJob.objects.filter(pk=job.pk).exists()


def test_a_posted_change_form_changes_nothing(root: Client) -> None:
    job = make_job()

    answer = root.post(f"{JOBS}{job.pk}/change/", {"status": "done", "queue": "x"})

    assert answer.status_code == 403
    assert status_of(job) == "pending"


MODELS = (
    "agent",
    "agentbuild",
    "agentdeployment",
    "agentversion",
    "apitoken",
    "buildjob",
    "jobaction",
    "mcpconnector",
    "mcpconnectorbuild",
    "notice",
    "overview",
    "ownersecret",
    "proposal",
    "source",
    "sourcewatch",
    "worker",
)


@pytest.mark.parametrize("model", MODELS)
def test_each_list_needs_its_own_view_permission(login: Login, model: str) -> None:
    others = [f"view_{name}" for name in MODELS if name != model]
    stranger, reader = login(*others, name="s"), login(f"view_{model}", name="r")

    assert stranger.get(f"/admin/buildqueue/{model}/").status_code == 403
    assert reader.get(f"/admin/buildqueue/{model}/").status_code == 200


@pytest.mark.parametrize(
    ("address", "permission"),
    [
        ("buildjob/", "view_buildjob"),
        ("buildjob/{pk}/change/", "view_buildjob"),
        ("overview/", "view_overview"),
    ],
)
def test_who_may_not_see_a_page_is_told_the_permission(
    login: Login, address: str, permission: str
) -> None:
    page = login("view_worker").get(
        f"/admin/buildqueue/{address.format(pk=make_job().pk)}"
    )

    assert page.status_code == 403
    assert f"<code>buildqueue.{permission}</code>" in page.content.decode()


@pytest.mark.parametrize(
    ("address", "permission"),
    [
        ("acts/cancel/?id={pk}", "cancel_buildjob"),
        ("{pk}/log/raw/", "view_log"),
    ],
)
def test_who_may_not_do_something_is_told_the_permission(
    login: Login, address: str, permission: str
) -> None:
    page = login("view_buildjob").get(JOBS + address.format(pk=make_job().pk))

    assert page.status_code == 403
    assert f"<code>buildqueue.{permission}</code>" in page.content.decode()


@pytest.mark.parametrize("model", MODELS)
def test_each_list_stands_in_the_index_of_the_admin(root: Client, model: str) -> None:
    assert f'href="/admin/buildqueue/{model}/"' in root.get("/admin/").content.decode()
