"""How does gunicorn serve the demo host? Threads, so that a slow reader blocks nobody."""

from __future__ import annotations

import os

bind = os.environ.get("WEB_BIND", "127.0.0.1:8000")
worker_class = os.environ.get("WEB_WORKER_CLASS", "gthread")
workers = int(os.environ.get("WEB_WORKERS", "2"))
threads = int(os.environ.get("WEB_THREADS", "8"))
timeout = 60
graceful_timeout = 20
accesslog = os.environ.get("WEB_ACCESS_LOG") or None
loglevel = os.environ.get("WEB_LOG_LEVEL", "warning")
control_socket_disable = True
