"""Tables in files: reading, writing, ids, times."""
