"""What the pages of the dashboard cost with much data.

__main__.py    measures the pages over a large and over an empty database, in alternating requests
rows.py        fills a PostgreSQL database: the server generates the rows
pages.py       the pages that are measured
"""
