"""A saved ensemble."""

from __future__ import annotations

from pathlib import Path

import pytest

import optensemble as oe
from tests.persistence.archives import PROBLEM, QUICK


@pytest.fixture
def white(tmp_path: Path) -> tuple[oe.WhiteBoxEnsemble, Path]:
    ensemble = PROBLEM.white_box(**QUICK)
    ensemble.save(tmp_path / "white.oe")
    return ensemble, tmp_path / "white.oe"
