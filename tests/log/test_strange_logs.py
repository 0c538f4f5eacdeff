"""Logs that were damaged, or made by a stranger: an error that says what to do, before anything is made of them."""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optensemble as oe
from optensemble.exceptions import FileError, InputError, LogError, OptEnsembleError
from optensemble.log import schema
from optensemble.log.database import open_database
from optensemble.log.packing import pack, unpack
from optensemble.log.rows import check_rows, pack_rows, unpack_rows
from optensemble.persistence.check_common import SavedFile
from optensemble.persistence.parts import Part, Shelf, Wrong
from tests.ensembles.decision import N
from tests.ensembles.live import bits
from tests.log.logged import X, after_a_crash, begun, changed, entry_contents, play


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("strange") / "log.db"
    with begun(path, refit=60) as live:
        play(live, N, N + 100, late=0)
    return path


@pytest.fixture
def copy(log: Path, tmp_path: Path) -> Path:
    return after_a_crash(log, tmp_path / "copy.db")


def resumed(path: Path) -> Any:
    with oe.LiveEnsemble.resume(path, read_only=True) as live:
        return bits(live)


PLACES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (lambda path: path, "there is no log .*gone"),
    "a folder": (lambda path: path.mkdir(), "is not a file"),
    "text": (lambda path: path.write_text("id,price\n" * 100), "it is not a SQLite database"),
    "an empty file": (lambda path: path.touch(), "has no log in it"),
    "another database": (lambda path: changed(path, "CREATE TABLE prices (day)"), "has no log in it"),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_log_is_refused(name: str, tmp_path: Path) -> None:
    make, said = PLACES[name]
    make(tmp_path / "gone")
    with pytest.raises(LogError, match=said):
        oe.LiveEnsemble.resume(tmp_path / "gone")
    if name == "nothing":
        assert not (tmp_path / "gone").exists()


def test_a_database_of_something_else_is_not_written_to(tmp_path: Path) -> None:
    path = changed(tmp_path / "prices.db", "CREATE TABLE prices (day)")
    with pytest.raises(InputError, match="is a database of something else"):
        begun(path)
    (tmp_path / "text.db").write_text("id,price\n" * 100)
    with pytest.raises(LogError, match="is not a SQLite database"):
        begun(tmp_path / "text.db")
    assert (tmp_path / "text.db").read_text().startswith("id,price")


def test_where_no_log_can_be_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"cannot be opened\. Check that its folder exists"):
        begun(tmp_path / "nowhere" / "log.db")
    for odd in (7, None.__class__, ["log.db"]):
        with pytest.raises(InputError, match="log must be the path of a file, or a URL"):
            oe.LiveEnsemble.resume(odd)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has a URL of 'mysql', which is not known"):
        begun("mysql://root@127.0.0.1/x")
    with pytest.raises(InputError, match="no valid URL"):
        begun("postgresql://host:port:1/x")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_told_without_its_password() -> None:
    with pytest.raises(LogError, match="the database says") as told:
        oe.LiveEnsemble.resume("postgresql://user:hush@127.0.0.1:1/none")
    assert "hush" not in str(told.value)
    assert "user:***@127.0.0.1:1/none" in str(told.value)


def test_a_log_that_cannot_begin_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise LogError("no.")

    monkeypatch.setattr("optensemble.log.starting.create_tables", refuse)
    with pytest.raises(LogError, match=r"no\."):
        begun(tmp_path / "log.db")
    assert list(tmp_path.iterdir()) == []


# Versions


@pytest.mark.parametrize(
    ("version", "said"), [("2", "reads up to 1. Update"), ("x", "makes sense"), ("0", "makes sense")]
)
def test_unknown_versions_are_refused(version: str, said: str, copy: Path) -> None:
    changed(copy, "UPDATE oe_meta SET value = :version WHERE name = 'version'", version=version)
    for read_only in (True, False):
        with pytest.raises(LogError, match=said):
            oe.LiveEnsemble.resume(copy, read_only=read_only)


