"""A saved ensemble comes back as it was, or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError, InputError
from optensemble.persistence.files import SCHEMA_VERSION
from tests.problems import Problem, make_set, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")

PROBLEM = random_problem(1, n=40)
MEMBERS: dict[str, Any] = {"models": dict(PROBLEM.models)}
POLICIES: dict[str, Any] = {"policies": dict(PROBLEM.policies)}
QUICK: dict[str, Any] = {"alpha": 0.02, "bucket_width": 0.25, "max_rounds": 50, "validation": None}
PARTS = ["manifest.json", "ensemble.json", "arrays.npz"]


def assert_same(loaded: Any, saved: Any, X: Any) -> None:
    assert type(loaded) is type(saved)
    white = isinstance(saved, oe.WhiteBoxEnsemble)
    methods = ["decide", "predict", "self_assess", "choose", *(["predict_members"] if white else [])]
    for method in methods:
        ours, theirs = getattr(loaded, method)(X), getattr(saved, method)(X)
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


@pytest.fixture
def white(tmp_path: Path) -> tuple[oe.WhiteBoxEnsemble, Path]:
    ensemble = PROBLEM.white_box(**QUICK)
    ensemble.save(tmp_path / "white.oe")
    return ensemble, tmp_path / "white.oe"


# There and back


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "frozen"},
        {"schedule": "round-robin"},
        {"schedule": "joint"},
        {"schedule": "joint", "shrinkage": 2.0},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_schedule_and_sense(options: dict[str, Any], sense: str, tmp_path: Path) -> None:
    white = PROBLEM.white_box(sense=sense, **options, **QUICK)
    black = PROBLEM.black_box(sense=sense, **options, **QUICK)
    assert white.n_rounds_ > 0
    assert black.n_rounds_ > 0
    round_trip(white, PROBLEM.X, tmp_path, **MEMBERS)
    round_trip(black, PROBLEM.X, tmp_path, **POLICIES)


@pytest.mark.parametrize("omega", ["polytope", "simplex", "vertices", "box", "risk"])
def test_every_built_in_set(omega: str, tmp_path: Path) -> None:
    problem = random_problem(2, n=40, omega=omega)
    white, black = problem.white_box(**QUICK), problem.black_box(**QUICK)
    ours = round_trip(white, problem.X, tmp_path, models=dict(problem.models)).feasible
    round_trip(black, problem.X, tmp_path, policies=dict(problem.policies))
    assert type(ours) is type(problem.omega)
    C = np.random.default_rng(0).normal(size=(200, 3))
    np.testing.assert_array_equal(ours.argmax(C), problem.omega.argmax(C))


def test_sets_with_arguments_of_their_own(tmp_path: Path) -> None:
    sets = [
        feasible.Polytope(
            A_ub=[[1, 1, 0]], b_ub=[2], A_eq=[[1, 0, -1]], b_eq=[0.25], lower=[-1, 0, -1], upper=[1, 2.5, 1]
        ),
        feasible.Polytope(dimension=3, upper=1 / 3),
        feasible.Vertices([[0.0, 1.0, 5.0], [2.0, 0.1, -3.0]], lower=[-1, 0, -4], upper=[2, 1, 5]),
        feasible.Box([0.0, 0.5, 0.1 + 0.2], [1.0, 0.5, 7.0]),
        feasible.RiskBudget(limit=0.7, factors=[[1.0], [0.5], [0.1]], specific=0.3, upper=0.9),
        feasible.RiskBudget(np.eye(3), 0.6, A_ub=[[1, 1, 0]], b_ub=[0.8]),
        feasible.Knapsack([1.0, 2.0, 3.0], 3.5, integer=True, on_failure="fallback", fallback=[0, 0, 0]),
        feasible.TopK(3, 2, at_most=True),
        feasible.Assignment(1, 3),
        feasible.ShortestPath([("a", "b"), ("b", "c"), ("a", "c")], "a", "c"),
        feasible.Product([feasible.Simplex(2), feasible.Product([feasible.Box(upper=[0.5])])]),
        feasible.Product([feasible.Box(upper=[0.5]), feasible.RiskBudget(np.eye(2), 0.6)]),
    ]
    for omega in sets:
        ensemble = oe.WhiteBoxEnsemble(PROBLEM.models, omega, **QUICK).fit(PROBLEM.X, PROBLEM.Y)
        round_trip(ensemble, PROBLEM.X, tmp_path, **MEMBERS)


def test_whole_numbers(tmp_path: Path) -> None:
    omega = feasible.MixedInteger(A_ub=[[1.0, 2.0, 3.0]], b_ub=[3.5], integer=[0, 1])
    X = PROBLEM.X[:10]
    ensemble = oe.WhiteBoxEnsemble(PROBLEM.models[:1], omega, max_rounds=1, validation=None).fit(X, PROBLEM.Y[:10])
    ensemble.save(tmp_path / "whole.oe")
    loaded = oe.load(tmp_path / "whole.oe", models=dict(PROBLEM.models[:1]))
    np.testing.assert_array_equal(loaded.feasible.integer, [True, True, False])
    np.testing.assert_array_equal(loaded.decide(X), ensemble.decide(X))


def test_a_product_with_an_oracle_is_given_again(tmp_path: Path) -> None:
    product = feasible.Product([feasible.Simplex(2), feasible.Oracle(lambda C: C > 0, 1)])
    ensemble = oe.WhiteBoxEnsemble(PROBLEM.models, product, **QUICK).fit(PROBLEM.X, PROBLEM.Y)
    round_trip(ensemble, PROBLEM.X, tmp_path, feasible=product, **MEMBERS)
    with pytest.raises(InputError, match=r"feasible set \(Product\) cannot be saved"):
        oe.load(tmp_path / "first.oe", **MEMBERS)


def test_an_oracle_is_given_again(tmp_path: Path) -> None:
    oracle = feasible.Oracle(PROBLEM.omega.argmax, 3)
    ensemble = oe.WhiteBoxEnsemble(PROBLEM.models, oracle, **QUICK).fit(PROBLEM.X, PROBLEM.Y)
    round_trip(ensemble, PROBLEM.X, tmp_path, feasible=oracle, **MEMBERS)
    with pytest.raises(
        InputError, match=r"feasible set \(Oracle\) cannot be saved.*given again: load\(path, feasible="
    ):
        oe.load(tmp_path / "first.oe", **MEMBERS)
    for other in (feasible.Oracle(PROBLEM.omega.argmax, 3, upper=2.0), feasible.Simplex(2)):
        with pytest.raises(InputError, match=r"feasible set given has bounds .* but .* Give the same set again"):
            oe.load(tmp_path / "first.oe", feasible=other, **MEMBERS)


def test_a_set_may_be_given_though_it_was_saved(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    ensemble, path = white
    loaded = oe.load(path, feasible=PROBLEM.omega, **MEMBERS)
    assert loaded.feasible is PROBLEM.omega
    assert_same(loaded, ensemble, PROBLEM.X)


@pytest.mark.parametrize("kind", [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble])
@pytest.mark.parametrize("groups", ["region", ["region", "number"], ["number", "share", "flag"]])
def test_groups_by_column(kind: Any, groups: Any, tmp_path: Path) -> None:
    row = PROBLEM.X
    frame = pd.DataFrame(
        {"row": row, "region": np.array(["nörd", "süd"])[row % 2], "number": row % 3, "share": row % 4 / 3}
    ).assign(flag=row < 9)
    given = MEMBERS["models"] if kind is oe.WhiteBoxEnsemble else POLICIES["policies"]
    of_frame = {name: lambda X, member=member: member(X["row"].to_numpy()) for name, member in given.items()}
    ensemble = kind(of_frame, PROBLEM.omega, groups=groups, **QUICK).fit(frame, PROBLEM.Y)
    again: dict[str, Any] = {"models" if kind is oe.WhiteBoxEnsemble else "policies": of_frame}
    loaded = round_trip(ensemble, frame, tmp_path, **again)
    np.testing.assert_array_equal(
        loaded.decide(frame.assign(region="elsewhere")), ensemble.decide(frame.assign(region="elsewhere"))
    )
    round_trip(ensemble, frame, tmp_path, groups=groups, **again)
    with pytest.raises(InputError, match=r"fitted with groups=.*got 'other'. Leave groups= out"):
        oe.load(tmp_path / "first.oe", groups="other", **again)


@pytest.mark.parametrize("black", [False, True])
def test_callable_groups_are_given_again(black: bool, tmp_path: Path) -> None:
    def groups(X: Any) -> Any:
        return X % 3

    fit, again = (PROBLEM.black_box, POLICIES) if black else (PROBLEM.white_box, MEMBERS)
    round_trip(fit(groups=groups, **QUICK), PROBLEM.X, tmp_path, groups=groups, **again)
    for wrong in (None, "region"):
        with pytest.raises(InputError, match=r"groups were a callable and must be given again: load\(path, groups="):
            oe.load(tmp_path / "first.oe", groups=wrong, **again)


def test_groups_that_were_not_there_are_refused(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    with pytest.raises(InputError, match="groups"):
        oe.load(white[1], groups="region", **MEMBERS)
    with pytest.raises(InputError, match="groups"):
        oe.load(white[1], groups=lambda X: X % 3, **MEMBERS)


def test_conditional_and_extended(tmp_path: Path) -> None:
    problem = random_problem(3, n=80, k=2)
    first, second = slice(0, 50), slice(50, 80)
    (name, policy), new = problem.policies
    ensemble = oe.BlackBoxEnsemble(
        [(name, policy)], problem.omega, conditional=True, groups=lambda X: X // 30, **{**QUICK, "bucket_width": 0.5}
    ).fit(problem.X[first], problem.Y[first], time_ordered=True)
    ensemble.extend(policies=[new])
    ensemble.extend(X=problem.X[second], Y=problem.Y[second])
    assert len(ensemble.log_) == 3
    loaded = ensemble_without_rows(ensemble, tmp_path, policies=dict(problem.policies), groups=ensemble.groups)
    for method in ("decide", "predict", "self_assess", "choose"):
        np.testing.assert_array_equal(getattr(loaded, method)(problem.X), getattr(ensemble, method)(problem.X))
    assert loaded.time_ordered_ is True
    assert loaded.conditional is True
    assert len(loaded.log_) == 3


def ensemble_without_rows(ensemble: Any, folder: Path, **given: Any) -> Any:
    X = np.concatenate([X for X, _ in ensemble._rows])
    return round_trip(ensemble, X, folder, **given)


def test_a_black_box_that_began_with_a_model(tmp_path: Path) -> None:
    begin = PROBLEM.models[0][1]
    ensemble = PROBLEM.black_box(init=begin, **QUICK)
    round_trip(ensemble, PROBLEM.X, tmp_path, models={"init": begin}, **POLICIES)
    with pytest.raises(InputError, match=r"must be given again: load\(path, models=\{'init'"):
        oe.load(tmp_path / "first.oe", **POLICIES)


def test_no_rounds_at_all(tmp_path: Path) -> None:
    still = {**QUICK, "alpha": 4.0}
    assert PROBLEM.white_box(**still).n_rounds_ == 0
    round_trip(PROBLEM.white_box(**still), PROBLEM.X, tmp_path, **MEMBERS)
    round_trip(PROBLEM.black_box(**still), PROBLEM.X, tmp_path, **POLICIES)


def test_numpy_parameters_and_odd_names(tmp_path: Path) -> None:
    odd = {"Zürich ✓": PROBLEM.models[0][1], 'quote" \\ \n': PROBLEM.models[1][1], "a/b": PROBLEM.models[2][1]}
    parameters: dict[str, Any] = {
        "alpha": np.float32(0.25),
        "bucket_width": np.float64(0.25),
        "max_rounds": np.int64(9),
        "min_cell": np.int16(2),
        "M": np.int8(9),
        "validation": None,
    }
    ensemble = oe.WhiteBoxEnsemble(odd, PROBLEM.omega, **parameters).fit(PROBLEM.X, PROBLEM.Y)
    round_trip(ensemble, PROBLEM.X, tmp_path, models=odd)


def test_one_coordinate(tmp_path: Path) -> None:
    problem = random_problem(4, d=1, omega="box")
    round_trip(problem.white_box(**QUICK), problem.X, tmp_path, models=dict(problem.models))


def test_an_ensemble_as_a_member_of_another(tmp_path: Path) -> None:
    inner = PROBLEM.white_box(**QUICK)
    outer = oe.BlackBoxEnsemble([("inner", inner)], PROBLEM.omega, **QUICK).fit(PROBLEM.X, PROBLEM.Y)
    round_trip(outer, PROBLEM.X, tmp_path, policies={"inner": inner})


# Members given again


def test_members_that_do_not_match(white: tuple[oe.WhiteBoxEnsemble, Path], tmp_path: Path) -> None:
    _, path = white
    models = MEMBERS["models"]
    member = models["m0"]
    wrong: list[tuple[dict[str, Any], str]] = [
        (
            {},
            r"models cannot be saved safely and must be given again: load\(path, models=\{'m0': ., 'm1': ., 'm2': .\}",
        ),
        ({"models": {"m0": member, "m2": member}}, r"must be given again: load\(path, models=\{'m1': .\}\)"),
        (
            {"models": {"m0": member, "m2": member, "mm1": member}},
            "models has 'mm1', but those saved are 'm0'.*mean 'm1'?",
        ),
        ({"models": {**models, "spare": member}}, "models has 'spare', but those saved are 'm0', 'm1', 'm2'. Leave it"),
        (
            {"models": models, "policies": {"p": member}},
            "policies has 'p', but the file needs no policies. Leave it out",
        ),
        ({"policies": models}, "must be given again|needs no policies"),
    ]
    for given, words in wrong:
        with pytest.raises(InputError, match=words):
            oe.load(path, **given)
    PROBLEM.black_box(**QUICK).save(tmp_path / "black.oe")
    with pytest.raises(InputError, match=r"policies cannot be saved safely and must be given again"):
        oe.load(tmp_path / "black.oe")
    with pytest.raises(InputError, match=r"models has 'init', but the file needs no models. Leave it out"):
        oe.load(tmp_path / "black.oe", models={"init": member}, **POLICIES)


def test_members_are_taken_by_name_not_by_order(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    ensemble, path = white
    assert_same(oe.load(path, models=dict(reversed(PROBLEM.models))), ensemble, PROBLEM.X)


@pytest.mark.parametrize("wrong", [{"models": 5}, {"feasible": 5, **MEMBERS}, {"feasible": "simplex", **MEMBERS}])
def test_wrong_arguments_are_not_the_files_fault(wrong: Any, white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    with pytest.raises(InputError):
        oe.load(white[1], **wrong)


# Files that are not what they should be


def test_a_file_holds_exactly_three_parts_and_no_pickle(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    content = parts(white[1])
    assert list(content) == PARTS
    manifest = json.loads(content["manifest.json"])
    assert manifest["format"] == "optensemble"
    assert manifest["schema_version"] == SCHEMA_VERSION == 1
    assert json.loads(content["ensemble.json"])["kind"] == "WhiteBoxEnsemble"
    with np.load(io.BytesIO(content["arrays.npz"]), allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)


def test_truncated_files(white: tuple[oe.WhiteBoxEnsemble, Path], tmp_path: Path) -> None:
    whole = white[1].read_bytes()
    cut = tmp_path / "cut.oe"
    for length in [*range(0, len(whole), 97), *range(len(whole) - 30, len(whole))]:
        cut.write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"cut\.oe"):
            oe.load(cut, **MEMBERS)


def assert_flips_are_noticed(path: Path, ensemble: Any, flips: list[tuple[int, int]]) -> None:
    whole, flipped = path.read_bytes(), path.with_name("flipped.oe")
    noticed = 0
    for position, mask in flips:
        altered = bytearray(whole)
        altered[position] ^= mask
        flipped.write_bytes(bytes(altered))
        try:
            loaded = oe.load(flipped, **MEMBERS)
        except FileError:
            noticed += 1
        else:
            assert_same(loaded, ensemble, PROBLEM.X)
    assert noticed > 0.5 * len(flips)


@pytest.fixture
def directory_start(white: tuple[oe.WhiteBoxEnsemble, Path]) -> int:
    """Where the zip's table of contents begins."""
    return white[1].read_bytes().index(b"PK\x01\x02")


