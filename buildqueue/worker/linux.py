"""What does Linux offer for not losing track of processes?"""

from __future__ import annotations

import ctypes
import os
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, signal_number: int) -> None:
    """Be sent the signal when the parent ends; end now if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(1)


def boottime() -> float:
    """Return seconds that are the same for all processes of the host and count sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def has_children() -> bool:
    """Tell whether this process has a child, an ended one that nobody awaited too."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
