"""Tables in, decisions out: a job is described once in a TOML file, and everything else follows from it.

::

    job        the TOML file, checked        patterns    columns by pattern, aligned with the labels
    sets       [feasible] -> Ω               roles       which column plays which part
    tables     rows in, in batches           output      rows out, whole or not at all
    fitting, deciding, judging, checking, beginning      what the commands do
"""