def test_a_flipped_byte_is_noticed(white: tuple[oe.WhiteBoxEnsemble, Path], directory_start: int) -> None:
    positions = [*range(60), *range(60, directory_start, 23)]
    assert_flips_are_noticed(white[1], white[0], [(p, 1 << (p % 8)) for p in positions] + [(p, 255) for p in positions])


def test_a_flipped_byte_in_the_table_of_contents_is_noticed(
    white: tuple[oe.WhiteBoxEnsemble, Path], directory_start: int
) -> None:
    positions = range(directory_start, len(white[1].read_bytes()))
    masks = (1, 8, 9, 14, 255)
    for mask in masks:
        assert_flips_are_noticed(
            white[1], white[0], [(p, mask) for p in positions[mask % 3 :: 1 if mask in (1, 8) else 3]]
        )


def test_altered_content_is_refused(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    path, content = white[1], parts(white[1])
    for name in PARTS[1:]:
        altered = content[name].replace(b"WhiteBox", b"BlackBox") if name == "ensemble.json" else content[name] + b" "
        write(path, {**content, name: altered}, signed=False)
        with pytest.raises(FileError, match=rf"was altered after it was saved \({name} does not match.*another copy"):
            oe.load(path, **MEMBERS)


@pytest.mark.parametrize("missing", PARTS)
def test_a_missing_part(missing: str, white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    path, content = white[1], parts(white[1])
    del content[missing]
    write(path, content, signed=False)
    with pytest.raises(FileError, match=r"not a whole optensemble file.*Take another copy, or save"):
        oe.load(path, **MEMBERS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": SCHEMA_VERSION + 1}, r"has schema version 2, and this optensemble reads up to 1\. Update"),
        ({"schema_version": "1"}, "has schema version '1'"),
        ({"schema_version": None}, "has schema version None"),
        ({"format": "something"}, r"is not an optensemble file\. Check the path"),
    ],
)
def test_another_version_or_format(change: dict[str, Any], words: str, white: tuple[Any, Path]) -> None:
    path, content = white[1], parts(white[1])
    manifest = {**json.loads(content["manifest.json"]), **change}
    write(path, {**content, "manifest.json": json.dumps(manifest).encode()})
    with pytest.raises(FileError, match=words):
        oe.load(path, **MEMBERS)


def test_the_version_is_looked_at_before_the_content(white: tuple[Any, Path]) -> None:
    """A newer file may well have other parts; the advice is to update, not to take another copy."""
    path, content = white[1], parts(white[1])
    manifest = {**json.loads(content["manifest.json"]), "schema_version": 7, "sha256": {}}
    write(path, {**content, "manifest.json": json.dumps(manifest).encode()}, signed=False)
    with pytest.raises(FileError, match=r"schema version 7.*Update optensemble"):
        oe.load(path, **MEMBERS)


@pytest.mark.parametrize("manifest", [b"[]", b"7", b"{}", b"{", b"\xff", b'{"format": "optensemble"}'])
def test_a_manifest_that_is_none(manifest: bytes, white: tuple[Any, Path]) -> None:
    path, content = white[1], parts(white[1])
    write(path, {**content, "manifest.json": manifest}, signed=False)
    with pytest.raises(FileError, match="not a whole optensemble file"):
        oe.load(path, **MEMBERS)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document | {"kind": "GreyBoxEnsemble"},
        lambda document: {name: value for name, value in document.items() if name != "parameters"},
        lambda document: document | {"logs": None},
        lambda document: document | {"logs": [{}]},
        lambda document: [],
        pytest.param(
            lambda document: document | {"feasible": document["feasible"] | {"kind": "Sphere"}},
        ),
    ],
)
def test_a_signed_document_that_makes_no_sense(change: Callable[[Any], Any], white: tuple[Any, Path]) -> None:
    path, content = white[1], parts(white[1])
    document = json.dumps(change(json.loads(content["ensemble.json"]))).encode()
    write(path, {**content, "ensemble.json": document})
    with pytest.raises(FileError, match=r"white.oe is not what this version writes.*Save the ensemble again"):
        oe.load(path, **MEMBERS)


