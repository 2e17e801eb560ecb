"""What can be asked over HTTP, as JSON? Needs the extra `api` (django-ninja).

`auth`, `tokens` and `access` say who asks and what they may see; `receiving` and
`bodies` what a request brings; `problems` and `errors` how a no is told; `schemas`,
`rendering` and `answers` how a yes is. `agents`, `builds`, `jobs` and `actions` hold the
routes, without a rule of their own; `routing` makes them addresses. Streams belong
beside the routes as plain views: those of django-ninja cannot resume.
"""

from __future__ import annotations
