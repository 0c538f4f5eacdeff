"""Files of live ensembles that say what none has learned: refused by the name of the part, or harmless."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError, InputError, OptEnsembleError
from tests.ensembles.decision import D, N
from tests.fuzz_files import Content, another, change_array, leaves
from tests.persistence.test_files_of_strangers import array, document, entry
from tests.persistence.test_live_files import FRAME, WAS, Y, mixed_ids, on_columns

ROWS, END = range(N, N + 90), N + 150
SAMPLES: dict[str, Callable[[], oe.LiveEnsemble]] = {
    "aside": lambda: on_columns(feasible.Simplex(D), refit=20, refit_in="thread", expire_after=70),
    "a set per row": lambda: on_columns(feasible.Box(upper=WAS)),
    "groups": lambda: on_columns(feasible.Simplex(D), fit={"groups": "day"}),
    "never": lambda: on_columns(feasible.TopK(D, 2), refit="never"),
}


@cache
def samples() -> dict[str, Content]:
    """Ensembles that have learned, with rows that are open, others that were given up, and a refit to be taken up."""
    found = dict[str, Content]()
    with TemporaryDirectory() as folder:
        for name, make in SAMPLES.items():
            ensemble = make()
            for start in range(N, N + 90, 15):
                rows = list(range(start, start + 15))
                ensemble.answer(FRAME[start : start + 15], ids=mixed_ids(rows))
                here = rows if N < start < N + 60 else rows[::4]
                ensemble.observe(
                    mixed_ids(here), Y[here], sample_weight=None if name == "never" else np.ones(len(here))
                )
            ensemble.save(Path(folder) / "live.oe")
            found[name] = Content.of(Path(folder) / "live.oe")
    return found


def sample(name: str = "aside") -> Content:
    given = samples()[name]
    return Content(json.loads(json.dumps(given.document)), dict(given.arrays))


def use(ensemble: oe.LiveEnsemble) -> None:
    """Ask and tell all that can be asked and told."""
    opened = ensemble.open_["id"].tolist()
    for number, ids in enumerate([opened[::2], opened[1::2]]):
        if ids:
            ensemble.observe(ids, Y[: len(ids)])
        rows = range(N + 90 + 30 * number, N + 120 + 30 * number)
        new = [f"new {row}" for row in rows]
        ensemble.answer(FRAME[rows.start : rows.stop], ids=new)
        ensemble.observe(new, Y[rows.start : rows.stop])
    for told in (ensemble.certificate(), ensemble.history_, ensemble.open_, ensemble.refits_, repr(ensemble)):
        assert told is not None
    if ensemble.monitor is not None:
        assert str(ensemble.monitor)
        assert len(ensemble.monitor.evidence) >= 0


def fate(content: Content, path: Path) -> str:
    """Load a file and use what it holds; whatever is raised must be ours, and of ``load`` what says so."""
    content.write(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ensemble = oe.load(path)
        except FileError:
            return "refused"
        except OptEnsembleError as error:
            assert "given again" in str(error) or "trusted" in str(error)  # noqa: PT017
            return "lacking"
        try:
            use(ensemble)
        except OptEnsembleError:
            return "fails"
    return "works"


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_work_as_they_are(name: str, tmp_path: Path) -> None:
    content = sample(name)
    assert fate(content, tmp_path / "live.oe") == "works"
    assert (content.document["live"]["running"] is not None) == (name == "aside")
    assert (len(content.document["fits"]) == 3) == (name == "aside")


# One wrong value


def value(*way: Any, to: Any) -> Callable[[Content], None]:
    return document("live", *way, value=to)


def gone(*way: Any) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        holder = content.document["live"]
        for key in way[:-1]:
            holder = holder[key]
        del holder[way[-1]]

    return change


def numbers(name: str, to: Any, at: int = 0) -> Callable[[Content], None]:
    return entry(f"live/{name}", to, at)


def shape(name: str, change: Callable[[Any], Any]) -> Callable[[Content], None]:
    return array(f"live/{name}", change)


def repeated_fit(content: Content) -> None:
    content.document["fits"] *= 2


def other_names(content: Content) -> None:
    content.document["fits"][1]["document"]["names"] = ["m0", "m2", "m1"]


def other_kind(content: Content) -> None:
    content.document["fits"][1]["document"]["kind"] = "WhiteBoxEnsemble"


def fit_in_fit(content: Content) -> None:
    content.document["fits"][0]["document"] = json.loads(json.dumps(content.document))


def unneeded_tables(content: Content) -> None:
    content.document["live"]["open"]["tables"] = []


def twice(name: str) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        content.arrays[f"live/{name}"] = content.arrays[f"live/{name}"].copy()
        content.arrays[f"live/{name}"][1] = content.arrays[f"live/{name}"][0]

    return change


GOOD = [1, 0.5, 0.1, 1.0, 0.1, 0.0]
"""A fit to be watched later: its number, the scale of its promises, and what its weights are worth."""


def later(*fits: Any) -> Callable[[Content], None]:
    """Have the first fit watched, and others wait for labels of their rows."""

    def change(content: Content) -> None:
        content.document["live"]["counts"]["fits"] = 3
        content.document["live"]["watched"] = {"number": 0, "weighing": 0.0, "later": list(fits)}

    return change


def but(at: int, to: Any) -> list[Any]:
    return [*GOOD[:at], to, *GOOD[at + 1 :]]


NAN, LARGE = float("nan"), 10**6
OF_LIVE = [
    *("refit", "play", "refit_in", "groups", "latest", "counts", "hedge", "tracking", "history", "monitor", "refits"),
    *("rows", "open", "watched"),
]
NEEDED = [name for name in OF_LIVE if name not in ("refit", "groups")]
ARRAYS = [
    *("hedge", "closed/keys", "closed/prints", "open/lengths", "open/numbers", "open/keys", "open/proposed"),
    *("open/played", "open/features", "open/weights", "open/promises", "open/fit", "open/ids", "open/ids/values"),
    *("rows0/labels", "rows1/numbers", "rows0/x", "open/x0", "history/values", "monitor/evidence", "monitor/began"),
    *(f"stack/{name}" for name in ("weights", "products", "targets", "level", "centre", "deviation", "seen", "size")),
]
WRONG: list[tuple[Callable[[Content], None], str]] = [
    *((gone(name), f"live must have '{name}'|live.{name}") for name in NEEDED),
    *((lambda content, name=name: content.arrays.pop(f"live/{name}"), f"must have '{name}'") for name in ARRAYS),
    *((shape(name, lambda each: each[None]), name) for name in ARRAYS if name != "rows0/x"),
    *((shape(name, lambda each: each[:-1]), "must") for name in ARRAYS if name not in ("open/ids/values",)),
    *((shape(name, lambda each: np.full(each.shape, "x")), name) for name in ARRAYS if name != "open/ids/values"),
    *((value("counts", name, to=-1), rf"counts\.{name} must be a whole number") for name in ("decided", "expired")),
    *((value("counts", name, to=91), rf"counts\.{name} must be a whole number") for name in ("expired", "new")),
    (value("counts", "decided", to=3), "decided must be at least"),
    (value("counts", "fits", to=0), "counts.fits must be a whole number|latest must|open/fit must"),
    (value("refit", to=0), "refit must be a whole number from 1"),
    (value("refit", to="often"), "refit must be a whole number from 1"),
    (value("refit", to=True), "refit must be a whole number from 1"),
    (value("refit", to="never"), "hedge must be an array of numbers, 2 long"),
    (value("play", to="all"), "play must be one of 'auto', 'mixture', 'heaviest'"),
    (value("refit_in", to=None), "refit_in must be one of 'call', 'thread'"),
    (value("window", to=0), "window must be a whole number from 1"),
    (value("expire_after", to=2.5), "expire_after must be a whole number from 1"),
    (value("groups", to=["day"]), "groups must name a column"),
    (value("latest", to=3), "latest must be a whole number from 0 to 2"),
    (value("latest", to=0), "latest must be 1"),
    (value("running", to=None), "latest must be 2, for no other fit is to be taken up"),
    (value("running", to=[]), "running must have|refit"),
    (value("running", "due_at", to=-1), "due_at must be a whole number"),
    (value("running", "failed", to="it did"), "latest must be 2"),
    (value("running", "refit", "why", to=3), "why must be text"),
    (value("refits", to={}), "refits must be a list"),
    (value("refits", 0, to=[]), "refits.0 must have"),
    (value("refits", 0, "rows", to=NAN), "refits.0.rows must be a whole number"),
    (value("hedge", "start", to=-1.0), "hedge.start must be a number from 0"),
    (value("hedge", "gap", to=0.0), "hedge.gap must be a number from"),
    (value("hedge", "drift", to=NAN), "hedge.drift must be a number"),
    (value("tracking", "below", to=0.0), "tracking.below must be from 0.1"),
    (value("tracking", "counted", to=-1), "tracking.counted must be a number from 0"),
    (value("tracking", "correction", to="0"), "tracking.correction must be a number"),
    (value("history", "columns", to=[]), "history.columns must be"),
    (value("history", "columns", 0, to=["counted", "last"]), "history.columns must be"),
    (value("monitor", to=None), "monitor must be a monitor"),
    (value("rows", "window", to=0), "rows.window must be a whole number from 1"),
    (value("rows", "first", to=None), "rows.first must be a list"),
    (value("open", "ids", to=None), "open.ids must have 'kind'"),
    (value("open", "tables", 0, "batches", to=0), "batches must be a whole number from 1"),
    (value("open", "tables", 0, "batches", to=99), "batches must be a whole number from 1"),
    (value("open", "tables", 0, "by_columns", to=1), "by_columns must be one of True, False"),
    (unneeded_tables, "open.tables must be those of"),
    (repeated_fit, "fits must be 1 to 3 fits"),
    (other_names, "names must be the members of the first fit"),
    (other_kind, "kind must be the kind of the first fit"),
    (fit_in_fit, "fits.*|names|kind"),
    (document("fits", value=[]), "fits must be 1 to 3 fits"),
    (document("fits", 0, "estimators", value=1), "estimators must be a whole number from 0 to 0"),
    (document("fits", 1, "document", "shared", value=["m0", "m0"]), "shared must hold distinct names"),
    (document("live", value=[]), "live must have"),
    (numbers("closed/prints", -2), "closed/prints must hold whole numbers from -1"),
    (twice("closed/keys"), "closed/keys must be distinct"),
    (twice("open/keys"), "closed/keys must be distinct"),
    (numbers("open/lengths", 0), "open/lengths must hold whole numbers from 1"),
    (numbers("open/lengths", 2**62), "open/lengths must hold whole numbers from 1"),
    (numbers("open/numbers", 90), "open/numbers must"),
    (numbers("open/numbers", -1), "open/numbers must"),
    (shape("open/numbers", lambda each: each[::-1].copy()), "open/numbers must ascend"),
    (numbers("open/proposed", NAN), "open/proposed must hold numbers"),
    (numbers("open/played", np.inf), "open/played must hold numbers"),
    (numbers("open/features", np.inf), "open/features must hold numbers of at most 1e.150 in size, or NaN"),
    (numbers("open/weights", -0.1), "open/weights must be from 0 to 1"),
    (numbers("open/weights", 1.1), "open/weights must be from 0 to 1"),
    (numbers("open/promises", np.inf), "open/promises must be finite"),
    (numbers("open/promises", NAN, at=4), "open/promises must be finite"),
    (numbers("open/fit", 2), "open/fit must hold whole numbers from 0 to 1"),
    (numbers("open/ids", LARGE), "open/ids must hold whole numbers"),
    (numbers("stack/seen", -1.0), "stack/seen must be at least 0"),
    (numbers("stack/size", -1.0), "stack/size must be at least 0"),
    (numbers("stack/products", NAN), "stack/products must hold numbers"),
    (numbers("hedge", NAN), "hedge must hold numbers"),
    (numbers("rows1/numbers", LARGE), "rows1/numbers must hold whole numbers from 0 to 89"),
    (twice("rows1/numbers"), "rows1/numbers must be distinct"),
    (numbers("rows1/labels", NAN), "rows1/labels must hold numbers"),
    (numbers("rows1/weights", -1.0), "rows1/weights must be at least 0"),
    (numbers("history/place", -1), "history/place must hold whole numbers"),
    (value("watched", to=[]), "watched must have 'number'"),
    (value("watched", "number", to=2), "watched.number must be a whole number from 0 to 1"),
    (value("watched", "number", to=-1), "watched.number must be a whole number from 0 to 1"),
    (value("watched", "number", to=True), "watched.number must be a whole number"),
    (value("watched", "weighing", to=-1.0), "watched.weighing must be a number from 0"),
    (value("watched", "weighing", to=NAN), "watched.weighing must be a number"),
    (value("watched", "later", to={}), "watched.later must be a list"),
    (gone("watched", "later"), "watched must have 'later'"),
    (value("watched", "later", to=[GOOD]), r"watched.later.0.0 must be a whole number"),
    (later(but(0, 4)), "watched.later.0.0 must be a whole number from 1 to 3"),
    (later(but(0, 0)), "watched.later.0.0 must be a whole number from 1 to 3"),
    (later(but(0, 1.5)), "watched.later.0.0 must be a whole number"),
    (later(but(0, 2), GOOD), "watched.later.1.0 must be a whole number from 3 to 3"),
    (later(GOOD, GOOD), "watched.later.1.0 must be a whole number from 2 to 3"),
    (later(but(1, 0.0)), "watched.later.0.1 must be a number from 1e-300"),
    (later(but(1, 1e121)), r"watched.later.0.1 must be at most 1e.120"),
    (later(but(1, NAN)), "watched.later.0.1 must be a number"),
    (later(but(2, -0.1)), "watched.later.0.2 must be a number from 0"),
    (later(but(2, None)), "watched.later.0.2 must be a number"),
    (later(but(3, 0.9)), "watched.later.0.3 must be a number from 1"),
    (later(but(4, -0.1)), "watched.later.0.4 must be a number from 0"),
    (later(but(4, 1e121)), r"watched.later.0.4 must be at most 1e.120"),
    (later(but(5, -1.0)), "watched.later.0.5 must be a number from 0"),
    (later(GOOD[:-1]), "watched.later.0 must be number, sigma, half_width, long_run, tolerance, weighing"),
    (later([*GOOD, 0.0]), "watched.later.0 must be number, sigma, half_width, long_run, tolerance, weighing"),
    (later(GOOD, 2), "watched.later.1 must be a list"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_value_is_told_by_the_name_of_its_part(number: int, tmp_path: Path) -> None:
    change, words = WRONG[number]
    content = sample()
    change(content)
    content.write(tmp_path / "live.oe")
    with pytest.raises(FileError, match=rf"is not what this version writes: .*({words}).*Save the ensemble again"):
        oe.load(tmp_path / "live.oe")


# Any wrong values


def strange(name: str, rng: np.random.Generator) -> Content:
    """A file with one value of the live part changed, removed or repeated, or one array."""
    content = sample(name)
    if rng.random() < 0.5:
        names = [each for each in content.arrays if each.startswith("live/")]
        name = names[rng.integers(len(names))]
        part = Content({}, {name: content.arrays.pop(name)})
        change_array(part, rng)
        content.arrays |= part.arrays
        return content
    few = [way for way in leaves(content.document) if way[0] == "live" or rng.random() < 0.01]
    way, action = few[rng.integers(len(few))], rng.random()
    holder = content.document
    for key in way[:-1]:
        holder = holder[key]
    if action < 0.1:
        del holder[way[-1]]
    elif action < 0.15 and isinstance(holder, list):
        holder.insert(way[-1], holder[way[-1]])
    else:
        holder[way[-1]] = another(holder[way[-1]], rng)
    return content


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_file_says_it_is_refused_or_the_ensemble_goes_on(seed: int, tmp_path: Path) -> None:
    rng, fates = np.random.default_rng(seed), Counter[str]()
    for number in range(120):
        content = strange(list(SAMPLES)[number % len(SAMPLES)], rng)
        try:
            fates[fate(content, tmp_path / "live.oe")] += 1
        except UnicodeEncodeError:  # JSON cannot write it
            continue
    assert fates["refused"] > 50
    assert fates["works"] > 20


SETS: dict[str, feasible.FeasibleSet] = {
    "one": feasible.Simplex(D),
    "of rows": feasible.Box(upper=WAS),
    "not convex": feasible.TopK(D, 2),
    "costs": feasible.WithCost(feasible.Simplex(D), 0.1, (0.5, np.eye(D)), (WAS, 0.3)),
}


@pytest.mark.parametrize("first", SETS)
@pytest.mark.parametrize("later", SETS)
def test_fits_of_different_sets(first: str, later: str, tmp_path: Path) -> None:
    contents = []
    for name in (first, later):
        ensemble = on_columns(SETS[name])
        for start in range(N, N + 90, 30):
            ensemble.answer(FRAME[start : start + 30])
            if start < N + 60:
                ensemble.observe(range(start - N, start - N + 30), Y[start : start + 30])
        ensemble.save(tmp_path / "live.oe")
        contents.append(Content.of(tmp_path / "live.oe"))
    content, other = contents
    content.document["fits"][1] = other.document["fits"][1]
    content.arrays = {name: each for name, each in content.arrays.items() if not name.startswith("fit1/")}
    content.arrays |= {name: each for name, each in other.arrays.items() if name.startswith("fit1/")}
    assert fate(content, tmp_path / "live.oe") in ("works" if first == later else ("works", "refused"))


def test_members_are_not_taken_from_each_other(tmp_path: Path) -> None:
    """A later fit that shares no member needs none of the first; one that shares a member that there is not, none."""
    for shared in ([], ["m0"], ["m0", "m1", "m2", "m3", "own"]):
        content = sample()
        content.document["fits"][1]["document"]["shared"] = shared
        assert fate(content, tmp_path / "live.oe") == "works"


def test_the_bytes_of_values_are_limited(tmp_path: Path) -> None:
    content = sample()
    content.arrays["live/open/ids/values"] = np.array([str(number) for number in range(200_000)])
    content.write(tmp_path / "live.oe")
    assert (tmp_path / "live.oe").stat().st_size < 5_000_000
    with pytest.raises(FileError, match=r"rows must fit into 20,000,000 bytes \(give load a larger limit=\)"):
        oe.load(tmp_path / "live.oe", limit=20_000_000)


def test_open_rows_of_a_set_that_their_parameters_do_not_make(tmp_path: Path) -> None:
    content = sample("a set per row")
    content.arrays["live/open/values"] = -np.abs(content.arrays["live/open/values"]) - 1.0
    content.write(tmp_path / "live.oe")
    with pytest.raises(FileError, match="parameters of open rows make no set"):
        oe.load(tmp_path / "live.oe")


def test_rows_without_the_column_of_groups(tmp_path: Path) -> None:
    """Whether they lack it, or a file names a column that there is not."""
    ensemble = on_columns(feasible.Simplex(D), fit={"groups": "day"})
    with pytest.raises(InputError, match="no column 'day'"):
        ensemble.answer(FRAME[N : N + 5].drop(columns="day"))
    content = sample("groups")
    content.document["live"]["groups"] = "week"
    content.write(tmp_path / "live.oe")
    with pytest.raises(InputError, match="no column 'week'"):
        oe.load(tmp_path / "live.oe").answer(FRAME[N + 90 :], ids=range(N + 90, 2 * N))


def test_fits_that_are_yet_to_be_watched_may_be_any_that_were_made(tmp_path: Path) -> None:
    for fits in ([], [GOOD], [GOOD, but(0, 3)], [but(0, 2), [3, 1e-300, 0.0, 1e120, 0.0, 1e9]]):
        content = sample()
        later(*fits)(content)
        assert fate(content, tmp_path / "live.oe") == "works"
