"""aio/orm_threads."""
