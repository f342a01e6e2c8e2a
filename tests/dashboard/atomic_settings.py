"""Settings of a site whose only database is a server's, and whose requests are transactions."""

from __future__ import annotations

import os

os.environ["STEADY_QUEUE_TEST_ADMIN"] = "1"  # before the settings of the suite are imported

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES = {"default": {**DATABASES[os.environ["STEADY_QUEUE_ATOMIC_DATABASE"]], "ATOMIC_REQUESTS": True}}
DATABASE_ROUTERS = []
ALLOWED_HOSTS = ["127.0.0.1"]
