"""What does a build's page tell of its source, its failure and its output?"""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from buildqueue.admin import repositories
from buildqueue.models import AgentBuild, McpConnectorBuild
from tests.factories import make_agent, make_build, make_connector, make_job

from .builtrows import CIPHERTEXT, make_deployment
from .conftest import Login
from .pages import html_of, page_of, text_of

SHA = "0123456789abcdef" * 4
COMMIT = "9f2b41c7d05e8a36b1c2d3e4f5061728394a5b6c"


def make_builds(**values: Any) -> tuple[AgentBuild, McpConnectorBuild]:
    """Make a build of an agent and one of a connector, alike."""
    of_agent = make_build(make_agent(), **values)
    of_connector = McpConnectorBuild.objects.create(
        connector=make_connector(), owner_id="1", version_tag="1.0.0", **values
    )
    return of_agent, of_connector


def test_a_failed_build_tells_how_far_it_came_why_and_what_helps(root: Client) -> None:
    for build in make_builds(
        phase="build",
        error_code="dependency_failed",
        error_msg="pip found nothing\nERROR: <no match>",
        hint="correct requirements.txt",
        exit_code=2,
        host="builder-1",
    ):
        page = text_of(root.get(page_of(build)))

        for words in (
            "Version: 1.0.0",
            "Phase: build",
            "Error: dependency_failed",
            "pip found nothing ERROR: <no match>",
            "What helps: correct requirements.txt",
            "Exit code: 2",
            "Host: builder-1",
        ):
            assert words in page


def test_the_lists_tell_the_version_that_a_build_makes(root: Client) -> None:
    for build in make_builds():
        page = root.get(f"/admin/buildqueue/{build._meta.model_name}/")
        assert '<td class="field-made_version">1.0.0</td>' in html_of(page)


def test_a_build_of_an_archive_tells_name_checksum_and_size(root: Client) -> None:
    key = f"sources/01/{SHA}.zip"
    for build in make_builds(source_key=key, source_sha256=SHA, source_size=48_211):
        page = text_of(root.get(page_of(build)))

        assert key in page
        assert f"Checksum (SHA-256): {SHA}" in page
        assert "Size: 47.1 KB" in page.replace("\N{NO-BREAK SPACE}", " ")


def test_a_build_of_a_repository_links_it_and_its_commit(root: Client) -> None:
    for build in make_builds(
        github_url="https://github.com/acme/search.git",
        commit_hash=COMMIT,
        source_ref="main",
        source_secret="GIT_TOKEN",
    ):
        page = root.get(page_of(build))

        assert 'href="https://github.com/acme/search.git"' in html_of(page)
        assert f'href="https://github.com/acme/search/commit/{COMMIT}"' in html_of(page)
        assert "Branch or tag: main" in text_of(page)
        assert "Secret for it: GIT_TOKEN" in text_of(page)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://github.com/a/b", "http://github.com/a/b"),
        ("ssh://git@git.example/a", "ssh://git.example/a"),
        ("git@git.example:a/b.git", "git@git.example:a/b.git"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("file:///etc/passwd", "file:///etc/passwd"),
        ("", "–"),  # noqa: RUF001 (the empty value)
        (None, "–"),  # noqa: RUF001
    ],
)
def test_only_an_address_of_https_is_a_link(address: str | None, shown: str) -> None:
    assert repositories.repository(address) == shown
    assert "href" not in repositories.commit(address, COMMIT)


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b/commit/"),
        ("https://u:hunter2@github.com/a/b/", "https://github.com/a/b/commit/"),
        ("https://gitlab.com/a/b", "https://gitlab.com/a/b/-/commit/"),
        ("https://bitbucket.org/a/b", "https://bitbucket.org/a/b/commits/"),
    ],
)
def test_a_commit_leads_to_where_its_host_shows_it(address: str, link: str) -> None:
    assert f'href="{link}{COMMIT}"' in repositories.commit(address, COMMIT)


@pytest.mark.parametrize("name", ["main", "../../x", '"><script>', "ABCDEF0", ""])
def test_what_is_no_commit_is_no_link(name: str) -> None:
    shown = repositories.commit("https://github.com/a/b", name)

    assert "href" not in shown
    assert "<script>" not in shown


@pytest.mark.parametrize(
    "address",
    [
        "https://hunter2@git.example/a",
        "https://u:hunter2@git.example/a",
        "https://git.example/a?token=hunter2",
        "https://git.example/a#hunter2",
        "https://[hunter2@git.example/a",
    ],
)
def test_no_login_in_an_address_is_shown(address: str) -> None:
    assert "hunter2" not in repositories.repository(address)
    assert "hunter2" not in repositories.commit(address, COMMIT)


def test_a_build_leads_to_its_job_and_its_log(root: Client) -> None:
    job = make_job("failed")
    for build in make_builds(job=job):
        page = html_of(root.get(page_of(build)))

        assert f'href="{page_of(job)}"' in page
        assert f'href="{page_of(job)}#bq-log-title"' in page


def test_last_lines_are_shown_to_who_may_see_logs(login: Login) -> None:
    of_agent, of_connector = make_builds(logs="\x1b[31mprinted <b>\n")
    deployment = make_deployment(of_agent.agent, last_logs="printed <b>")
    connector = of_connector.connector
    type(connector).objects.filter(pk=connector.pk).update(last_logs="printed <b>")
    rows = [of_agent, of_connector, deployment, connector]
    sees = [f"view_{row._meta.model_name}" for row in rows]
    without, reader = login(*sees, name="a"), login(*sees, "view_log", name="b")

    for row in rows:
        assert "printed <b>" in text_of(reader.get(page_of(row))), row
        assert "printed" not in text_of(without.get(page_of(row))), row


def test_no_page_of_builds_reads_a_ciphertext(root: Client) -> None:
    for build in make_builds(secrets_env={"KEY": CIPHERTEXT}, source_token=CIPHERTEXT):
        model = build._meta.model_name
        for address in (page_of(build), f"/admin/buildqueue/{model}/"):
            assert CIPHERTEXT not in html_of(root.get(address))
