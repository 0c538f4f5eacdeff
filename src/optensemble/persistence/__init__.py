"""Fitted ensembles as files, read without running any code from them."""

from optensemble.persistence.files import load, save

__all__ = ["load", "save"]