@pytest.mark.parametrize("nonsense", [b"", b"hello", b"{}", b"PK\x03\x04 and so on", b"\x80\x04N."])
def test_not_a_zip(nonsense: bytes, tmp_path: Path) -> None:
    (tmp_path / "note.oe").write_bytes(nonsense)
    with pytest.raises(
        FileError, match=r"note.oe is not a whole optensemble file: truncated, altered, or something else"
    ):
        oe.load(tmp_path / "note.oe")


def test_another_zip(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    with pytest.raises(FileError, match="not a whole optensemble file"):
        oe.load(tmp_path / "arrays.npz")


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"there is no file .*nothing.oe. Check the path"):
        oe.load(tmp_path / "nothing.oe")
    with pytest.raises(FileError, match=r"cannot read .*: Is a directory. Give a file that save"):
        oe.load(tmp_path)


class Trap:
    """Leaves a trace where it is unpickled."""

    trace = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.trace),))


def trapped(white: tuple[Any, Path]) -> tuple[Path, Path]:
    path, content = white[1], parts(white[1])
    trap = Trap()
    trap.trace = str(path.with_name("trace"))
    with np.load(io.BytesIO(content["arrays.npz"])) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["n_patches_"] = np.array([trap], dtype=object)
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    write(path, {**content, "arrays.npz": packed.getvalue()})
    return path, Path(trap.trace)


