"""`python -m project.demo [--serve]`: the demo from an empty folder to a called agent."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from django.db import OperationalError

from .. import paths
from .alone import RunsAlready, alone
from .ports import free_port

if TYPE_CHECKING:
    from .client import Client
    from .servers import Servers

SAMPLE = Path(__file__).parent / "sample_agent"
UPLOAD = "/api/agents/upload-and-deploy"
GREETING = "Good day"  # as the sample's Dockerfile has it


def main() -> int:
    """Run the demo; 0 after success, 1 with the reason on standard error."""
    parser = argparse.ArgumentParser(prog="python -m project.demo", description=__doc__)
    parser.add_argument(
        "--serve", action="store_true", help="start all, upload nothing"
    )
    parser.add_argument(
        "--port", type=int, default=os.environ.get("PORT", "8000"), help="PORT, or 8000"
    )
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        run(options.port, upload=not options.serve)
    except KeyboardInterrupt:
        say("stopped")
    except DemoFailed as failed:
        sys.stderr.write(f"\nThe demo failed: {failed}\n")
        return 1
    return 0


class DemoFailed(Exception):
    """A part of the demo did not do what it should; the message tells which and why."""


def run(port: int, *, upload: bool) -> None:
    """Start everything, show it, and stop it again."""
    keep_serving = not upload or (sys.stdin.isatty() and not os.environ.get("ONCE"))
    with ExitStack() as stack:
        try:
            stack.enter_context(alone(paths.data_dir()))
        except RunsAlready as already:
            raise DemoFailed(str(already)) from None
        stack.enter_context(database())
        from django.conf import settings

        from .people import ensure_people
        from .servers import Servers

        try:
            prepare()
        except OperationalError as error:
            raise DemoFailed(f"the database cannot be reached: {error}") from error
        people = ensure_people(settings.DATA_DIR)
        stack.enter_context(local_runtime())
        servers = stack.enter_context(
            Servers(free_port(port), settings.DATA_DIR / "logs")
        )
        servers.wait_until_serving()
        say(f"web server and worker run; their logs are in {settings.DATA_DIR}/logs")
        if upload:
            upload_and_call(servers.base, people.owner_token)
        say(f"admin      {servers.base}/admin/")
        say(f"operator   operator / {people.operator_password}")
        say(f"owner      owner / {people.owner_password}  (the API's user: no admin)")
        say(f"API        {servers.base}/api/openapi.json")
        if keep_serving:
            say(f"token      TOKEN={people.owner_token}  (the owner's, for a day)")
            say("Ctrl-C stops everything")
            serve(servers)
    say("stopped; `make serve` starts it again, with what is there")


def serve(servers: Servers) -> None:
    """Serve until somebody stops the demo; a worker that is killed is replaced."""
    while True:
        if servers.replace_killed_worker():
            say("the worker was killed: started another one")
        servers.check()
        time.sleep(0.5)


@contextmanager
def database() -> Iterator[None]:
    """Have a database: DATABASE_URL, or the embedded one, stopped if we started it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from project import embedded_postgres

    folder = paths.data_dir() / "postgres"
    own = not os.environ.get("DATABASE_URL")
    ran_before = own and embedded_postgres.status(folder).pid is not None
    try:
        django.setup()
        say("database   " + ("embedded PostgreSQL" if own else "DATABASE_URL"))
        yield
    finally:
        if own and not ran_before:
            from django.db import connections

            connections.close_all()
            embedded_postgres.stop(folder)


@contextmanager
def local_runtime() -> Iterator[None]:
    """Stop the host's local runtime, and the agents on it, at the end."""
    from buildqueue.executors import services

    try:
        yield
    finally:
        services.stop_local_runtime()


def prepare() -> None:
    """Bring tables and static files up to date."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)
    call_command("collectstatic", verbosity=0, interactive=False)
    say("tables and static files are up to date")


def upload_and_call(base: str, token: str) -> None:
    """Upload the sample agent, follow its build, call it."""
    from .client import ApiError, Client
    from .follow import follow, print_steps

    client = Client(base, token)
    try:
        began = time.monotonic()
        accepted = client.upload(UPLOAD, sample_zip(), name="hello")
        version = accepted["new_version"]
        say(f"uploaded   hello {version}: job {accepted['job_id']}; its log:")
        job = follow(client, accepted["links"])
        if job["status"] != "done":
            raise DemoFailed(f"the job ended {job['status']}: {job['error']}")
        say(f"deployed in {time.monotonic() - began:.1f} s; the steps:")
        print_steps(job)
        call(client.get(accepted["links"]["agent"]))
        update_and_roll_back(client, accepted["links"]["agent"])
    except ApiError as error:
        raise DemoFailed(str(error)) from error


def update_and_roll_back(client: Client, agent: str) -> None:
    """Give the agent a version that greets otherwise, and lead it back again."""
    source = sample_zip(greeting="Good evening")
    update = client.upload(f"{agent}/update", source, version="patch")
    deployed(client, update, "updated to")
    call(client.get(agent))
    rollback = client.post(f"{agent}/rollback", version=update["previous_version"])
    deployed(client, rollback, "rolled back to")
    call(client.get(agent))


def deployed(client: Client, accepted: dict[str, Any], done: str) -> None:
    """Wait until what was asked for is deployed, and say so."""
    from .follow import wait

    began = time.monotonic()
    job = wait(client, accepted["links"])
    if job["status"] != "done":
        raise DemoFailed(f"the job ended {job['status']}: {job['error']}")
    took = time.monotonic() - began
    say(f"{done} {accepted['new_version']} in {took:.1f} s")


def call(agent: dict[str, Any]) -> None:
    """Ask the deployed agent something and show its answer."""
    from .client import OPENER

    try:
        with OPENER.open(agent["url"], timeout=30) as answer:
            text = answer.read(10_000).decode("utf-8", "replace")
    except OSError as error:
        raise DemoFailed(
            f"the agent does not answer at {agent['url']}: {error}"
        ) from error
    say(f"called     {agent['url']}, it answered:")
    for line in text.splitlines():
        sys.stdout.write(f"    {line}\n")


def sample_zip(greeting: str = GREETING) -> bytes:
    """Return the sample agent, which greets in these words, as a zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(SAMPLE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                text = path.read_text().replace(GREETING, greeting)
                archive.writestr(path.relative_to(SAMPLE).as_posix(), text)
    return packed.getvalue()


def say(line: str) -> None:
    """Print a line of the demo's own."""
    sys.stdout.write(f"==> {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
