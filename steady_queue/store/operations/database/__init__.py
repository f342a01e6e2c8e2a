"""The database server and the schema.

server.py          version of the server, applied migrations
table_shapes.py    whether the tables and columns of this version are there
charset.py         character sets on MySQL and MariaDB
"""
