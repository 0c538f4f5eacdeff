"""Roles of columns in files of ensembles: of this version and of earlier ones, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import optensemble as oe
from optensemble.exceptions import FileError
from optensemble.jobs.audit import audit_table, table_report
from optensemble.jobs.fit import fit_job, prepare
from optensemble.jobs.job import read_job
from optensemble.jobs.saved_ensemble import open_ensemble
from optensemble.report.blocks import moment_text
from optensemble.report.terms import ReportTerms
from optensemble.tables.reading import find_tables
from tests.fuzz_files import Content
from tests.jobs.worlds import make_rows, write_job, write_table

LATER = make_rows(90, seed=2)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    write_table(make_rows(), folder / "history.csv")
    write_table(LATER, folder / "later.csv")
    data = {"id": "day", "time": "date", "groups": "customer", "subgroups": "region"}
    terms = {"title": "Batteries", "currency": "€"}
    fit_job(prepare(read_job(write_job(folder, data=data, report=terms)))).save(folder / "e.oe")
    return folder / "e.oe"


def as_before(table: dict[str, Any]) -> dict[str, Any]:
    """Return the roles as earlier versions wrote them."""
    kept = {name: table[name] for name in ("labels", "coordinates", "id", "time")}
    return {**kept, "clusters": table["groups"], "groups": table["subgroups"]}


def rewritten(path: Path, table: Any) -> Path:
    content = Content.of(path)
    content.document["table"] = table
    content.write(path.with_name("other.oe"))
    return path.with_name("other.oe")


def test_a_file_of_an_earlier_version_is_audited_as_one_of_this(saved: Path) -> None:
    tables = find_tables([str(saved.with_name("later.csv"))])
    old = open_ensemble(rewritten(saved, as_before(Content.of(saved).document["table"])), tables)
    new = open_ensemble(saved, tables)
    assert old.roles == replace(new.roles, report=ReportTerms())
    assert (old.roles.groups, old.roles.subgroups) == ("customer", ("region",))
    assert str(audit_table(old, tables).audit) == str(audit_table(new, tables).audit)


def test_terms_of_reports_are_kept_and_replaced_by_those_given(saved: Path) -> None:
    tables = find_tables([str(saved.with_name("later.csv"))])
    audited = audit_table(open_ensemble(saved, tables), tables)
    assert table_report(audited).terms == ReportTerms("Batteries", currency="€")
    given = table_report(audited, title=None, unit="day", currency="£")
    assert given.terms == ReportTerms("Batteries", "day", "£")
    assert given.when is not None
    assert given.row_name(0) == f"{LATER.sort_values('date')['day'].iloc[0]}, {moment_text(given.when.iloc[0])}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": "customer"}, "table must be among"),
        ({"subgroups": None}, "table.subgroups"),
        ({"subgroups": "region"}, "table.subgroups"),
        ({"subgroups": ["region", "customer"]}, "table.subgroups must have 1 entries"),
        ({"groups": ["customer"]}, "table.groups"),
        ({"groups": 3}, "table.groups"),
        ({"weight": ["w"]}, "table.weight"),
        ({"missing_labels": "perhaps"}, "table.missing_labels"),
        ({"report": {"titel": "A"}}, "table.report must be its terms"),
        ({"report": {"title": 3}}, "table.report.title must be text"),
        ({"report": "A"}, "table.report must be its terms"),
        ({"zebra": 3}, "table must be among"),
    ],
    ids=str,
)
def test_other_roles_are_refused(change: dict[str, Any], message: str, saved: Path) -> None:
    with pytest.raises(FileError, match=message):
        oe.load(rewritten(saved, {**Content.of(saved).document["table"], **change}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": ["customer"]}, "table.clusters"),
        ({"groups": "region"}, "table.groups"),
        ({"groups": []}, "table.groups must have 1 entries"),
        ({"weight": "w"}, "table must be among"),
        ({"zebra": 3}, "table must be among"),
    ],
    ids=str,
)
def test_other_roles_of_earlier_versions_are_refused(change: dict[str, Any], message: str, saved: Path) -> None:
    with pytest.raises(FileError, match=message):
        oe.load(rewritten(saved, {**as_before(Content.of(saved).document["table"]), **change}))


@pytest.mark.parametrize("table", [3, ["labels"], "labels"])
def test_what_is_no_table_of_roles_is_refused(table: Any, saved: Path) -> None:
    with pytest.raises(FileError, match="table must be a table of roles"):
        oe.load(rewritten(saved, table))
