"""Who carries a flow to the database. Each driver only executes statements and names the errors.

postgres.py  asyncpg        mysql.py  aiomysql        sqlite.py  aiosqlite
django.py    Django's own connection, and so the caller's transaction: the one module here that knows Django
tls_upgrade.py  what asyncpg leaves behind when a connect is cancelled
pool.py      a few connections of one event loop      codes.py   error codes -> StoreError
"""
