"""The page of an ensemble in service: what it shows, in words, tables and pictures."""
