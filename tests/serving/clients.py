"""A client of an application in this process."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():  # newer versions of Starlette would rather have a successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

__all__ = ["TestClient"]