def test_a_pickle_inside_is_not_run(white: tuple[Any, Path]) -> None:
    path, trace = trapped(white)
    with pytest.raises(FileError, match=r"holds what optensemble never writes"):
        oe.load(path, **MEMBERS)
    assert not trace.exists()


@pytest.mark.parametrize("what", ["pickle", "garbage"])
def test_signed_arrays_that_make_no_sense(what: str, white: tuple[Any, Path]) -> None:
    path = white[1]
    if what == "pickle":
        trapped(white)
    else:
        write(path, {**parts(path), "arrays.npz": b"not an archive"})
    try:
        oe.load(path, **MEMBERS)
    except ValueError as error:
        if isinstance(error, FileError):
            return
        raise


# Writing


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    ensemble = PROBLEM.white_box(**QUICK)
    with pytest.raises(FileError, match=r"cannot write .*white.oe: No such file or directory. Choose a folder"):
        ensemble.save(tmp_path / "nowhere" / "white.oe")
    assert not list(tmp_path.iterdir())


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "white.oe").mkdir()
    with pytest.raises(FileError, match=r"cannot write .*white.oe: it is there, and is not a file. Give another"):
        PROBLEM.white_box(**QUICK).save(tmp_path / "white.oe")
    assert [entry.name for entry in tmp_path.iterdir()] == ["white.oe"]


