#!/usr/bin/env python
"""The command line of the chat: `manage.py migrate`. Its tasks run in the web server; see `asgi.py`."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    execute_from_command_line(sys.argv)
