#!/usr/bin/env python
"""The command line of the bakery: `manage.py migrate`, then `manage.py steady_queue --async` to run its tasks."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    execute_from_command_line(sys.argv)
