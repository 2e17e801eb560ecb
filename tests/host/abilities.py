"""What can this host do that others may not?"""

from __future__ import annotations


def special() -> list[str]:
    """Return the ability that a test asks for."""
    return ["special"]
