"""Is a destination taken as it is meant, and a faulty one told without its secret?"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.test import override_settings

from buildqueue import checks, conf
from buildqueue.destinations import NoticeEvent, key_of

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
HOOK: dict[str, Any] = {
    "name": "ops",
    "events": ["job.failed"],
    "webhook": "https://hooks.example.org/T0KEN",
    "secret": SECRET,
}
MAIL: dict[str, Any] = {"name": "me", "events": ["*"], "email": ["ada@example.org"]}


def faults_of(notices: Any) -> list[str]:
    with override_settings(BUILDQUEUE={"NOTICES": notices}):
        return [fault.msg for fault in checks.check_settings(None)]


def test_destinations_are_read_in_order() -> None:
    with override_settings(BUILDQUEUE={"NOTICES": [HOOK, MAIL]}):
        [hook, mail] = conf.get().notices

    assert (hook.name, hook.webhook, hook.secret) == ("ops", HOOK["webhook"], SECRET)
    assert mail.email == ("ada@example.org",)
    assert [e for e in NoticeEvent if hook.wants(e)] == ["job.failed"]
    assert all(mail.wants(event) for event in NoticeEvent)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"webhook": "ftp://x.org/"}, "[0]['webhook']: must be an address that begins"),
        ({"webhook": "https:///x"}, "[0]['webhook']: must be an address that begins"),
        ({"webhook": "https://a:b@x.org/"}, "[0]['webhook']: must hold no user"),
        ({"webhook": "https://x.org/a b"}, "[0]['webhook']: must be written in ASCII"),
        ({"webhook": "https://x.org/a\n"}, "[0]['webhook']: must be written in ASCII"),
        ({"webhook": "https://x.org/\u00e9"}, "[0]['webhook']: must be written in"),
        ({"webhook": "https://x.org:99999/"}, "[0]['webhook']: Port out of range"),
        ({"secret": "whsec_c2hvcnQ="}, "[0]['secret']: must be whsec_ and 24 to 64"),
        ({"secret": "whsec_" + "!" * 40}, "[0]['secret']: must be whsec_ and 24 to"),
        ({"secret": None}, "[0]: 'webhook' and 'secret' go together"),
        ({"webhook": None}, "[0]: give it either 'webhook' with 'secret', or 'email'"),
        ({"email": ["ada@x.org"]}, "[0]: give it either 'webhook' with 'secret', or"),
        ({"email": ["ada"]}, "[0]['email'][0]: is no e-mail address"),
        ({"events": []}, "[0]: name its events, or ['*'] for all"),
        ({"events": "job.done"}, "[0]['events']"),
        ({"events": ["job.finished"]}, "unknown event 'job.finished'; known: *, job.d"),
        ({"name": ""}, "[0]['name']"),
        ({"url": "https://x.org"}, "[0]['url']"),
    ],
)
def test_a_faulty_destination_is_told_with_its_place(
    change: dict[str, Any], said: str
) -> None:
    [fault] = faults_of([HOOK | change])

    assert fault.startswith("BUILDQUEUE['NOTICES']")
    assert said in fault


def test_two_destinations_of_one_name_are_refused() -> None:
    [fault] = faults_of([MAIL, HOOK | {"name": "me"}])

    assert "two destinations are named 'me'" in fault


@pytest.mark.parametrize("given", [HOOK, [HOOK | {"x": 1}], [[SECRET]], [HOOK, HOOK]])
def test_no_fault_repeats_the_secret_or_the_address(given: Any) -> None:
    told = "".join(faults_of(given))

    assert told
    assert SECRET not in told
    assert "T0KEN" not in told


def test_the_settings_show_neither_the_secret_nor_the_address() -> None:
    with override_settings(BUILDQUEUE={"NOTICES": [HOOK]}):
        shown = repr(conf.get())

    assert "'ops'" in shown
    assert SECRET not in shown
    assert "T0KEN" not in shown


@pytest.mark.parametrize("secret", [SECRET, SECRET.removeprefix("whsec_")])
@pytest.mark.parametrize("padding", [True, False])
def test_a_secret_is_read_with_and_without_prefix_and_padding(
    secret: str, padding: bool
) -> None:
    assert key_of(secret if padding else secret.rstrip("=")) == bytes(range(32))
