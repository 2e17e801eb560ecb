"""How do builds, versions, deployments, agents and connectors change their status?

Here, and nowhere else.

    opening      a build is requested: agent deploying, build queued, version reserved
    progress     an executor tells where it is, fenced by its lease
    agents       a job of an agent has ended, or is opened again
    stops        an agent's processes were ended
    crashes      an instance crashed, or came back
    connectors   the same for connectors, in plain form

The hooks run inside the transaction that ends the job, so job and build agree whatever
dies when. They need neither a known kind nor a payload that parses. Locks are taken in
the order job, agent, build.
"""

from __future__ import annotations

from ...models import BuildJob
from . import agents, connectors


def on_final(job: BuildJob) -> None:
    """Drive the build and the target of an ended job to a final state.

    ResultMissing when the job says done and what it should have left is not there.
    """
    if job.connector_id is not None:
        connectors.finish(job)
    elif job.agent_id is not None:
        agents.finish(job)


def on_reopen(job: BuildJob) -> None:
    """Queue the build of a retried job again; Refused when that cannot be."""
    if job.connector_id is not None:
        connectors.reopen(job)
    elif job.agent_id is not None:
        agents.reopen(job)
