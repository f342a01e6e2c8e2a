"""The colours of the output: the same as those of `manage.py steady_queue`; none in a pipe or with NO_COLOR."""

from __future__ import annotations

import os
import sys

from steady_queue.aio.command.terminal import style_of

style = style_of(sys.stdout, os.environ)
