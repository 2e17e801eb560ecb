"""The host's local runtime: deployed processes behind one address for life each.

Where to look: `client` is what a worker calls and `service` how the daemon starts;
`verbs` says what can be asked, `upkeep` how wanted becomes actual, `proxy` how an
address leads to an instance, `keeper` who looks after an instance while the daemon is
away, `health` when one may be promoted. Nothing is imported here: keepers stay small.
"""

from __future__ import annotations
