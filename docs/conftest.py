"""Examples on pages are run as doctests; what is beside them is not imported."""

from __future__ import annotations

import os

collect_ignore_glob = ["start/*", "*.py"]

os.environ["MPLBACKEND"] = "Agg"  # plots open no window
