"""aio/command."""
