"""A report takes little more than its audit: each member is asked once; the page solves the rows with labels known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import optensemble as oe
from optensemble.jobs.audit import audit_table, make_report
from optensemble.jobs.roles import Roles
from optensemble.jobs.saved_ensemble import SavedEnsemble
from optensemble.tables.reading import Tables
from tests.ensembles.passes import LABELS, D, Tally, decision, later, paper, won_by
from tests.jobs.worlds import write_table


def made(kind: str) -> Any:
    if kind == "plain":
        return decision()
    if kind == "patched":
        return decision("region")
    if kind in ("a", "mean"):
        return won_by(0 if kind == "a" else kind, decision("region"))
    return paper(oe.WhiteBoxEnsemble if kind == "white box" else oe.BlackBoxEnsemble, subgroups="region")


@pytest.mark.parametrize("kind", ["plain", "patched", "a", "mean", "white box", "black box"])
def test_a_report_asks_no_more_than_an_audit_and_solves_rows_once_more(kind: str, tmp_path: Path) -> None:
    ensemble, (X, Y) = made(kind), later()
    tally = Tally(ensemble)
    audit = ensemble.audit(X, Y)
    once, asked = tally.solved, tally.asked
    assert asked == [1] * len(ensemble.members_)
    tables = Tables((write_table(X, tmp_path / "later.parquet"),))
    subgroups = () if kind == "plain" else ("region",)
    roles = Roles(tuple(LABELS), tuple(str(j) for j in range(D)), subgroups=subgroups)
    tally.clear()
    found = audit_table(SavedEnsemble(ensemble, roles, tmp_path / "e.oe"), tables)
    assert (tally.solved, tally.asked) == (once, asked)
    page = make_report(found)
    foresight = Counter([len(found.rows)])  # every row once more, with its labels known
    assert (tally.solved, tally.asked) == (once + foresight, asked)
    assert str(found.audit) == str(audit)
    assert "<html" in page
