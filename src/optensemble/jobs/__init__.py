"""Jobs: tables in, decisions out, as a TOML file describes it.

::

    job        the TOML file, validated      patterns         columns by pattern, aligned with the labels
    sets       [feasible] -> Ω               roles            the role of each column
    rows       rows as an ensemble needs     saved_ensemble   a fitted ensemble and its columns
    init, check, fit, decide, audit                           the work of the commands
"""
