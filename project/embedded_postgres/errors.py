"""What goes wrong with the embedded server, in one exception class."""

from __future__ import annotations


class EmbeddedPostgresError(Exception):
    """Raised when the server cannot be made, started, found or stopped.

    The message names the cause and says what to do; show it to a person as it is.
    """
