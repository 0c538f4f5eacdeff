"""The log of a LiveEnsemble: every decision before it is handed out, and every label, in a database.

::

    database, sqlite, sql     transactions: SQLite, or PostgreSQL by way of SQLAlchemy
    schema                    tables, versions, migrations
    lead                      one process leads a log; a lease and a token keep the others out
    packing, entries          entries as bytes, and back after checks
    decision_log              appending, finding, checkpoints
    starting, resuming        a new log; from a log to the ensemble that it is of
    reading, export, pruning  decisions with their outcomes; as a table; what is kept for how long
"""
