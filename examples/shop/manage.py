#!/usr/bin/env python
"""The command line of the shop: `manage.py runserver`, and `manage.py steady_queue` to run its tasks."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    execute_from_command_line(sys.argv)