@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError("broken"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_file(
    call: str, error: BaseException, white: tuple[oe.WhiteBoxEnsemble, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    ensemble, path = white
    before = path.read_bytes()
    other = PROBLEM.white_box(**{**QUICK, "alpha": 0.2})
    monkeypatch.setattr(os, call, fail)
    if isinstance(error, OSError):
        with pytest.raises(FileError, match=r"cannot write .*: (No space left on device|broken). Nothing was written"):
            other.save(path)
    else:
        with pytest.raises(KeyboardInterrupt):
            other.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert_same(oe.load(path, **MEMBERS), ensemble, PROBLEM.X)


def test_saving_replaces_the_old_file(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    path = white[1]
    other = PROBLEM.white_box(**{**QUICK, "alpha": 0.2})
    with path.open("rb") as reader:  # whoever is reading reads on
        start = reader.read(10)
        other.save(path)
        rest = reader.read()
    assert zipfile.is_zipfile(io.BytesIO(start + rest))
    assert_same(oe.load(path, **MEMBERS), other, PROBLEM.X)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_what_is_written_is_on_the_disk_before_it_is_in_place(
    white: tuple[oe.WhiteBoxEnsemble, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble, path = white
    order: list[str] = []

    def noted(name: str) -> Callable[..., None]:
        call = getattr(os, name)

        def wrapped(*args: Any) -> None:
            order.append(name)
            call(*args)

        return wrapped

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name))
    ensemble.save(path)
    assert order == ["fsync", "replace"]


def test_a_saved_file_has_the_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    PROBLEM.white_box(**QUICK).save(tmp_path / "white.oe")
    rights = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "white.oe")]
    assert rights[0] == rights[1]


def test_paths_may_be_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ensemble = PROBLEM.white_box(**QUICK)
    ensemble.save("white.oe")
    assert_same(oe.load("white.oe", **MEMBERS), ensemble, PROBLEM.X)


def test_saving_the_same_ensemble_twice_gives_the_same_parts(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    ensemble, path = white
    before = parts(path)
    ensemble.save(path)
    after = parts(path)
    assert before["ensemble.json"] == after["ensemble.json"]


def test_larger_sets_come_back_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    problem = random_problem(5, n=30, d=6)
    for omega in (make_set("risk", 6, rng), make_set("polytope", 6, rng)):
        changed = Problem(problem.X, problem.Y, problem.P, omega)
        round_trip(changed.white_box(**QUICK), problem.X, tmp_path, models=dict(problem.models))
