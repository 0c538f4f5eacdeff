"""Monitoring: whether payoffs still are what was promised, looked at after every row."""
