"""Is each owner's key their own, and what cannot be read refused without a word of it?"""

from __future__ import annotations

import base64
import string
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from buildqueue import checks, conf
from buildqueue.builds import secrets
from buildqueue.builds.secrets import keys
from buildqueue.exceptions import Refused, Rejected

OLD, NEW = "o" * 40, "n" * 40
VALUE = "correct horse battery staple"


def having(*given: Any) -> override_settings:
    """Return settings with these keys."""
    return override_settings(BUILDQUEUE={"SECRET_KEYS": list(given)})


@pytest.fixture(autouse=True)
def _keys() -> Iterator[None]:
    with having(OLD):
        yield


@given(owner=st.text(max_size=20), text=st.text(alphabet=st.characters(codec="utf-8")))
def test_what_is_encrypted_is_read_again(owner: str, text: str) -> None:
    token = secrets.encrypt(owner, text)

    assert secrets.decrypt(owner, token) == text
    assert token.isascii()


def test_the_key_is_derived_as_the_documents_say() -> None:
    derived = HKDF(
        algorithm=SHA256(), length=32, salt=None, info=b"buildqueue owner anna"
    ).derive(OLD.encode())

    token = Fernet(base64.urlsafe_b64encode(derived)).encrypt(VALUE.encode())

    assert secrets.decrypt("anna", token.decode()) == VALUE


def test_another_owner_cannot_read_it() -> None:
    token = secrets.encrypt("anna", VALUE)

    with pytest.raises(Rejected) as refused:
        secrets.decrypt("bert", token)

    assert refused.value.code == "secret_unreadable"
    assert "SECRET_KEYS" in str(refused.value)
    assert token not in str(refused.value)


def test_a_runtime_opens_what_was_sealed_before_a_rotation(settings: Any) -> None:
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "SECRET_KEYS": ("a" * 40,)}
    (before,) = secrets.runtime_keys("h1").split(",")
    settings.BUILDQUEUE = {**settings.BUILDQUEUE, "SECRET_KEYS": ("b" * 40, "a" * 40)}
    newest, older = secrets.runtime_keys("h1").split(",")

    assert older == before
    assert newest != before


def test_the_key_of_a_runtime_is_no_owners_key() -> None:
    sealed = Fernet(secrets.runtime_keys("h1").split(",")[0])

    assert secrets.runtime_keys("h1") != secrets.runtime_keys("h2")
    with pytest.raises(Rejected):
        secrets.decrypt("h1", sealed.encrypt(b"x").decode())


@pytest.mark.parametrize("token", ["", "x", "ä", "gAAAA", "Z0FBQUFB" * 40, VALUE])
def test_what_is_no_ciphertext_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(Rejected) as refused:
        secrets.decrypt("anna", token)

    assert refused.value.code == "secret_unreadable"
    assert VALUE not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("stored", [{"A": None}, {"A": 5}, {"A": ["x"]}])
def test_an_environment_of_other_things_than_ciphertext_is_refused(
    stored: dict[str, Any],
) -> None:
    with pytest.raises(Rejected, match="secret A"):
        secrets.decrypt_env("anna", stored)


def test_one_unreadable_variable_refuses_the_whole_environment() -> None:
    stored = secrets.encrypt_env("anna", {"GOOD": "1", "BAD": "2"})
    stored["BAD"] = secrets.encrypt("bert", VALUE)

    with pytest.raises(Rejected) as refused:
        secrets.decrypt_env("anna", stored)

    assert refused.value.code == "secret_unreadable"
    assert "BAD" in str(refused.value)


def test_the_newest_key_writes_and_the_others_read() -> None:
    old = secrets.encrypt("anna", VALUE)
    with having(NEW, OLD):
        assert secrets.decrypt("anna", old) == VALUE
        fresh = secrets.encrypt("anna", VALUE)
    with having(NEW):
        assert secrets.decrypt("anna", fresh) == VALUE
        with pytest.raises(Rejected, match="SECRET_KEYS"):
            secrets.decrypt("anna", old)


def test_only_what_another_key_wrote_is_renewed() -> None:
    old = secrets.encrypt("anna", VALUE)
    with having(NEW, OLD):
        fresh = keys.renewed("anna", old)
        assert fresh is not None
        assert keys.renewed("anna", fresh) is None
    with having(NEW):
        assert secrets.decrypt("anna", fresh) == VALUE


