"""Tables of audits, fits and decisions, shared by page, notebook and command line."""
