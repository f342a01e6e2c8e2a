"""The ASGI application, which also runs the tasks: `uvicorn asgi:application`."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from steady_queue.asgi import SteadyQueue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
application = SteadyQueue(get_asgi_application())
