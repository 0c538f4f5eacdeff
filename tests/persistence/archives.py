"""Saved ensembles: their parts, and files written with other parts."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import optensemble as oe
from tests.problems import random_problem

PROBLEM = random_problem(1, n=40)
MEMBERS: dict[str, Any] = {"models": dict(PROBLEM.models)}
QUICK: dict[str, Any] = {"alpha": 0.02, "bucket_width": 0.25, "max_rounds": 50, "validation": None}
PARTS = ["manifest.json", "ensemble.json", "arrays.npz"]


def assert_same(loaded: Any, saved: Any, X: Any) -> None:
    assert type(loaded) is type(saved)
    white = isinstance(saved, oe.WhiteBoxEnsemble)
    methods = ["decide", "predict", "self_assess", "choose", *(["predict_members"] if white else [])]
    for method in methods:
        ours, theirs = (np.asarray(getattr(each, method)(X)) for each in (loaded, saved))
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    for frame in ("history_", "guarantees_", *(() if white else ("conditional_",))):
        pd.testing.assert_frame_equal(getattr(loaded, frame), getattr(saved, frame), check_exact=True)
    np.testing.assert_array_equal(loaded.n_patches_, saved.n_patches_)
    for name in ("names_", "M_", "n_rows_", "n_rounds_", "n_solves_", "converged_", "stopped_", "worst_violation_"):
        assert getattr(loaded, name) == getattr(saved, name), name
    assert loaded.time_ordered_ == saved.time_ordered_
    assert loaded.grouping_ == saved.grouping_
    members = {"models", "policies", "feasible"}
    ours, theirs = loaded.get_params(), saved.get_params()
    assert {k: v for k, v in ours.items() if k not in members} == {k: v for k, v in theirs.items() if k not in members}
    assert [name for name, _ in loaded.members_] == [name for name, _ in saved.members_]
    assert vars(loaded).keys() == vars(saved).keys()


def round_trip(ensemble: Any, X: Any, folder: Path, **given: Any) -> Any:
    """Save, load, save again, load again: the same each time, and the same bytes."""
    ensemble.save(folder / "first.oe")
    first = oe.load(folder / "first.oe", **given)
    assert_same(first, ensemble, X)
    first.save(folder / "second.oe")
    assert_same(oe.load(folder / "second.oe", **given), ensemble, X)
    assert parts(folder / "first.oe")["ensemble.json"] == parts(folder / "second.oe")["ensemble.json"]
    return first


def parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: dict[str, bytes], *, signed: bool = True) -> None:
    """Zip the parts; ``signed`` with the checksums they have now."""
    content = dict(content)
    if signed:
        manifest = json.loads(content["manifest.json"])
        manifest["sha256"] = {name: hashlib.sha256(content[name]).hexdigest() for name in PARTS[1:]}
        content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, part)
