"""What was found, as tables: the same in a terminal, a page and a notebook."""
