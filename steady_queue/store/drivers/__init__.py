"""Drivers run operations: they send the statements of a flow and classify the errors.

django.py       Django's own connection, and so the caller's transaction: the only module here that imports Django
pool.py         a few connections of one event loop
server_link.py  one connection to a server: transaction and rollback
postgres.py     asyncpg
mysql.py        aiomysql
sqlite.py       aiosqlite
error_codes.py  error codes of the servers, and the StoreError class of each
tls_upgrade.py  an error that asyncpg leaves unretrieved when a connect is cancelled
"""