def test_without_keys_djangos_own_and_its_fallbacks_are_used() -> None:
    with override_settings(BUILDQUEUE={}, SECRET_KEY="first"):
        old = secrets.encrypt("anna", VALUE)
    with override_settings(
        BUILDQUEUE={}, SECRET_KEY=b"second", SECRET_KEY_FALLBACKS=["first"]
    ):
        assert secrets.decrypt("anna", old) == VALUE
    with override_settings(BUILDQUEUE={}, SECRET_KEY="third"), pytest.raises(Rejected):
        secrets.decrypt("anna", old)


@pytest.mark.parametrize("given", ["hunter2-as-a-plain-text", ["fine", 5], ["", OLD]])
def test_faulty_keys_are_told_without_them_and_nothing_else_encrypts(
    given: Any,
) -> None:
    with override_settings(BUILDQUEUE={"SECRET_KEYS": given}):
        [fault] = checks.check_settings(None)
        with pytest.raises(ImproperlyConfigured):
            secrets.encrypt("anna", VALUE)

    assert "SECRET_KEYS" in fault.msg
    assert not [key for key in ("hunter2", "fine", OLD) if key in fault.msg]


def test_no_key_is_shown_with_the_settings() -> None:
    assert OLD not in repr(conf.get())


def test_a_short_key_is_warned_of_by_its_place() -> None:
    with having(OLD, "short"):
        [warning] = checks.check_secrets(None)

    assert warning.id == "buildqueue.W001"
    assert "[1]" in warning.msg
    assert "short" not in warning.msg.replace("shorter", "")


@pytest.mark.parametrize("path", ["nowhere.at.all", "os.nothing", "word", "os.sep"])
def test_a_provider_that_is_no_function_is_told(path: str) -> None:
    with override_settings(BUILDQUEUE={"ENV_PROVIDERS": ["os.getcwd", path]}):
        [fault] = checks.check_secrets(None)

    assert fault.id == "buildqueue.E004"
    assert path in fault.msg


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"A": ""},
        {"_a1": "two\nlines\r\n\ttab"},
        {"path": "lower case is another name", "HOSTNAME": "x", "PORTS": "1"},
        {"N" * 128: "v" * 32 * 1024},
        {f"V{i}": "ü" for i in range(100)},
    ],
)
def test_a_sound_environment_is_taken(env: dict[str, str]) -> None:
    secrets.check_env(env)


@pytest.mark.parametrize("name", ["HOST", "PORT", "PATH", "PYTHONPATH", "LD_PRELOAD"])
def test_a_reserved_name_is_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        secrets.check_env({name: VALUE, "FINE": VALUE})

    assert refused.value.code == "invalid_environment"
    assert set(refused.value.fields) == {name}
    assert "reserved" in refused.value.fields[name]


@pytest.mark.parametrize(
    "env",
    [
        {"": VALUE},
        {"1A": VALUE},
        {"A-B": VALUE},
        {"A=B": VALUE},
        {"A\n": VALUE},
        {"Ä": VALUE},
        {"N" * 129: VALUE},
        {"A": VALUE + "\0"},
        {"A": VALUE + "\ud800"},
        {"A": VALUE * 2000},
        {"A": 5},
        {"A": None},
        {5: VALUE},
        {f"V{i}": VALUE for i in range(101)},
        {f"V{i}": "v" * 32 * 1024 for i in range(20)},
    ],
)
def test_an_environment_that_cannot_be_given_is_refused_without_its_values(
    env: dict[Any, Any],
) -> None:
    with pytest.raises(Refused) as refused:
        secrets.check_env(env)

    said = f"{refused.value} {refused.value.fields}"
    assert refused.value.code == "invalid_environment"
    assert refused.value.fields
    assert VALUE not in said
    assert set(said) <= set(string.printable) - set("\r\n\t\x0b\x0c")


def test_what_is_stored_is_counted_together() -> None:
    secrets.check_stored({f"V{i}": "x" for i in range(100)})
    for stored in ({f"V{i}": "x" for i in range(101)}, {"A": "x" * 1_000_000}):
        with pytest.raises(Refused):
            secrets.check_stored(stored)
