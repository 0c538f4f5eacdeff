"""Finished experiments on disk: they come back as they were, or it is said why not."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.exceptions import FileError
from optensemble.experiments import store
from optensemble.experiments.settings import Settings
from tests.experiments.conftest import NAMES, SMALL, Finished
from tests.experiments.outcomes import made_up


def refuse(folder: Path, settings: Settings = SMALL) -> str:
    """Loading fails with one line that names the file; return it."""
    with pytest.raises(FileError) as caught:
        store.load_outcome(folder, "A", settings)
    message = str(caught.value)
    assert message.startswith(f"{store.path_of(folder, 'A')} ") or f"{store.path_of(folder, 'A')}:" in message
    assert "\n" not in message
    return message


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, Any]:
    """What is in the file of a finished experiment, ready to be spoiled."""
    store.save_outcome(tmp_path, made_up(), SMALL)
    document: dict[str, Any] = json.loads(store.path_of(tmp_path, "A").read_bytes())
    return document


def write(folder: Path, document: Any) -> None:
    store.path_of(folder, "A").write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_finished_experiment_comes_back_as_it_was(name: str, finished: Finished, tmp_path: Path) -> None:
    loaded, outcome = store.load_outcome(finished.folder, name, SMALL), finished.outcome(name)
    assert loaded is not None
    for part in ("payoffs", "costs"):
        assert len(getattr(loaded, part)) == len(getattr(outcome, part))
        for ours, theirs in zip(getattr(loaded, part), getattr(outcome, part), strict=True):
            np.testing.assert_equal(dataclasses.asdict(ours), dataclasses.asdict(theirs))  # to which NaN equals NaN
    assert loaded.curves.keys() == outcome.curves.keys()
    for where, curves in outcome.curves.items():
        pd.testing.assert_frame_equal(loaded.curves[where], curves, check_exact=True, check_names=False)
    np.testing.assert_array_equal(loaded.disagreement, outcome.disagreement)
    plain = ("name", "note", "members", "best")
    assert [getattr(loaded, field) for field in plain] == [getattr(outcome, field) for field in plain]
    assert {field.name for field in dataclasses.fields(outcome)} == {
        "payoffs",
        "costs",
        "curves",
        "disagreement",
        "audit",
        *plain,
    }
    assert loaded.audit == outcome.audit
    store.save_outcome(tmp_path, loaded, SMALL)
    assert store.path_of(tmp_path, name).read_bytes() == store.path_of(finished.folder, name).read_bytes()


@pytest.mark.slow
def test_rounds_are_a_column_of_curves_and_not_its_index_too(finished: Finished) -> None:
    for curves in finished.outcome("A").curves.values():
        curves.sort_values("round")


def test_nothing_on_disk_is_none(tmp_path: Path) -> None:
    assert store.load_outcome(tmp_path, "A", SMALL) is None
    store.save_outcome(tmp_path, made_up("B"), SMALL)
    assert store.load_outcome(tmp_path, "A", SMALL) is None
    assert store.load_outcome(tmp_path, "B", SMALL) is not None


# Other settings

OTHER: dict[str, Any] = {
    "rows": 130,
    "rounds": None,
    "seed": 7,
    "noise": 0.5,
    "trees": "exact",
    "debias_on": "train",
    "fresh_rows": 600,
    "training_rows": 2000,
    "alpha": 0.02,
    "bucket_width": 0.2,
}


def test_every_setting_has_a_changed_value_in_these_tests() -> None:
    assert OTHER.keys() == {field.name for field in dataclasses.fields(Settings)}


@pytest.mark.parametrize("setting", OTHER)
def test_an_experiment_run_with_another_setting_is_refused(setting: str, tmp_path: Path) -> None:
    store.save_outcome(tmp_path, made_up(), dataclasses.replace(SMALL, **{setting: OTHER[setting]}))
    message = refuse(tmp_path)
    named, ours = setting.replace("_", " "), getattr(SMALL, setting)
    assert f"was run with {named} {OTHER[setting]}, not {ours}." in message
    assert "Give the same options, another --out, or start anew without --resume." in message


def test_all_settings_that_differ_are_named(tmp_path: Path) -> None:
    store.save_outcome(tmp_path, made_up(), dataclasses.replace(SMALL, **OTHER))
    message = refuse(tmp_path)
    for setting, theirs in OTHER.items():
        assert f"{setting.replace('_', ' ')} {theirs}, not {getattr(SMALL, setting)}" in message


VERSIONS = store.summary_document([made_up()], SMALL, {})["versions"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": store.FORMAT + 1}, f"format {store.FORMAT + 1}, not {store.FORMAT}"),
        ({"settings": {**dataclasses.asdict(SMALL), "colour": "red"}}, "colour red, not None"),
        ({"versions": {**VERSIONS, "numpy": "0.1"}}, f"was run with numpy 0.1, not {np.__version__}. "),
    ],
)
def test_an_experiment_of_another_version_is_refused(
    change: dict[str, Any], words: str, tmp_path: Path, saved: dict[str, Any]
) -> None:
    write(tmp_path, {**saved, **change})
    assert words in refuse(tmp_path)


def test_the_version_is_looked_at_before_the_content(tmp_path: Path, saved: dict[str, Any]) -> None:
    write(tmp_path, {"format": store.FORMAT + 1, "settings": saved["settings"], "tables": {}})
    assert f"format {store.FORMAT + 1}, not {store.FORMAT}" in refuse(tmp_path)


def test_an_experiment_from_before_there_was_an_answer_is_refused(tmp_path: Path, saved: dict[str, Any]) -> None:
    for part in ("payoffs", "costs"):
        saved[part] = [line for line in saved[part] if line["policy"] != "DecisionEnsemble"]
    del saved["judgement"]
    write(tmp_path, {**saved, "format": 1})
    assert f"was run with format 1, not {store.FORMAT}. " in refuse(tmp_path)
    write(tmp_path, saved)
    assert "is not a whole experiment" in refuse(tmp_path)


# Damage


def test_a_file_cut_short_is_refused_wherever_it_was_cut(tmp_path: Path, saved: dict[str, Any]) -> None:
    path = store.path_of(tmp_path, "A")
    whole = path.read_bytes()
    for length in (*range(0, len(whole) - 2, 83), len(whole) - 3):
        path.write_bytes(whole[:length])
        assert "is not a whole experiment" in refuse(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"[]", b"7", b"null", b'"A"', b"{}", b"\xff\xfe", b"\x00" * 9])
def test_a_file_that_is_something_else_is_refused(content: bytes, tmp_path: Path) -> None:
    store.path_of(tmp_path, "A").write_bytes(content)
    message = refuse(tmp_path)
    assert "is not a whole experiment" in message
    assert "Delete it, or start anew without --resume." in message


PARTS = [
    "format",
    "settings",
    "versions",
    "name",
    "note",
    "members",
    "best",
    "payoffs",
    "costs",
    "curves",
    "disagreement",
    "judgement",
]


@pytest.mark.parametrize("missing", PARTS)
def test_a_part_that_is_missing_is_noticed(missing: str, tmp_path: Path, saved: dict[str, Any]) -> None:
    assert sorted(saved) == sorted(PARTS)
    del saved[missing]
    write(tmp_path, saved)
    assert missing in refuse(tmp_path)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("settings", None),
        ("settings", [1]),
        ("members", 3),
        ("payoffs", []),
        ("payoffs", "none"),
        ("payoffs", [{"where": "in sample", "policy": "foresight"}]),
        ("costs", [{"policy": "white box", "rounds": "many"}]),
        ("curves", []),
        ("curves", {"in sample": {"round": [0]}}),
        ("disagreement", [[0.1], [0.1, 0.2]]),
        ("disagreement", "none"),
        ("curves", {"in sample": {}, "fresh rows": {}}),
        ("costs", []),
        ("disagreement", []),
        ("name", "B"),
        ("judgement", None),
        ("judgement", "kept"),
        ("judgement", {"low": 1.0, "high": 2.0}),
    ],
)
def test_a_part_of_the_wrong_kind_is_noticed(part: str, value: Any, tmp_path: Path, saved: dict[str, Any]) -> None:
    write(tmp_path, {**saved, part: value})
    assert "is not a whole experiment" in refuse(tmp_path)


@pytest.mark.parametrize("policy", ["ridge stacking", "DecisionEnsemble"])
@pytest.mark.parametrize("where", ["in sample", "fresh rows"])
def test_a_policy_that_is_missing_is_noticed(where: str, policy: str, tmp_path: Path, saved: dict[str, Any]) -> None:
    payoffs = [line for line in saved["payoffs"] if (line["where"], line["policy"]) != (where, policy)]
    write(tmp_path, {**saved, "payoffs": payoffs})
    assert "is not a whole experiment" in refuse(tmp_path)


@pytest.mark.parametrize("policy", ["foresight", "DecisionEnsemble"])
def test_a_payoff_that_is_not_a_number_is_noticed(policy: str, tmp_path: Path, saved: dict[str, Any]) -> None:
    for line in saved["payoffs"]:
        line["realised"] = None if line["policy"] == policy else line["realised"]
    write(tmp_path, saved)
    assert f"no payoff of {policy}" in refuse(tmp_path)


@pytest.mark.parametrize("policy", ["white box", "black box", "DecisionEnsemble"])
def test_costs_that_are_missing_are_noticed(policy: str, tmp_path: Path, saved: dict[str, Any]) -> None:
    write(tmp_path, {**saved, "costs": [line for line in saved["costs"] if line["policy"] != policy]})
    assert f"costs of {policy}" in refuse(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"low": None}, "no interval of the promise"),
        ({"low": 9.0, "high": 8.0}, "no interval of the promise"),
        ({"gains": []}, "is not a whole experiment"),
        ({"gains": [{"policy": "best initial policy", "gain": None, "gain_error": 0.1}]}, "no gain over best initial"),
    ],
)
def test_a_saved_judgement_without_valid_values_is_refused(
    change: dict[str, Any], words: str, tmp_path: Path, saved: dict[str, Any]
) -> None:
    write(tmp_path, {**saved, "judgement": {**saved["judgement"], **change}})
    assert words in refuse(tmp_path)


def test_where_there_is_no_way_to_go_its_interval_is_missing_and_comes_back_so(tmp_path: Path) -> None:
    outcome = made_up()
    audit = dataclasses.replace(outcome.audit, way_error=float("nan"))
    store.save_outcome(tmp_path, dataclasses.replace(outcome, audit=audit), SMALL)
    loaded = store.load_outcome(tmp_path, "A", SMALL)
    assert loaded is not None
    assert np.isnan(loaded.audit.way_error)


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    store.path_of(tmp_path, "A").mkdir()
    with pytest.raises(FileError, match=r"cannot read .*experiment_A.json: Is a directory"):
        store.load_outcome(tmp_path, "A", SMALL)


# Writing


@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("what", ["experiment", "results"])
def test_a_failure_while_writing_leaves_what_was_there(
    what: str, error: BaseException, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    def keep(outcome: Any) -> None:
        if what == "experiment":
            store.save_outcome(tmp_path, outcome, SMALL)
        else:
            store.save_summary(tmp_path, store.summary_document([outcome], SMALL, {}))

    keep(made_up())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(os, call, fail)
    expected: type[BaseException] = FileError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected, match="Nothing was written" if expected is FileError else None):
        keep(made_up(foresight=13.0))
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    keep(made_up(foresight=13.0))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} != before
