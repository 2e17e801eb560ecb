"""Is every address, ref, commit and token checked before git sees it?"""

from __future__ import annotations

import pytest

from buildqueue.backends.gitaddress import (
    GitAccess,
    check_commit,
    check_ref,
    check_token,
    check_url,
)
from buildqueue.backends.gitenvironment import authorization, secret_forms
from buildqueue.exceptions import Rejected

USUAL = GitAccess()
ANY = GitAccess(hosts=("*",))
HASH = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("https://github.com/team/app", "https://github.com/team/app"),
        ("https://github.com/team/app.git/", "https://github.com/team/app.git"),
        ("HTTPS://GitHub.com:443/Team/App", "https://github.com/Team/App"),
        ("https://gitlab.com/a/b/c/~d%20e", "https://gitlab.com/a/b/c/~d%20e"),
        ("https://github.com/a/@scope+1-x_y", "https://github.com/a/@scope+1-x_y"),
    ],
)
def test_an_address_is_returned_in_its_plain_form(given: str, plain: str) -> None:
    assert check_url(given, USUAL) == plain


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "git_url_invalid"),
        ("--upload-pack=touch /tmp/x", "git_url_invalid"),
        ("--upload-pack=id;https://github.com/a/b", "git_url_invalid"),
        ("https://github.com/a/b\n", "git_url_invalid"),
        ("https://github.com/a\x00b", "git_url_invalid"),
        ("https://github.com/a b", "git_url_invalid"),
        (" https://github.com/a/b", "git_url_invalid"),
        ("https://github.com/a/\u202eb", "git_url_invalid"),
        ("https://github.com\\@evil.example/a", "git_url_invalid"),
        ("https://github.com/a/../b", "git_url_invalid"),
        ("https://github.com/a/%2e%2e/b", "git_url_invalid"),
        ("https://github.com/a/b%0a", "git_url_invalid"),
        ("https://github.com//a", "git_url_invalid"),
        ("https://github.com/a?b=c", "git_url_invalid"),
        ("https://github.com/a#b", "git_url_invalid"),
        ("https://github.com/", "git_url_invalid"),
        ("https://github.com", "git_url_invalid"),
        ("https:///a/b", "git_url_invalid"),
        ("https:github.com/a/b", "git_url_invalid"),
        ("https://[::1]/a/b", "git_url_invalid"),
        ("https://github.com:99999999/a", "git_url_invalid"),
        ("github.com/a/b", "git_url_invalid"),
        ("/etc", "git_url_invalid"),
        ("../repository", "git_url_invalid"),
        ("https://github.com/" + "a" * 2000, "git_url_invalid"),
        ("file:///etc", "git_protocol_not_allowed"),
        ("http://github.com/a/b", "git_protocol_not_allowed"),
        ("git://github.com/a/b", "git_protocol_not_allowed"),
        ("ssh://git@github.com/a/b", "git_protocol_not_allowed"),
        ("git@github.com:a/b.git", "git_protocol_not_allowed"),
        ("ext::sh", "git_protocol_not_allowed"),
        ("fd::17/x", "git_protocol_not_allowed"),
        ("ftp://github.com/a", "git_protocol_not_allowed"),
        ("https://user@github.com/a/b", "git_credentials_in_url"),
        ("https://user:pa55@github.com/a/b", "git_credentials_in_url"),
        ("https://github.com@evil.example/a", "git_credentials_in_url"),
        ("https://evil.example/a/b", "git_host_not_allowed"),
        ("https://github.com.evil.example/a", "git_host_not_allowed"),
        ("https://agithub.com/a", "git_host_not_allowed"),
        ("https://www.github.com/a", "git_host_not_allowed"),
        ("https://github.com:8443/a/b", "git_host_not_allowed"),
        ("https://127.0.0.1/a/b", "git_host_not_allowed"),
    ],
)
def test_an_address_is_refused_by_its_code(url: str, code: str) -> None:
    with pytest.raises(Rejected) as caught:
        check_url(url, USUAL)

    assert caught.value.code == code


