"""aio/supervisor."""
