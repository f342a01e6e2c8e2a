"""A task that only the next version of the shop has: processes with SHOP_VERSION=2 in their environment."""

from __future__ import annotations

import os

from steady_queue import task

if os.environ.get("SHOP_VERSION") == "2":

    @task
    def added() -> str:
        return "of the next version"
