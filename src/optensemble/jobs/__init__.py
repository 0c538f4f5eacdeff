"""Jobs: tables in, decisions out, as a TOML file describes it.

::

    job               the TOML file, validated      patterns         columns by pattern, aligned with the labels
    sets              [feasible] -> Ω               roles            the role of each column
    rows, row_checks  rows as an ensemble needs     saved_ensemble   a fitted ensemble and its columns
    accuracy          of a promise, before a fit    role_warnings    times and groups that are in doubt
    init, check, fit, decide, audit                                  the work of the commands
"""
