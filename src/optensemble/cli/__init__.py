"""The command line: ``optensemble COMMAND``; every command tells the rest with ``--help``."""

from __future__ import annotations

from optensemble.cli.main import app, main

__all__ = ["app", "main"]
