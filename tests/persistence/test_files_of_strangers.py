"""No file reaches compiled code unchecked: what is wrong with one is told at the door, by the name of the part."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError, InputError
from tests import fuzz_files
from tests.fuzz_files import Content

SAVED = Path(__file__).parents[1] / "saved"
ROWS = np.loadtxt(SAVED / "rows.csv", delimiter=",")
ANSWERS: dict[str, Any] = json.loads((SAVED / "answers.json").read_text())

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


@pytest.mark.parametrize("name", ANSWERS)
def test_files_of_earlier_versions_answer_as_they_did(name: str) -> None:
    answer = oe.load(SAVED / f"{name}.oe").answer(ROWS)
    np.testing.assert_allclose(answer.actions, ANSWERS[name]["actions"], atol=1e-7)
    np.testing.assert_allclose(answer.promised, ANSWERS[name]["promised"], atol=1e-6)


# One wrong value


def entry(name: str, value: Any, at: int = 0) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        content.arrays[name] = content.arrays[name].copy()
        content.arrays[name].flat[at] = value

    return change


def array(name: str, change: Callable[[Any], Any]) -> Callable[[Content], None]:
    return lambda content: content.arrays.update({name: change(content.arrays[name])})


def document(*way: Any, value: Any) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        holder = content.document
        for key in way[:-1]:
            holder = holder[key]
        holder[way[-1]] = value

    return change


WRONG: list[tuple[str, Callable[[Content], None], str]] = [
    # what compiled code takes for an index
    ("white_box", entry("log0/member", 5), r"log0/member must hold whole numbers from 0 to 1"),
    ("white_box", entry("log0/member", -1), "log0/member"),
    ("white_box", entry("log0/cells", 1_000_000), r"log0/cells must hold whole numbers from 0 to"),
    ("white_box", entry("log0/cells", -1, at=3), "log0/cells"),
    ("white_box", array("log0/cells", lambda cells: cells[::-1].copy()), "log0/cells must ascend"),
    ("white_box", entry("log0/length", 1_000_000), "log0/length"),
    ("white_box", array("log0/length", lambda length: length[:-1]), "log0/length"),
    ("white_box", entry("log0/round", 60), "log0/round must hold whole numbers from 0 to 59"),
    ("white_box", entry("log0/round", 2**40), "log0/round"),
    ("white_box", array("log0/round", lambda number: number[::-1].copy()), "log0/round must ascend"),
    ("white_box", entry("log0/delta", np.nan), "log0/delta must hold numbers"),
    ("white_box", array("log0/delta", lambda delta: delta[:, :2].copy()), "log0/delta"),
    ("white_box", entry("log0/rows", -2), "log0/rows"),
    ("white_box", document("logs", 0, "rounds", value=2**40), "logs.0.rounds"),
    ("white_box", document("logs", 0, "rounds", value=1), "log0/round"),
    ("white_box", document("logs", 0, "layout", "sizes", 0, value=1000), "logs.0.layout.sizes"),
    ("white_box", document("logs", 0, "layout", "sizes", 3, value=99), "logs.0.layout.sizes"),
    ("white_box", document("logs", 0, "layout", "events", 0, 1, 0, value=40), "logs.0.layout.events"),
    ("white_box", document("logs", 0, "layout", "groups", value=[]), "logs.0.layout.groups"),
    ("white_box", document("grouping", value=[[]]), "groups.columns"),
    ("white_box", document("parameters", "bucket_width", value=1e-4), "logs.0.layout"),
    ("white_box", document("parameters", "bucket_width", value=0.0), "parameters.bucket_width"),
    ("black_box", document("names", value=["own"]), "names"),
    ("black_box", entry("init_", np.inf), "init_"),
    ("decision", entry("patch/member", 1), "patch/member"),
    ("decision", entry("patch/cells", 10**6), "patch/cells"),
    ("decision", document("forecaster", "patch", "layout", "sizes", 3, value=5), "forecaster.patch.layout.sizes"),
    ("decision", document("subgroups", "values", value=[[0.0]]), "forecaster.patch.layout.sizes"),
    ("decision", document("subgroups", "values", value=[[[0.0]]]), "subgroups.values.0.0 must be text or a number"),
    ("decision", document("subgroups", "values", value=[]), "subgroups.values must have at least one column"),
    # what numpy takes for an index, or a size
    ("decision", entry("folds", 10**9), "folds must hold whole numbers from 0 to"),
    ("decision", document("decider", "winner", value=50), "decider.winner"),
    ("decision", document("decider", "winner", value=10**400), "decider.winner"),
    ("decision", document("decider", "forecasts", value=["mean"]), "decider.forecasts"),
    ("decision", document("learned", "n_models_", value=4), "learned.n_models_"),
    ("decision", document("learned", "n_models_", value=True), "learned.n_models_"),
    ("decision", document("learned", "names_", value=["one"]), "learned.names_"),
    ("decision", document("feasible", "arguments", "dimension", value=10**9), "feasible.arguments.dimension"),
    ("decision", document("feasible", "kind", value="Assignment"), "feasible set cannot be made"),
    ("decision", document("columns", "first", value=[0, 1]), "columns.first must name 3 columns"),
    # arrays that do not fit together
    ("decision", array("choice/constants", lambda array: array[:-1]), "choice/constants"),
    ("decision", array("stack/centre", lambda array: array.T.copy()[:2]), "stack/centre"),
    ("decision", array("ridge/coefficients", lambda array: array[:, :1].copy()), "ridge/coefficients"),
    ("decision", entry("ridge/scale", 0.0), "ridge/scale must be at least 1e-100"),
    ("decision", entry("ridge/scale", 1e-320), "ridge/scale must be at least 1e-100"),
    ("decision", entry("assessed", np.inf), "assessed must hold numbers"),
    ("decision", array("realised", lambda array: array[:-1]), "realised"),
    ("decision", array("fingerprints_", lambda array: array.astype(np.int64)), "fingerprints_"),
    ("decision", array("upper", lambda array: array - 5), "lower must be finite and at most upper"),
    ("decision", array("upper", lambda array: array + 5), "feasible set has other bounds"),
    ("decision", entry("leaderboard_/2", 1e308), "leaderboard_/2 must hold numbers of at most 1e.150"),
    ("decision", array("leaderboard_/11", np.zeros_like), "must choose one candidate"),
    ("decision", document("frames", "leaderboard_", "columns", 12, value="because"), "frames.leaderboard_.columns"),
    ("decision", document("learned", "finding_", value=3), "learned.finding_"),
    ("decision", document("learned", "finding_", value="\ud800"), "learned.finding_ must be Unicode text"),
    ("decision", document("sense", value="most"), "sense must be one of 'max', 'min'"),
    ("decision", document("kind", value="GreyBox"), "kind must be one of"),
    ("decision", document("curse", value=float("nan")), "curse"),
    ("decision", document("label_range", value=[2.0, 1.0]), "label_range must be the least and the largest label"),
    ("decision", document("label_range", value=[float("nan"), 1.0]), "label_range.0 must be a number"),
]


@pytest.mark.parametrize(("name", "change", "words"), WRONG, ids=[f"{name}-{words}" for name, _, words in WRONG])
def test_a_wrong_value_is_told_by_the_name_of_its_part(
    name: str, change: Callable[[Content], None], words: str, tmp_path: Path
) -> None:
    content = Content.of(SAVED / f"{name}.oe")
    change(content)
    content.write(tmp_path / "wrong.oe")
    with pytest.raises(FileError, match=rf"wrong\.oe is not what this version writes: .*{words}.*Save the ensemble"):
        oe.load(tmp_path / "wrong.oe")


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex128, "M8[s]", np.float16])
def test_array_types_that_are_never_written_are_refused(dtype: Any, tmp_path: Path) -> None:
    content = Content.of(SAVED / "decision.oe")
    content.arrays["mean"] = np.zeros(3).astype(dtype)
    content.write(tmp_path / "wrong.oe")
    with pytest.raises(FileError, match="holds what optensemble never writes"):
        oe.load(tmp_path / "wrong.oe")


def test_the_order_of_bytes_and_of_entries_does_not_matter(tmp_path: Path) -> None:
    content = Content.of(SAVED / "decision.oe")
    content.arrays = {
        name: np.asfortranarray(array.astype(array.dtype.newbyteorder(">"))) for name, array in content.arrays.items()
    }
    content.write(tmp_path / "big.oe")
    ours, theirs = oe.load(tmp_path / "big.oe"), oe.load(SAVED / "decision.oe")
    np.testing.assert_array_equal(ours.decide(ROWS), theirs.decide(ROWS))
    assert ours.promise(ROWS) == theirs.promise(ROWS)


def test_a_set_that_a_few_numbers_make_too_large(tmp_path: Path) -> None:
    """The factors of a covariance are few numbers, and it is d × d: here beyond 2 GiB, from a small file."""
    content, d = Content.of(SAVED / "white_box.oe"), 10_000
    content.document["names"], content.document["columns"] = ["all"], {"all": list(range(d))}
    del content.arrays["feasible/covariance"]
    content.arrays |= {"feasible/factors": np.zeros((d, 1)), "feasible/specific": np.ones(1)}
    content.arrays |= {"lower": np.zeros(d), "upper": np.ones(d), "feasible/upper": np.ones(d)}
    content.write(tmp_path / "wrong.oe")
    assert (tmp_path / "wrong.oe").stat().st_size < 100_000
    with pytest.raises(FileError, match=r"feasible\.arguments must fit into 2,147,483,648 bytes .*limit="):
        oe.load(tmp_path / "wrong.oe")


def small(path: Path, kind: str, arguments: Any, d: int = 3, **arrays: Any) -> Path:
    """Write a white box without corrections, of any feasible set."""
    content = Content.of(SAVED / "white_box.oe")
    content.document |= {"names": ["a"], "columns": {"a": list(range(d))}, "logs": [], "grouping": None, "simple": None}
    content.document["groups"] = {"callable": False, "columns": None}
    content.document["feasible"] = {"kind": kind, "saved": True, "arguments": arguments}
    kept = {name: array for name, array in content.arrays.items() if not name.startswith(("feasible/", "log"))}
    kept |= {"n_patches_": np.zeros(1, np.int64), "lower": np.zeros(d), "upper": np.ones(d)}
    content.arrays = kept | {f"feasible/{name}": array for name, array in arrays.items()}
    content.write(path / "small.oe")
    return path / "small.oe"


LARGE: dict[str, tuple[str, Any, int, dict[str, Any]]] = {
    "a dimension as an array": ("Simplex", {}, 3, {"dimension": np.array(200_000_000)}),
    "columns as many as rows": ("Assignment", {"rows": 12_000}, 12_000, {}),
    "no rows": ("Polytope", {}, 3, {"A_ub": np.zeros((0, 30_000_000)), "b_ub": np.zeros(0)}),
    "no whole rows": ("MixedInteger", {}, 3, {"A_eq": np.zeros((0, 30_000_000)), "b_eq": np.zeros(0)}),
    "no factors": ("RiskBudget", {"limit": 1.0}, 3, {"factors": np.zeros((6_000, 0)), "specific": np.array(1.0)}),
    "blocks": ("Product", {"blocks": [{"kind": "Simplex", "spec": {"dimension": 5_000}}] * 1_000}, 5_000, {}),
    "a set inside": ("ByKey", {"keys": ["a"], "sets": [{"kind": "Simplex", "spec": {"dimension": 10**8}}]}, 3, {}),
    "a single set inside": ("WithCost", {"omega": {"kind": "Simplex", "spec": {"dimension": 10**8}}}, 3, {}),
}


@pytest.mark.parametrize("name", LARGE)
def test_sets_that_say_they_are_larger_than_their_actions(name: str, tmp_path: Path) -> None:
    kind, arguments, d, arrays = LARGE[name]
    path = small(tmp_path, kind, arguments, d, **arrays)
    tracemalloc.start()
    with pytest.raises(FileError, match=r"feasible.* must (make a set of|be a)"):
        oe.load(path)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_many_large_sets_by_key_must_fit_into_memory_together(tmp_path: Path) -> None:
    d, n = 20_000, 2_000
    sets = {"keys": list(range(n)), "sets": [{"kind": "Simplex", "spec": {"dimension": d}}] * n}
    path = small(tmp_path, "ByKey", sets, d)
    with pytest.raises(FileError, match=r"feasible.arguments must fit into .* bytes \(give load a larger limit=\)"):
        oe.load(path)


@pytest.mark.parametrize("keys", [["a"], ["a", "a"], ["a", 1.5], ["a", True], ["a", None], "ab", {"a": 1, "b": 2}])
def test_keys_are_one_for_each_set_and_text_or_whole_numbers(keys: Any, tmp_path: Path) -> None:
    sets = [{"kind": "Simplex", "spec": {"dimension": 3}}] * 2
    with pytest.raises(FileError, match=r"feasible.arguments.keys must (be text or whole|name each of the sets once)"):
        oe.load(small(tmp_path, "ByKey", {"key": {"columns": [0]}, "keys": keys, "sets": sets}))


@pytest.mark.parametrize("sets", [[], 3, ["a"], [{"kind": "Simplex"}, {"kind": "Simplex"}], {"a": 1}])
def test_sets_by_key_that_are_none(sets: Any, tmp_path: Path) -> None:
    with pytest.raises(FileError):
        oe.load(small(tmp_path, "ByKey", {"key": {"columns": [0]}, "keys": ["a", "b"], "sets": sets}))


WRONG_COSTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no pair": ({"turnover": 3.0}, {}),
    "half a pair": ({"turnover": [0.5]}, {}),
    "text": ({"turnover": ["a", 0.5]}, {}),
    "a negative rate": ({"turnover": [0.5, -1.0]}, {}),
    "held of another length": ({"turnover": [[0.1, 0.2], 1.0]}, {}),
    "no number": ({"linear": {"a": 1}}, {}),
    "a matrix in words": ({"quadratic": "large"}, {}),
    "a matrix that is none": ({"quadratic": [1.0, [[1.0], [2.0, 3.0]]]}, {}),
    "a matrix of another size": ({}, {"quadratic": np.eye(2)}),
    "not a number": ({}, {"quadratic": np.full((3, 3), np.nan)}),
    "too many units": ({}, {"linear": np.ones(4)}),
}


@pytest.mark.parametrize("name", WRONG_COSTS)
def test_costs_that_cannot_be(name: str, tmp_path: Path) -> None:
    arguments, arrays = WRONG_COSTS[name]
    inside = {"kind": "Simplex", "spec": {"dimension": 3}}
    with pytest.raises(FileError):
        oe.load(small(tmp_path, "WithCost", {"omega": inside, **arguments}, **arrays))


def test_a_cost_of_no_set(tmp_path: Path) -> None:
    wrong: list[Any] = [None, 3, [], {"kind": "Simplex"}]
    for omega in wrong:
        with pytest.raises(FileError):
            oe.load(small(tmp_path, "WithCost", {"omega": omega, "linear": 1.0}))


@pytest.mark.no_cover
def test_sets_of_many_parts_are_read_in_time(tmp_path: Path) -> None:
    d, ends = 2_000, {"lower": np.zeros(1), "upper": np.ones(1)}
    arrays = {f"{number}/{name}": end for number in range(d) for name, end in ends.items()}
    path = small(tmp_path, "Product", {"blocks": [{"kind": "Box", "spec": {"dimension": 1}}] * d}, d, **arrays)
    assert oe.load(path).feasible.dimension == d


def test_knapsacks_of_many_resources_need_no_table(tmp_path: Path) -> None:
    arrays = {"weights": np.ones((2_000, 3)), "capacity": np.full(2_000, 1.5)}
    loaded = oe.load(small(tmp_path, "Knapsack", {"integer": True}, 3, **arrays))
    assert loaded.feasible.kernel is None
    np.testing.assert_array_equal(loaded.decide(np.array([[1.0, 3.0, 2.0]])), [[0.0, 1.0, 0.0]])


def test_rounds_and_patches_are_counted_over_all_corrections(tmp_path: Path) -> None:
    content = Content.of(SAVED / "white_box.oe")
    content.document["logs"] = [content.document["logs"][0] | {"rounds": 9_000_000}] * 2
    twice = {name.replace("log0", "log1"): array for name, array in content.arrays.items() if name.startswith("log0")}
    content.arrays |= twice
    content.write(tmp_path / "wrong.oe")
    with pytest.raises(FileError, match="logs must have fewer than 10,000,000 rounds"):
        oe.load(tmp_path / "wrong.oe")
    content = Content.of(SAVED / "white_box.oe")
    content.arrays |= {f"log0/{name}": np.zeros(200_000, np.int64) for name in ("round", "member", "length")}
    content.write(tmp_path / "wrong.oe")
    with pytest.raises(FileError, match="log0/length must hold whole numbers from 1"):
        oe.load(tmp_path / "wrong.oe")


def test_a_layout_for_more_policies_than_it_has_cells_of(tmp_path: Path) -> None:
    content = Content.of(SAVED / "black_box.oe")
    names, d = [f"policy {number}" for number in range(5_000)], len(content.arrays["lower"])
    content.document |= {"names": names, "columns": {name: list(range(d)) for name in names}}
    content.document["logs"][0]["layout"]["sizes"][d] = 5_001
    content.write(tmp_path / "wrong.oe")
    with pytest.raises(FileError, match=r"logs\.0\.layout\.sizes must have [0-9]+ entries"):
        oe.load(tmp_path / "wrong.oe")


# Sizes, before anything is allocated


def replaced(path: Path, name: str, part: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    """Put another part into a file, with the right checksum."""
    content = {}
    with zipfile.ZipFile(path) as archive:
        content = {each: archive.read(each) for each in archive.namelist()}
    content[name] = part
    manifest = json.loads(content["manifest.json"])
    manifest["sha256"][name] = hashlib.sha256(part).hexdigest()
    content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for each, bytes_ in content.items():
            archive.writestr(each, bytes_)


def copied(tmp_path: Path) -> Path:
    path = tmp_path / "copy.oe"
    path.write_bytes((SAVED / "decision.oe").read_bytes())
    return path


def test_an_array_that_claims_more_than_there_is(tmp_path: Path) -> None:
    path, packed = copied(tmp_path), io.BytesIO()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9,)})
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("lower.npy", header.getvalue() + bytes(64))
    replaced(path, "arrays.npz", packed.getvalue())
    tracemalloc.start()
    with pytest.raises(FileError, match=r"never writes \(an array that is not \(1000000000,\)"):
        oe.load(path)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


@pytest.mark.parametrize("text", [b"(", b"'''", b"{'descr': '<f8', 'shape': (3,), ", b"{'descr': ()}"])
def test_array_headers_that_are_malformed_are_refused(text: bytes, tmp_path: Path) -> None:
    path, packed = copied(tmp_path), io.BytesIO()
    header = text + b" " * (117 - len(text)) + b"\n"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("lower.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(24))
    replaced(path, "arrays.npz", packed.getvalue())
    with pytest.raises(FileError, match="holds what optensemble never writes"):
        oe.load(path)


def test_large_arrays_are_held_once(tmp_path: Path) -> None:
    content, size = Content.of(SAVED / "decision.oe"), 32 << 20
    content.arrays["extra"] = np.zeros(size // 8)
    content.write(tmp_path / "large.oe")
    tracemalloc.start()
    oe.load(tmp_path / "large.oe", limit=2 * size)
    assert tracemalloc.get_traced_memory()[1] < 1.5 * size
    tracemalloc.stop()
    content.arrays["extra"] = np.asfortranarray(np.zeros((2, size // 16)))
    content.write(tmp_path / "large.oe")
    with pytest.raises(FileError, match="which must be turned around"):
        oe.load(tmp_path / "large.oe", limit=size + (1 << 20))


def bomb(size: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", bytes(size))
    return packed.getvalue()


def test_arrays_that_would_expand_beyond_the_limit(tmp_path: Path) -> None:
    path = copied(tmp_path)
    replaced(path, "arrays.npz", bomb(64 << 20))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(FileError, match=r"has arrays that are 67,108,864 bytes long; 8,388,608 are allowed.*limit="):
        oe.load(path, limit=8 << 20)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def test_a_part_that_expands_beyond_what_it_says(tmp_path: Path) -> None:
    path = copied(tmp_path)
    replaced(path, "ensemble.json", b"[" + b" " * (16 << 20) + b"]", zipfile.ZIP_DEFLATED)
    said = path.read_bytes().replace(struct.pack("<L", (16 << 20) + 2), struct.pack("<L", 100))
    path.write_bytes(said)
    tracemalloc.start()
    with pytest.raises(FileError):
        oe.load(path)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


@pytest.mark.slow
def test_text_and_tables_of_contents_are_bounded_too(tmp_path: Path) -> None:
    path = copied(tmp_path)
    replaced(path, "ensemble.json", b"[" + b"[]," * 300_000 + b"[]]")
    with pytest.raises(FileError, match=r"ensemble\.json that is 900,004 bytes long"):
        oe.load(path, limit=16 << 20)
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(300):
            archive.writestr(f"{number}" + "x" * 60_000, b"")
    replaced(path, "arrays.npz", many.getvalue())
    with pytest.raises(FileError, match=r"never writes \(its table of contents is too long\)"):
        oe.load(path)
    end = many.getvalue()[-22:]
    replaced(path, "arrays.npz", many.getvalue()[:-22] + b"PK\6\7" + bytes(16) + end[:12] + bytes(4) + end[16:])
    with pytest.raises(FileError, match=r"never writes \(its table of contents is too long\)"):
        oe.load(path)


@pytest.mark.parametrize("text", [b"[" * 100_000, b"[" * 1000 + b"]" * 1000, b"9" * 10_000, b"\xff\xfe[\x00]\x00"])
def test_text_of_extreme_nesting_or_length_is_refused(text: bytes, tmp_path: Path) -> None:
    path = copied(tmp_path)
    replaced(path, "ensemble.json", text)
    with pytest.raises(FileError):
        oe.load(path)


def test_names_that_cannot_be_printed_are_not_in_the_message(tmp_path: Path) -> None:
    content = Content.of(SAVED / "decision.oe")
    content.document["learned"]["\ud800"] = 1
    content.write(tmp_path / "wrong.oe")
    with pytest.raises(FileError, match=r"learned must be Unicode text") as caught:
        oe.load(tmp_path / "wrong.oe")
    assert str(caught.value).encode()


def test_archives_not_written_by_optensemble_are_refused(tmp_path: Path) -> None:
    path = copied(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + b"\x05\x00hello")  # a comment at the end
    with pytest.raises(FileError, match="not a whole optensemble file"):
        oe.load(path)
    path.write_bytes(whole)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("manifest.json", "{}")
    with pytest.raises(FileError, match="compressed in another way"):
        oe.load(path)
    path.write_bytes(whole)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("ensemble.json", "{}")
    with pytest.raises(FileError, match="two parts of the same name"):
        oe.load(path)


def test_the_size_limit_is_set_by_the_reader_of_the_file(tmp_path: Path) -> None:
    path = SAVED / "decision.oe"
    with pytest.raises(FileError, match=r"is itself 29,544 bytes long; 1,000 are allowed. If you trust it, .* limit="):
        oe.load(path, limit=1000)
    for wrong in (0, -1, 1.5, "2 GiB", None):
        with pytest.raises(InputError, match="limit must be a whole number"):
            oe.load(path, limit=wrong)  # type: ignore[arg-type]
    assert oe.load(path, limit=1 << 20).names_ == oe.load(path).names_


@pytest.mark.no_cover
def test_a_record_of_many_rows_loads(tmp_path: Path) -> None:
    content, n = Content.of(SAVED / "decision.oe"), 100_000
    for name in ("assessed", "realised", "advantage_assessed", "advantage_realised"):
        content.arrays[name] = np.random.default_rng(0).normal(size=n)
    content.arrays["folds"] = np.arange(n) % 10
    content.document["groups"] = [f"customer {row}" for row in range(n)]
    content.arrays["clusters"] = np.arange(n)
    content.write(tmp_path / "long.oe")
    assert len(oe.load(tmp_path / "long.oe").record_.realised) == n


def test_labels_of_several_columns_go_on_after_loading(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, members = rng.normal(size=(300, 3)), [("columns", oe.Columns([0, 1, 2]))]
    Y = X + rng.normal(size=X.shape)

    def by_corner(X: Any) -> Any:
        return np.round(X[:, :2]).astype(int)

    ensemble = oe.DecisionEnsemble(members, feasible=feasible.Simplex(3)).fit(X[:200], Y[:200], groups=by_corner)
    ensemble.save(tmp_path / "groups.oe")
    loaded = oe.load(tmp_path / "groups.oe")
    for each in (ensemble, loaded):
        each.update(X[200:], Y[200:], groups=by_corner)
    np.testing.assert_array_equal(loaded.record_.clusters, ensemble.record_.clusters)
    assert loaded.promise(X) == ensemble.promise(X)


# Many wrong values: a short budget here, a long one by tests/fuzz_files.py


@pytest.mark.slow
@pytest.mark.no_cover
def test_mutated_files_neither_crash_nor_raise_what_is_not_ours() -> None:
    fates, wrong = fuzz_files.run(files=150, seed=1_000_000, processes=1)
    assert not wrong, "\n".join(wrong)
    assert fates["refused"] > 75
    assert fates["answers"] + fates["cannot answer"] > 5
