"""Maintenance: in every process, every few seconds, repairs what processes that died have left.

Its modules:

    maintenance.py      one turn: finds out which steps are needed, and does those
    steps.py            runs the steps, so that each fails alone, and stores which ones fail
    claim_reconciliation.py   compares the claims of this process in the database with those that it knows
    pruning.py          ends the claims of dead processes, and deletes their rows
    lost_claims.py      the events of claims whose process is gone
    promotion.py        promotes blocked jobs whose key has a free slot
    cleanup.py         deletes jobs that ended long ago
    statistics_folding.py      adds the statistics of minutes up to hours, and deletes old ones
    unserved_queues.py         warns of ready jobs that no running process serves
    batch_splitting.py        halves rows that the database rejects together, and sets the bad one aside
"""
