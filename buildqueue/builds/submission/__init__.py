"""What happens when somebody asks for a build? It is checked, its source stored, and a
job is queued.

Checked first, so that a source which cannot be built is refused at once. Then one
transaction makes or locks the agent, reserves the version, and inserts build and job:
after a refusal or a rollback nothing is left. If the process dies between storing and
commit, the stored source is one that nobody uses, which a duty removes. All of them join
the caller's transaction and raise Refused.

    wishes      what is asked for, checked
    taking      a source that is sent along
    queueing    the rows and the job
    uploads     of a source, for a new agent or one that is there
    updates     of an agent, from a source or from where it came before
    rollbacks   to a version that was built before
    standalone  a version that is built and not deployed
"""

from __future__ import annotations

from .queueing import Submission
from .rollbacks import submit_rollback
from .standalone import submit_build
from .updates import submit_update
from .uploads import submit_clone, submit_upload
from .wishes import GitRequest

__all__ = [
    "GitRequest",
    "Submission",
    "submit_build",
    "submit_clone",
    "submit_rollback",
    "submit_update",
    "submit_upload",
]
