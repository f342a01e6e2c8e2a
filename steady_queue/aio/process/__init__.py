"""aio/process."""
