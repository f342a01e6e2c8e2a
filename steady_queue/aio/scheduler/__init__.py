"""aio/scheduler."""
