"""What does a connector's page tell, and what may be done there?"""

from __future__ import annotations

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from buildqueue.models import BuildJob, McpConnector, McpConnectorBuild
from tests.factories import make_connector, make_job

from .builtrows import CIPHERTEXT, make_tool
from .pages import act_url, html_of, page_of, text_of

CONNECTORS = "/admin/buildqueue/mcpconnector/"


def fill(connector: McpConnector, number: int) -> None:
    for n in range(number):
        make_tool(connector, name=f"tool-{n}")
        McpConnectorBuild.objects.create(
            connector=connector, owner_id="1", version_tag=f"1.0.{n}"
        )
        make_job(connector=connector)


def running() -> McpConnector:
    return make_connector(
        build_status="running", url="http://127.0.0.1:20001/mcp", host="builder-1"
    )


def test_its_page_tells_its_tools_address_and_crashes(root: Client) -> None:
    connector = make_connector(
        build_status="running",
        url="http://127.0.0.1:20001/mcp",
        restart_count=4,
        crash_reason="it ended with exit code 3",
        crashed_at=timezone.now(),
    )
    make_tool(connector, name="find", description="Finds <things>.")
    make_tool(connector, name="add", title="Adds")

    page = root.get(page_of(connector))

    assert "add Adds" in text_of(page)
    assert "find Finds <things>." in text_of(page)
    assert 'href="http://127.0.0.1:20001/mcp"' in html_of(page)
    assert "Restart count: 4" in text_of(page)
    assert "it ended with exit code 3" in text_of(page)


def test_a_page_of_many_tools_and_builds_costs_the_same(root: Client) -> None:
    small, large = make_connector(), make_connector()
    fill(small, 1)
    fill(large, 101)
    root.get(page_of(small))
    with CaptureQueriesContext(connection) as few:
        root.get(page_of(small))
    with CaptureQueriesContext(connection) as many:
        page = root.get(page_of(large))

    assert len(many) == len(few) <= 12
    assert "the first 100" in text_of(page)
    assert f"/admin/buildqueue/mcpconnectorbuild/?connector={large.pk}" in html_of(page)


def test_deleting_it_takes_it_from_the_list_and_keeps_its_page(root: Client) -> None:
    connector = running()
    asked = {"id": str(connector.pk), "from": "page", "reason": "moved"}

    answer = root.post(act_url("retire", "mcpconnector"), asked, follow=True)

    connector.refresh_from_db()
    assert connector.deleted_at is not None
    assert "The connector is deleted." in text_of(answer)
    assert answer.redirect_chain[-1][0] == page_of(connector)
    assert page_of(connector) not in html_of(root.get(CONNECTORS))


def test_refreshing_the_tools_queues_a_job(root: Client) -> None:
    connector = running()
    asked = {"id": str(connector.pk), "from": "page"}

    answer = root.post(act_url("refresh", "mcpconnector"), asked, follow=True)

    assert "The connector is being asked for its tools." in text_of(answer)
    assert BuildJob.objects.get(connector=connector).kind == "connector_refresh"


def test_a_connector_that_does_not_run_says_so_in_words(root: Client) -> None:
    connector = make_connector()

    answer = root.post(
        act_url("refresh", "mcpconnector"), {"id": str(connector.pk)}, follow=True
    )

    assert "the connector runs on no host of ours" in text_of(answer)
    assert not BuildJob.objects.exists()


def test_no_page_of_a_connector_shows_a_ciphertext(root: Client) -> None:
    connector = make_connector(
        build_secrets_env={"KEY": CIPHERTEXT},
        headers={"X-Key": CIPHERTEXT},
        oauth_client_secret=CIPHERTEXT,
    )

    page = html_of(root.get(page_of(connector)))

    assert "KEY, X-Key" in page
    assert CIPHERTEXT not in page
    assert CIPHERTEXT not in html_of(root.get(CONNECTORS))