def test_a_refusal_repeats_no_password() -> None:
    with pytest.raises(Rejected) as caught:
        check_url("https://user:pa55@github.com/a/b", USUAL)

    assert "pa55" not in str(caught.value) + caught.value.detail


def test_any_host_is_not_any_port() -> None:
    assert check_url("https://evil.example/a", ANY) == "https://evil.example/a"
    with pytest.raises(Rejected, match="GIT_HOSTS"):
        check_url("https://evil.example:9200/a", ANY)


def test_a_port_is_taken_where_the_list_names_it() -> None:
    access = GitAccess(protocols=("http",), hosts=("127.0.0.1:8001",))

    assert check_url("http://127.0.0.1:8001/a", access) == "http://127.0.0.1:8001/a"
    with pytest.raises(Rejected, match=r"127\.0\.0\.1:8002"):
        check_url("http://127.0.0.1:8002/a", access)


def test_a_protocol_that_is_not_known_is_refused_though_it_is_listed() -> None:
    with pytest.raises(Rejected, match="by ext"):
        check_url("ext::sh", GitAccess(protocols=("https", "ext"), hosts=("*",)))


@pytest.mark.parametrize(
    "ref", ["main", "v1.2", "a/b", "refs/tags/v1", "ünder", "a@b", "a.lock.b"]
)
def test_a_name_of_a_branch_is_taken(ref: str) -> None:
    assert check_ref(ref) == ref


@pytest.mark.parametrize(
    "ref",
    [
        *("", "-x", "--upload-pack=x", "a..b", "a b", "a\nb", "a\x7f", "a~1", "a^{}"),
        *("a:b", "a?", "a*", "[a", "a\\b", "@", "@{-1}", "a//b", "/a", "a/", "a."),
        *(".a", "a/.b", "a.lock", "a.lock/b", "a" * 256),
    ],
)
def test_what_is_no_name_of_a_branch_is_refused(ref: str) -> None:
    with pytest.raises(Rejected) as caught:
        check_ref(ref)

    assert caught.value.code == "git_ref_invalid"


def test_a_full_hash_is_taken_in_either_length_and_case() -> None:
    assert check_commit(HASH.upper()) == HASH
    assert check_commit("a" * 64) == "a" * 64


@pytest.mark.parametrize(
    ("commit", "code"),
    [
        (HASH[:7], "git_commit_short"),
        (HASH[:39], "git_commit_short"),
        (HASH + "0", "git_commit_invalid"),
        (HASH + "\n", "git_commit_invalid"),
        ("main", "git_commit_invalid"),
        ("", "git_commit_invalid"),
        ("-" + HASH[1:], "git_commit_invalid"),
    ],
)
def test_what_is_no_full_hash_is_refused(commit: str, code: str) -> None:
    with pytest.raises(Rejected) as caught:
        check_commit(commit)

    assert caught.value.code == code


@pytest.mark.parametrize(
    "token", ["a b", "secret\n", "secret\r\nX: y", "ü", "s" * 5000]
)
def test_a_token_that_would_break_the_header_is_refused_unseen(token: str) -> None:
    with pytest.raises(Rejected) as caught:
        check_token(token)

    assert caught.value.code == "git_token_invalid"
    assert token not in str(caught.value)


def test_a_token_is_for_the_host_of_the_address_alone() -> None:
    told = authorization("https://git.example:8443/team/app", "secret")

    assert list(told) == ["http.https://git.example:8443/.extraHeader"]
    assert authorization("https://git.example/a", None) == {}


@pytest.mark.parametrize(
    ("host", "token", "credentials"),
    [
        ("github.com", "secret", "eC1hY2Nlc3MtdG9rZW46c2VjcmV0"),
        ("bitbucket.org", "secret", "eC10b2tlbi1hdXRoOnNlY3JldA=="),
        ("gitlab.com", "deployer:secret", "ZGVwbG95ZXI6c2VjcmV0"),
    ],
)
def test_each_host_gets_the_user_it_wants(
    host: str, token: str, credentials: str
) -> None:
    url = f"https://{host}/team/app"

    (header,) = authorization(url, token).values()

    assert header == f"Authorization: Basic {credentials}"
    assert {"secret", credentials, token} <= set(secret_forms(url, token))
