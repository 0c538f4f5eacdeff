"""Fitted ensembles as files, read without running anything."""
