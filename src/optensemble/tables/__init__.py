"""Tables in files: formats, reading in batches, writing, ids, times, and values as text."""
