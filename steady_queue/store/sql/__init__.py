"""What differs between the databases.

    dialect.py              words and verbs that the flows use, in standard SQL where there is one
    values.py               values from drivers that return text for ids and times
    postgres.py             PostgreSQL, with the settings of its connections
    postgres_statements.py  PostgreSQL: enqueue, claim and dispatch as one statement each, and each step of promote
    postgres_settle.py      PostgreSQL: settle as one statement
    postgres_task_data.py   PostgreSQL: what a running task stores, as one statement each
    mysql.py                MySQL and MariaDB
    sqlite.py               SQLite

The flows are written in portable SQL, as steps in one transaction. A dialect has the parts that a server writes in
another way; PostgreSQL also has enqueue, claim, settle and the dispatch of plain jobs as one statement each; the steps
of promote are one statement each.
"""

from steady_queue.store.sql.dialect import Dialect, SingleStatements
from steady_queue.store.sql.mysql import MySQL
from steady_queue.store.sql.postgres import Postgres
from steady_queue.store.sql.sqlite import SQLite

__all__ = ["Dialect", "MySQL", "Postgres", "SQLite", "SingleStatements"]
