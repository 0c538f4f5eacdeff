"""Files that are not what they should be: refused with the reason."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.exceptions import FileError
from optensemble.persistence.files import SCHEMA_VERSION
from tests.persistence.archives import MEMBERS, PARTS, PROBLEM, assert_same, parts, write

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


def test_a_file_holds_exactly_three_parts_and_no_pickle(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    content = parts(white[1])
    assert list(content) == PARTS
    manifest = json.loads(content["manifest.json"])
    assert manifest["format"] == "optensemble"
    assert manifest["schema_version"] == SCHEMA_VERSION == 1
    assert json.loads(content["ensemble.json"])["kind"] == "WhiteBoxEnsemble"
    with np.load(io.BytesIO(content["arrays.npz"]), allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)


def test_a_truncated_file_is_refused(white: tuple[oe.WhiteBoxEnsemble, Path], tmp_path: Path) -> None:
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


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_flipped_byte_is_noticed(white: tuple[oe.WhiteBoxEnsemble, Path], directory_start: int) -> None:
    positions = [*range(60), *range(60, directory_start, 23)]
    assert_flips_are_noticed(white[1], white[0], [(p, 1 << (p % 8)) for p in positions] + [(p, 255) for p in positions])


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_flipped_byte_in_the_table_of_contents_is_noticed(
    white: tuple[oe.WhiteBoxEnsemble, Path], directory_start: int
) -> None:
    positions = range(directory_start, len(white[1].read_bytes()))
    for mask in (1, 8, 9, 14, 255):
        assert_flips_are_noticed(white[1], white[0], [(p, mask) for p in positions[mask % 3 :: 3]])


def test_altered_content_is_refused(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    path, content = white[1], parts(white[1])
    for name in PARTS[1:]:
        altered = content[name].replace(b"WhiteBox", b"BlackBox") if name == "ensemble.json" else content[name] + b" "
        write(path, {**content, name: altered}, signed=False)
        with pytest.raises(FileError, match=rf"was altered after it was saved \({name} does not match.*another copy"):
            oe.load(path, **MEMBERS)


@pytest.mark.parametrize("missing", PARTS)
def test_a_file_without_one_of_its_parts_is_refused(missing: str, white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
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
def test_another_version_or_format_is_refused(change: dict[str, Any], words: str, white: tuple[Any, Path]) -> None:
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
def test_a_malformed_manifest_is_refused(manifest: bytes, white: tuple[Any, Path]) -> None:
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
def test_an_inconsistent_document_with_valid_checksums_is_refused(
    change: Callable[[Any], Any], white: tuple[Any, Path]
) -> None:
    path, content = white[1], parts(white[1])
    document = json.dumps(change(json.loads(content["ensemble.json"]))).encode()
    write(path, {**content, "ensemble.json": document})
    with pytest.raises(FileError, match=r"white.oe is not what this version writes.*Save the ensemble again"):
        oe.load(path, **MEMBERS)


@pytest.mark.parametrize("nonsense", [b"", b"hello", b"{}", b"PK\x03\x04 and so on", b"\x80\x04N."])
def test_a_file_that_is_not_a_zip_is_refused(nonsense: bytes, tmp_path: Path) -> None:
    (tmp_path / "note.oe").write_bytes(nonsense)
    with pytest.raises(
        FileError, match=r"note.oe is not a whole optensemble file: truncated, altered, or something else"
    ):
        oe.load(tmp_path / "note.oe")


def test_a_zip_that_is_not_an_ensemble_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    with pytest.raises(FileError, match="not a whole optensemble file"):
        oe.load(tmp_path / "arrays.npz")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
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
def test_inconsistent_arrays_with_valid_checksums_are_refused(what: str, white: tuple[Any, Path]) -> None:
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
