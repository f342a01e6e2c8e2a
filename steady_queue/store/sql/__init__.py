"""What differs between the databases.

The flows say everything in portable SQL, in steps that a transaction holds together. A dialect holds the few words that
a server says differently (`mysql.py`, `sqlite.py`); `postgres.py` also says each hot operation in a single statement.
"""

from steady_queue.store.sql.dialect import Dialect, SingleStatements
from steady_queue.store.sql.mysql import MySQL
from steady_queue.store.sql.postgres import Postgres
from steady_queue.store.sql.sqlite import SQLite

__all__ = ["Dialect", "MySQL", "Postgres", "SQLite", "SingleStatements"]
