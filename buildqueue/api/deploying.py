"""How does an agent get a version? Uploaded, cloned, updated, or one that was built.

Each is queued: 202 with the job, the build and the version that was reserved.
"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..builds import submission
from ..builds.submission import Submission
from . import access, answers, asked, reading, rendering, schemas
from .auth import caller_of
from .reading import JSON
from .receiving import MULTIPART

router = Router(tags=["agents"])
QUEUED = {202: schemas.QueuedVersion}
UPDATE = asked.told(asked.Update, MULTIPART, JSON)


@router.post(
    "/agents/upload-and-deploy",
    response=QUEUED,
    url_name="agent_upload",
    openapi_extra=asked.told(asked.Upload, MULTIPART),
)
def upload_and_deploy(request: HttpRequest) -> HttpResponse:
    """Take a zip or tar, reserve its version, and queue its build and deployment."""
    caller = caller_of(request)
    body = reading.read(request, asked.Upload, only_form=True)
    archive = body.archive
    assert archive is not None  # it is needed
    made = submission.submit_upload(
        owner_id=caller.key,
        caller=caller.actor,
        name=body.name,
        source=archive,
        version=body.version,
        changelog=body.changelog,
        spec=body.spec,
        env=body.env,
    )
    return queued(request, made)


@router.post(
    "/agents/clone",
    response=QUEUED,
    url_name="agent_clone",
    openapi_extra=asked.told(asked.Clone),
)
def agent_clone(request: HttpRequest) -> HttpResponse:
    """Fetch a repository, and queue its build and deployment as the caller's agent."""
    caller = caller_of(request)
    body = reading.read(request, asked.Clone)
    git = body.git
    assert git is not None  # it is needed
    made = submission.submit_clone(
        owner_id=caller.key,
        caller=caller.actor,
        name=body.name,
        git=git,
        version=body.version,
        changelog=body.changelog,
        spec=body.spec,
        env=body.env,
    )
    return queued(request, made)


@router.post(
    "/github/clone",
    response=QUEUED,
    url_name="github_clone",
    openapi_extra=asked.told(asked.GithubClone),
)
def github_clone(request: HttpRequest) -> HttpResponse:
    """Fetch a repository of GitHub by its short name; the rest is as for any clone."""
    caller = caller_of(request)
    body = reading.read(request, asked.GithubClone)
    made = submission.submit_clone(
        owner_id=caller.key,
        caller=caller.actor,
        name=body.name,
        git=body.git,
        version=body.version,
    )
    return queued(request, made)


@router.put(
    "/agents/{agent_id}/update",
    response=QUEUED,
    url_name="agent_update",
    operation_id="agent_update_by_put",
    openapi_extra=UPDATE,
)
@router.post(
    "/agents/{agent_id}/update",
    response=QUEUED,
    url_name="agent_update",
    operation_id="agent_update",
    openapi_extra=UPDATE,
)
def agent_update(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Queue a new version: of an archive, a repository, or of where it came from."""
    caller = caller_of(request)
    found = access.agent_to_manage(caller, agent_id, "deploy_agent")
    body = reading.read(request, asked.Update)
    if body.env is not None or body.secret is not None:
        access.check_secrets(caller, found)
    made = submission.submit_update(
        found,
        caller=caller.actor,
        source=body.archive,
        git=body.git,
        version=body.version,
        changelog=body.changelog,
        spec=body.spec,
        env=body.env,
    )
    return queued(request, made)


@router.post(
    "/agents/{agent_id}/rollback",
    response=QUEUED,
    url_name="agent_rollback",
    openapi_extra=asked.told(asked.Rollback),
)
def agent_rollback(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Queue the deployment of an earlier version; of the newest one unless one is named."""
    caller = caller_of(request)
    found = access.agent_to_manage(caller, agent_id, "deploy_agent")
    body = reading.read(request, asked.Rollback)
    made = submission.submit_rollback(
        found, caller=caller.actor, version=body.version, reason=body.reason
    )
    return queued(request, made)


@router.post(
    "/agents/{agent_id}/deploy",
    response=QUEUED,
    url_name="agent_deploy",
    openapi_extra=asked.told(asked.Deploy),
)
def agent_deploy(request: HttpRequest, agent_id: UUID) -> HttpResponse:
    """Queue the deployment of a version that was built and waits, or was active before."""
    caller = caller_of(request)
    found = access.agent_to_manage(caller, agent_id, "deploy_agent")
    body = reading.read(request, asked.Deploy)
    made = submission.submit_rollback(
        found, caller=caller.actor, version=body.version, reason=body.reason
    )
    return queued(request, made)


def queued(request: HttpRequest, made: Submission) -> HttpResponse:
    """Return 202 with what was queued."""
    job, build, agent = made.job, made.build, made.agent
    body = schemas.QueuedVersion(
        job_id=job.pk,
        build_id=build.pk,
        agent_id=agent.pk,
        agent_name=agent.name,
        new_version=made.version,
        previous_version=made.previous_version,
        links=rendering.job_links(job.pk, build.pk, agent.pk),
    )
    return answers.send_queued(request, body)
