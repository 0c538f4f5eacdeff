"""A whole run: what it leaves, how it goes on after an interrupt, and what it refuses before any work is done."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from optensemble.exceptions import FileError, InputError
from optensemble.experiments import store
from optensemble.experiments.reproduce import expected_seconds, find_finished, reproduce_paper
from optensemble.experiments.settings import Settings
from tests.experiments.conftest import NAMES, SMALL, Finished
from tests.experiments.test_settings import assert_same

pytestmark = pytest.mark.slow

FIGURES = ("payoffs", "payoffs_fresh", "members", "members_fresh", "choices", "disagreement")
PICTURES = {f"{figure}.{kind}" for figure in FIGURES for kind in ("png", "svg")}


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def without_seconds(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: without_seconds(value) for key, value in document.items() if key != "seconds"}
    return [without_seconds(value) for value in document] if isinstance(document, list) else document


def refuse_to_work(name: str | None, phase: str, share: float) -> None:
    raise AssertionError(f"{phase} was begun")


def test_a_run_leaves_numbers_figures_and_page_and_nothing_else(finished: Finished) -> None:
    assert {path.name for path in finished.folder.iterdir()} == {
        "report.html",
        "results.json",
        *PICTURES,
        *(f"experiment_{name}.json" for name in NAMES),
    }
    assert finished.result.page == finished.folder / "report.html"
    assert json.loads((finished.folder / "results.json").read_text()) == store._json_value(finished.result.document)
    assert [outcome.name for outcome in finished.result.outcomes] == list(NAMES)


def test_progress_is_reported_during_the_run(finished: Finished) -> None:
    told: dict[tuple[str | None, str], list[float]] = {}
    for name, phase, share in finished.told:
        told.setdefault((name, phase), []).append(share)
    for shares in told.values():
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)
    marks = {(name, "done") for name in NAMES}
    assert told.keys() - marks == expected_seconds(SMALL, NAMES).keys()
    assert marks <= told.keys()
    assert [name for name, phase, _ in finished.told if phase == "done"] == list(NAMES)


def test_expected_seconds_grow_with_the_work() -> None:
    def total(settings: Settings, names: str = "ABCD") -> float:
        return sum(expected_seconds(settings, names).values())

    usual = total(Settings())
    assert total(Settings(), "AC") < usual
    for more in ({"rows": 50_000}, {"rounds": 50_000}, {"trees": "exact"}, {"fresh_rows": 200_000}):
        assert total(dataclasses.replace(Settings(), **more)) > usual
    assert ("C", "training members") not in expected_seconds(Settings(), "AC")  # A's members serve C


def test_an_interrupted_run_goes_on_to_the_same_results(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "experiment_A.json").write_text("from long ago")  # without resume nothing is taken from the folder

    def interrupt(name: str | None, phase: str, share: float) -> None:
        if name == "D":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce_paper(tmp_path, SMALL, NAMES, tell=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["experiment_A.json"]
    first = store.load_outcome(tmp_path, "A", SMALL)
    assert first is not None
    assert_same(first, finished.outcome("A"))

    before, told = content(tmp_path), list[tuple[str | None, str]]()
    result = reproduce_paper(
        tmp_path, SMALL, NAMES, resume=True, tell=lambda name, phase, _: told.append((name, phase))
    )
    after = content(tmp_path)
    assert after["experiment_A.json"] == before["experiment_A.json"]
    assert {phase for name, phase in told if name == "A"} == {"was on disk"}
    assert ("D", "debiasing") in told
    assert ("D", "was on disk") not in told
    assert after.keys() == content(finished.folder).keys()
    for ours, theirs in zip(result.outcomes, finished.result.outcomes, strict=True):
        assert_same(ours, theirs)
    results = [json.loads((folder / "results.json").read_text()) for folder in (tmp_path, finished.folder)]
    assert without_seconds(results[0]) == without_seconds(results[1])
    for picture in PICTURES:
        assert after[picture][0] == (finished.folder / picture).read_bytes(), picture


def test_a_new_run_leaves_nothing_of_an_earlier_one_to_be_mistaken_for_its_own(tmp_path: Path) -> None:
    for name in ("experiment_A.json", "experiment_C.json", "results.json", "report.html", "mine.txt"):
        (tmp_path / name).write_text("from long ago")

    def interrupt(name: str | None, phase: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce_paper(tmp_path, SMALL, NAMES, tell=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert find_finished(tmp_path, NAMES) == []


def test_what_cannot_be_replaced_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "results.json").mkdir()
    with pytest.raises(FileError, match=r"cannot write to .*: Is a directory. Choose another --out."):
        reproduce_paper(tmp_path, SMALL, NAMES, tell=refuse_to_work)


def test_when_everything_is_on_disk_only_figures_and_page_are_made(finished: Finished, tmp_path: Path) -> None:
    shutil.copy(finished.folder / "experiment_D.json", tmp_path)
    told = set[tuple[str | None, str]]()
    result = reproduce_paper(tmp_path, SMALL, ["D"], resume=True, tell=lambda name, phase, _: told.add((name, phase)))
    assert told == {("D", "was on disk"), (None, "drawing figures")}
    assert_same(result.outcomes[0], finished.outcome("D"))
    assert "compiling" not in result.document["seconds"]
    assert result.page.exists()


@pytest.mark.parametrize("wrong", [{"seed": 43}, {"rows": 121}, {"rounds": None}])
def test_going_on_with_other_settings_is_refused_before_any_work(
    wrong: dict[str, Any], finished: Finished, tmp_path: Path
) -> None:
    shutil.copy(finished.folder / "experiment_D.json", tmp_path)
    before = content(tmp_path)
    with pytest.raises(FileError, match=rf"experiment_D.json was run with {next(iter(wrong))} .*, not .*--resume"):
        reproduce_paper(tmp_path, dataclasses.replace(SMALL, **wrong), NAMES, resume=True, tell=refuse_to_work)
    assert content(tmp_path) == before


def test_going_on_from_a_damaged_experiment_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "experiment_D.json").write_text('{"format": 1,')
    with pytest.raises(FileError, match=r"experiment_D.json is not a whole experiment"):
        reproduce_paper(tmp_path, SMALL, NAMES, resume=True, tell=refuse_to_work)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["A", "E"], "'A', 'B', 'C', 'D'; got 'E'"),
        (["a"], "'A', 'B', 'C', 'D'; got 'a'"),
        (["AB"], "'A', 'B', 'C', 'D'; got 'AB'"),
        (["A", "B", "A"], "each once; got A, B, A"),
        ([], "each once; got none"),
    ],
)
def test_experiments_that_there_are_not_are_refused_before_any_work(
    names: list[str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        reproduce_paper(tmp_path / "out", SMALL, names, tell=refuse_to_work)
    assert not (tmp_path / "out").exists()


def test_settings_that_cannot_be_run_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="noise must be"):
        reproduce_paper(tmp_path / "out", dataclasses.replace(SMALL, noise=-1), NAMES, tell=refuse_to_work)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_folder_that_cannot_be_made_is_refused_before_any_work(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileError, match=r"cannot write to .*file.*: (File exists|Not a directory). Choose"):
        reproduce_paper(tmp_path / "file" / below, SMALL, NAMES, tell=refuse_to_work)
    assert (tmp_path / "file").read_text() == "mine"
