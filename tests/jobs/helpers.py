"""What the tests of tasks and of the framework's log share."""

from __future__ import annotations

import logging
import logging.config

import pytest

from steady_queue import task
from steady_queue.jobs.compat import FRAMEWORK
from tests.shop import framework_tasks

logger = logging.getLogger(FRAMEWORK)
DECORATORS = pytest.mark.parametrize("decorator", [task, framework_tasks.task], ids=["ours", "the framework's"])