def test_a_log_of_an_earlier_version_is_migrated_by_who_leads_it(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, made = resumed(copy), list[int]()

    def add_column(transaction: Any, database: Any) -> None:
        transaction.write(f"ALTER TABLE oe_label ADD COLUMN note{len(made)} {database.types['whole']}")
        made.append(len(made))

    monkeypatch.setattr(schema, "VERSION", 3)
    monkeypatch.setattr(schema, "MIGRATIONS", {1: add_column, 2: add_column})
    with pytest.raises(LogError, match=r"has schema version 1, and this optensemble reads 3\. A process that leads it"):
        resumed(copy)
    with oe.LiveEnsemble.resume(copy) as live:
        assert bits(live) == state
    assert made == [0, 1]
    assert resumed(copy) == state
    database = open_database(copy)
    with database.reading() as transaction:
        assert schema.get_meta(transaction, "version") == "3"
        assert transaction.read("SELECT note0, note1 FROM oe_label LIMIT 1") == [(None, None)]
    database.close()


def test_a_migration_that_fails_changes_nothing(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(transaction: Any, _: Any) -> None:
        transaction.write("DELETE FROM oe_entry")
        raise LogError("the disk is full.")

    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setattr(schema, "MIGRATIONS", {1: fail})
    with pytest.raises(LogError, match="the disk is full"):
        oe.LiveEnsemble.resume(copy)
    monkeypatch.undo()
    resumed(copy)


# Damage


def test_a_checkpoint_that_is_damaged_is_replaced_by_the_one_before(copy: Path) -> None:
    state = resumed(copy)
    newest = "(SELECT max(seq) FROM oe_checkpoint)"
    changed(copy, f"UPDATE oe_checkpoint SET content = x'00' WHERE seq = {newest}")
    with pytest.warns(UserWarning, match="The checkpoint before it is used"):
        assert resumed(copy) == state
    changed(copy, "UPDATE oe_checkpoint SET content = x'00'")
    with pytest.warns(UserWarning, match="before it"), pytest.raises(LogError, match="Or restore a backup"):
        resumed(copy)
    changed(copy, "DELETE FROM oe_checkpoint")
    with pytest.raises(LogError, match="has no checkpoint to begin with"):
        resumed(copy)


def only_from_the_start(path: Path) -> Path:
    return changed(path, "DELETE FROM oe_checkpoint WHERE seq > 0")


BROKEN: dict[str, tuple[str, str]] = {
    "an entry is gone": ("DELETE FROM oe_entry WHERE seq = 4", "lacks the entries from 4 to 4"),
    "several are gone": ("DELETE FROM oe_entry WHERE seq IN (4, 5, 6)", "lacks the entries from 4 to 6"),
    "an entry is empty": ("UPDATE oe_entry SET content = x'' WHERE seq = 4", r"entry 4 is damaged \(it is too short\)"),
    "an entry was pruned": ("UPDATE oe_entry SET content = NULL WHERE seq = 4", "it was pruned"),
    "another kind": ("UPDATE oe_entry SET kind = 'learned' WHERE seq = 3", "entry 3 is damaged"),
    "an unknown kind": ("UPDATE oe_entry SET kind = 'x' WHERE seq = 3", "it is of kind 'x'"),
    "another order": ("UPDATE oe_entry SET content = (SELECT content FROM oe_entry WHERE seq = 1) WHERE seq = 3",
                      "does not follow from those before"),
    "labels twice": ("UPDATE oe_entry SET content = (SELECT content FROM oe_entry WHERE seq = 2) WHERE seq = 4",
                     "does not follow from those before"),
    "no leader": ("DELETE FROM oe_lead", "does not say who leads it"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named(name: str, copy: Path) -> None:
    statement, said = BROKEN[name]
    changed(only_from_the_start(copy), statement)
    with pytest.raises(LogError, match=said):
        oe.LiveEnsemble.resume(copy)


def test_a_bit_that_was_flipped_is_found(copy: Path) -> None:
    content = bytearray(entry_contents(only_from_the_start(copy))[4])
    content[200] ^= 1
    changed(copy, "UPDATE oe_entry SET content = :content WHERE seq = 4", content=bytes(content))
    with pytest.raises(LogError, match="does not match its checksum"):
        oe.LiveEnsemble.resume(copy)


def test_a_database_that_is_damaged_is_told_of(copy: Path) -> None:
    content = bytearray(copy.read_bytes())
    for at in range(4096, len(content), 37):
        content[at] ^= 0xFF
    copy.write_bytes(bytes(content))
    with pytest.raises((LogError, FileError)):
        resumed(copy)


# Entries that a stranger has signed

Change = Callable[[Any, dict[str, Any]], object]


def signed(content: bytes, change: Change) -> bytes:
    document, arrays = unpack(content)
    change(document, arrays)
    return pack(document, arrays)


def set_array(name: str, change: Callable[[Any], Any]) -> Change:
    def apply(_: Any, arrays: dict[str, Any]) -> None:
        arrays[name] = change(arrays[name])

    return apply


def first_is(value: Any) -> Callable[[Any], Any]:
    def apply(array: Any) -> Any:
        found = array.copy()
        found.reshape(-1)[0] = value
        return found

    return apply


def drop(name: str) -> Change:
    return lambda _, arrays: arrays.pop(name)


OPENED: dict[str, Change] = {
    **{f"{name} of {value}": set_array(f"open/{name}", first_is(value))
       for name in ("proposed", "played", "features", "weights", "promises") for value in (np.inf, 1e300)},
    "weights below 0": set_array("open/weights", first_is(-0.5)),
    "numbers beyond": set_array("open/numbers", lambda array: array + 1),
    "numbers below": set_array("open/numbers", lambda array: array - 1000),
    "numbers twice": set_array("open/numbers", lambda array: array * 0),
    "keys twice": set_array("open/keys", lambda array: array * np.uint64(0)),
    "a later fit": set_array("open/fit", lambda array: array + 7),
    "fewer rows": set_array("open/played", lambda array: array[:-1]),
    "more axes": set_array("open/proposed", lambda array: array[None]),
    "whole numbers": set_array("open/played", lambda array: array.astype(np.int64)),
    "no rows": lambda _, arrays: arrays.update({name: each[:0] for name, each in arrays.items()}),
    "no ids": lambda document, _: document.pop("ids"),
    "no X": lambda document, _: document.update(x=None),
    "another X": lambda document, _: document["x"]["x"].update(columns=["a"]),
    "X of other rows": lambda document, arrays: arrays.update({"open/x": arrays["open/x"][:-1]}),
    "a document that is a list": lambda document, _: (document.clear(), document.update(ids=[[[]]])),
    **{f"no {name}": drop(f"open/{name}") for name in ("numbers", "keys", "proposed", "played", "features", "fit")},
    "no contents": drop("contents"),
}  # fmt: skip
LEARNED: dict[str, Change] = {
    "infinite labels": set_array("labels", first_is(np.inf)),
    "labels that are missing": set_array("labels", first_is(np.nan)),
    "labels of other rows": set_array("labels", lambda array: array[:-1]),
    "labels of another set": set_array("labels", lambda array: array[:, :-1]),
    "numbers beyond": set_array("numbers", lambda array: array + 10_000),
    "numbers below": set_array("numbers", lambda array: array - 10_000),
    "numbers backwards": set_array("numbers", lambda array: array[::-1].copy()),
    "negative weights": lambda _, arrays: arrays.update(weights=-np.ones(10)),
    "other weights": lambda _, arrays: arrays.update(weights=np.ones(3)),
    "nothing realised": drop("realised"),
    "groups of nothing": lambda document, _: document.update(groups={"kind": "plain", "dtype": "object"}),
}
OTHERS: dict[str, Change] = {
    "why is a number": lambda document, _: document.update(why=7),
    "why is long": lambda document, _: document.update(why="x" * 100_000),
    "due long ago": lambda document, _: document.update(due_at=-1),
    "due never": lambda document, _: document.update(due_at=10**30),
    "half a character": lambda document, _: document.update(why="\ud800"),
}


def cases() -> Iterator[tuple[str, str]]:
    yield from (("opened", name) for name in OPENED)
    yield from (("learned", name) for name in LEARNED)
    yield from (("due", name) for name in OTHERS if name != "half a character")


@pytest.mark.parametrize(("kind", "name"), list(cases()))
def test_a_strangers_entry_is_refused(kind: str, name: str, copy: Path) -> None:
    change = {"opened": OPENED, "learned": LEARNED, "due": OTHERS}[kind][name]
    only_from_the_start(copy)
    connection = sqlite3.connect(copy)
    seq, content = connection.execute(
        "SELECT seq, content FROM oe_entry WHERE kind = ? ORDER BY seq LIMIT 1 OFFSET ?", (kind, int(kind != "due"))
    ).fetchone()
    connection.execute("UPDATE oe_entry SET content = ? WHERE seq = ?", (signed(content, change), seq))
    connection.commit()
    connection.close()
    with pytest.raises(LogError, match=f"entry {seq} (is damaged|does not follow)"):
        oe.LiveEnsemble.resume(copy)


@pytest.mark.slow
def test_mutated_entries_end_in_an_error_of_ours_or_in_an_ensemble(log: Path, tmp_path: Path) -> None:
    """Any byte may be another, under a right checksum."""
    rng, contents = np.random.default_rng(0), entry_contents(log)
    path = only_from_the_start(after_a_crash(log, tmp_path / "mutated.db"))
    refused = 0
    for _ in range(300):
        seq = int(rng.integers(1, 8))
        content = bytearray(contents[seq])
        for _ in range(int(rng.integers(1, 4))):
            content[int(rng.integers(12, len(content)))] = int(rng.integers(0, 256))
        head = struct.pack("<4sII", content[:4], zlib.crc32(content[12:]), struct.unpack_from("<I", content, 8)[0])
        changed(path, "UPDATE oe_entry SET content = :content WHERE seq = :seq", content=head + content[12:], seq=seq)
        try:
            with oe.LiveEnsemble.resume(path, read_only=True) as live:
                live.certificate()
        except OptEnsembleError:
            refused += 1
        changed(path, "UPDATE oe_entry SET content = :content WHERE seq = :seq", content=contents[seq], seq=seq)
    assert 50 < refused < 300


# The bytes of an entry


@given(
    st.dictionaries(st.text(max_size=5), st.integers(-(2**60), 2**60) | st.text(max_size=9) | st.none(), max_size=4),
    st.lists(st.floats(width=64), max_size=9),
)
def test_what_is_packed_is_unpacked(document: dict[str, Any], numbers: list[float]) -> None:
    arrays: dict[str, Any] = {
        "numbers": np.array(numbers),
        "whole": np.arange(len(numbers))[:, None],
        "texts": np.array(["a", "größer"]),
        "truth": np.array([True, False, True]),
        "single": np.array(7.0),
    }
    found, back = unpack(pack(document, arrays))
    assert found == document
    assert {name: (each.dtype, each.shape, each.tobytes()) for name, each in arrays.items()} == {
        name: (each.dtype, each.shape, each.tobytes()) for name, each in back.items()
    }


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_bytes_that_are_no_entry_are_refused(content: bytes) -> None:
    for each in (content, struct.pack("<4sII", b"OE1\n", zlib.crc32(content), len(content) // 2) + content):
        with pytest.raises((ValueError, TypeError)):
            unpack(each)


@pytest.mark.parametrize(
    "listed",
    [
        [["a", "|O", [1]]],
        [["a", "<f4", [1]]],
        [["a", "<f8", [10**12]]],
        [["a", "<f8", [-1]]],
        [["a", "<f8", [2**40, 2**40]]],
        [["a", "|b1", [4]]],
        [["a", "<U0", [4]]],
        [["a", ">f8", [1]]],
        [["a", "<f8", [True]]],
        [["a", "<f8", [1] * 9]],
        [[7, "<f8", [1]]],
        [["a", 7, [1]]],
        [["a", "<f8"]],
        [7],
        7,
        [["a", "<f8", [0]]] * 20_000,
    ],
)
def test_arrays_that_are_none_are_refused(listed: Any) -> None:
    header = json.dumps({"document": {}, "arrays": listed}).encode()
    body = header + bytes([7]) * 64
    with pytest.raises((ValueError, TypeError)):
        unpack(struct.pack("<4sII", b"OE1\n", zlib.crc32(body), len(header)) + body)


def test_rows_of_a_kind_that_a_log_cannot_hold_are_refused(tmp_path: Path) -> None:
    with begun(tmp_path / "log.db") as live:
        odd = X.iloc[:3].assign(m0_0=X["m0_0"].iloc[:3].astype("category").to_numpy())
        odd["m0_0"] = odd["m0_0"].astype("complex128")
        state = bits(live)
        with pytest.raises(OptEnsembleError):
            live.answer(odd, ids=[1, 2, 3])
        assert bits(live) == state
        live.answer(X.iloc[:3], ids=[1, 2, 3])


# Rows of several types


FRAME: Any = pd.DataFrame({"a": [1.0, np.nan], "day": ["mon", "tue"], "b": [2.5, 3.5], "n": [1, 2], "c": [0.0, -0.0]})


def read(document: Any, arrays: dict[str, Any]) -> Any:
    file = SavedFile(Part(document, "x"), Shelf(arrays), 1 << 30)
    check_rows(file, Part(document, "x"), "x", 2)
    return unpack_rows(document, arrays, "x")


def test_frames_of_several_types_come_back_as_they_were() -> None:
    swapped = FRAME.rename(columns={"a": "b", "b": "a"})
    for frame in (FRAME, FRAME[["day", "a"]], FRAME[["a", "b"]], swapped, FRAME[["n"]]):
        arrays: dict[str, Any] = {}
        pd.testing.assert_frame_equal(read(pack_rows(frame, arrays, "x"), arrays), frame)


@pytest.mark.parametrize(
    "change",
    [
        {"floats": ["a", "b"]},
        {"floats": ["a", "a", "c"]},
        {"floats": ["a", "day", "c"]},
        {"floats": "abc"},
        {"floats": [1, 2, 3]},
        {"places": [0, 2]},
        {"places": [0, 2, 5]},
        {"places": [0, 2, -1]},
        {"places": [2, 0, 4]},
        {"places": [0, 0, 4]},
        {"places": None},
        {"x": {"kind": "array", "dtype": "float64", "by_columns": False}},
    ],
)
def test_frames_that_were_never_packed_are_refused(change: dict[str, Any]) -> None:
    arrays: dict[str, Any] = {}
    document = pack_rows(FRAME, arrays, "x") | change
    with pytest.raises((Wrong, LookupError, TypeError)):
        read(document, arrays)
