"""Tasks: lists, and everything about one.

A list:

    search.py             JobSearch: which tasks a list shows, as parameters of an URL
    pages.py              JobPage: one page of a list; the ids and the number of all tasks that match
    confirmed.py          the tasks that somebody was asked about, before they are changed
    listings.py           in which order the tasks of a state are read, and by which filters
    sections.py           Section: a table in the order of an index
    positions.py          Position: a row of a list, as a cursor
    matching.py           which rows match the filters that no index has
    rows.py               JobRow: what a list shows of one task
    counts_by_task.py     how many tasks of a list are calls of each function
    current_state.py      the state of a task, from its rows

One task:

    detail.py             JobDetail: everything that the page of a task shows
    timeline.py           the life of a task: its attempts, and what happened around them
    waiting_reasons.py    why a task waits, in sentences
    argument_text.py      arguments as readable text, with secrets redacted
    redaction.py          which values are not shown
    unique_key_text.py    the unique key as it is shown
    cut_json.py           reads the beginning of a long JSON text
    json_values.py        tasks as values of JSON
"""
