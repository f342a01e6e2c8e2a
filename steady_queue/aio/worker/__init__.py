"""aio/worker."""
