"""What can be asked over HTTP, as JSON? Needs the extra `api` (django-ninja).

`auth`, `tokens` and `access` say who asks and what they may see; `receiving`, `reading`,
`asked` and `bodies` what a request brings; `problems` and `errors` how a no is told;
`schemas`, `rendering`, `paging` and `answers` how a yes is. The other modules hold the
routes, without a rule of their own; `routing` makes them addresses. Streams belong
beside the routes as plain views: those of django-ninja cannot resume.
"""

from __future__ import annotations
