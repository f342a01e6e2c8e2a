"""aio/maintenance."""
