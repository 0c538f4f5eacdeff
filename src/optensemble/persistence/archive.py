"""The archive of a saved ensemble: a zip of JSON and npz with checksums, written whole or not at all.

::

    manifest.json    format, schema_version, SHA-256 of the others
    ensemble.json    text and single numbers
    arrays.npz       everything else
    members.zip      members that are estimators, if any are kept; earlier releases pass over it
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.atomic_files import replace
from optensemble.exceptions import FileError

SCHEMA_VERSION = 1
"""Counted up whenever earlier releases would misread a file."""

_FORMAT = "optensemble"
_MANIFEST, _DOCUMENT, _ARRAYS = "manifest.json", "ensemble.json", "arrays.npz"
_MEMBERS = "members.zip"

LIMIT = 2 << 30
"""Bytes that a file may take up unless more are allowed: enough for the record of some thirty million rows."""

_LARGEST_MANIFEST = 1 << 16
"""Bytes of the manifest, which is read before any limit of the user's applies; ours has some three hundred."""

_LARGEST_DIRECTORY = 1 << 24
"""Bytes of a table of contents: it lists the arrays of a hundred thousand blocks; zipfile makes objects of it."""

EXPANDS = 128
"""Bytes of memory for one of JSON: an empty list is three bytes there and 64 in Python, and every entry is visited."""

_CHUNK_BYTES = 1 << 20
"""Bytes that are unpacked at a time, so that an array is never there twice."""

_LARGEST_HEADER = 1 << 17
"""Bytes in which the header of an array must end; ours have about a hundred."""

_COPIED_FREELY = 1 << 20
"""Bytes of an array that may be copied even where the limit leaves no room."""

_NUMBER = 8
"""Bytes of a number in an array; all are float64, int64 or uint64."""

_END = struct.Struct("<4s4H2LH")
"""The end of a zip archive without a comment; the sixth number is the length of its table of contents."""

_LARGE_END = 20
"""Bytes before that in a large archive, which point to another length."""

Arrays = dict[str, npt.NDArray[Any]]


class Contents(NamedTuple):
    """The contents of a file: text and single numbers, arrays, and estimators as skops has written them."""

    document: dict[str, Any]
    arrays: Arrays
    blobs: list[bytes]


def bundle(document: dict[str, Any], arrays: Arrays, blobs: Sequence[bytes]) -> bytes:
    """Return the bytes of the file."""
    packed = zipped({f"{name}.npy": _as_npy(array) for name, array in arrays.items()}, zipfile.ZIP_DEFLATED)
    parts = {_DOCUMENT: json.dumps(document, ensure_ascii=False).encode(), _ARRAYS: packed}
    if blobs:  # each is a compressed zip itself
        numbered = {f"{number}.skops": blob for number, blob in enumerate(blobs)}
        parts[_MEMBERS] = zipped(numbered, zipfile.ZIP_STORED)
    manifest = {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "sha256": {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()},
    }
    return zipped({_MANIFEST: json.dumps(manifest).encode(), **parts}, zipfile.ZIP_STORED)


def zipped(parts: dict[str, bytes], compression: int) -> bytes:
    """Return a zip of the parts, without a time stamp: the same content is the same file."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, compress_type=compression)
    return whole.getvalue()


def _as_npy(array: npt.NDArray[Any]) -> bytes:
    written = io.BytesIO()
    np.lib.format.write_array(written, array, allow_pickle=False)
    return written.getvalue()


def write_archive(path: Path, document: dict[str, Any], arrays: Arrays, blobs: Sequence[bytes] = ()) -> None:
    """Write the file; a reader finds the old one or the new one, whole."""
    replace(path, bundle(document, arrays, blobs))


def read_archive(path: Path, limit: int = LIMIT) -> tuple[dict[str, Any], Arrays]:
    """Return the document and the arrays of a file, checked as by :func:`read_contents`."""
    contents = read_contents(path, limit)
    return contents.document, contents.arrays


def read_contents(path: Path, limit: int = LIMIT) -> Contents:
    """Return the contents of a file, after checks of format, version, sizes and integrity, in this order.

    Neither the file nor its unpacked contents may be longer than ``limit`` bytes. Estimators are not unpacked here.
    """
    with _naming(path), open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileError("is not a regular file. Give a file that save() wrote.")
        return _read_parts(file, limit)


def contents_of_bytes(content: bytes, name: Path, limit: int = LIMIT) -> Contents:
    """Return the contents of what :func:`bundle` has made, after the same checks; ``name`` is for errors."""
    with _naming(name):
        return _read_parts(io.BytesIO(content), limit)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong in reading a file into an error that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(f"there is no file {path}. Check the path.") from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}. Give a file that save() wrote.") from error
    except FileError as error:
        raise FileError(f"{path} {error}") from error
    except Exception as error:  # zipfile, zlib, json and numpy raise many kinds for bytes that are not theirs
        raise FileError(
            f"{path} is not a whole optensemble file: truncated, altered, or something else ({error}). "
            "Take another copy, or save the ensemble again."
        ) from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for somebody to write to it, as a pipe would."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read_parts(file: IO[bytes], limit: int) -> Contents:
    require_size(file.seek(0, io.SEEK_END), limit, "is itself")
    with open_archive(file) as archive:
        manifest = json.loads(read_part(archive, _MANIFEST, _LARGEST_MANIFEST))
        version, expected = manifest["schema_version"], dict(manifest["sha256"])
        if manifest["format"] != _FORMAT:
            raise FileError("is not an optensemble file. Check the path.")
        if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
            raise FileError(
                f"has schema version {version!r}, and this optensemble reads up to {SCHEMA_VERSION}. "
                "Update optensemble to read it."
            )
        limits = {_DOCUMENT: limit // EXPANDS, _ARRAYS: limit}
        limits |= {_MEMBERS: limit} if _MEMBERS in archive.namelist() else {}
        parts = {name: read_part(archive, name, most) for name, most in limits.items()}
    for name, part in parts.items():
        if hashlib.sha256(part).hexdigest() != expected.get(name):
            raise FileError(
                f"was altered after it was saved ({name} does not match its checksum). "
                "Take another copy, or save the ensemble again."
            )
    try:
        blobs = _read_blobs(parts[_MEMBERS], limit) if _MEMBERS in parts else []
        return Contents(json.loads(parts[_DOCUMENT].decode()), _read_arrays(parts[_ARRAYS], limit), blobs)
    except Exception as error:
        raise FileError(f"holds what optensemble never writes ({error}). Save the ensemble again.") from error


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """Open an archive, unless its table of contents, which zipfile reads at once, is larger than any of ours."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - _END.size - _LARGE_END, 0))
    before, end = (tail := file.read())[: -_END.size], tail[-_END.size :]
    if len(end) < _END.size or not end.startswith(b"PK\5\6"):
        raise zipfile.BadZipFile("it does not end as an archive does")
    if _END.unpack(end)[5] > _LARGEST_DIRECTORY or (before.startswith(b"PK\6\7") and size < zipfile.ZIP64_LIMIT):
        raise zipfile.BadZipFile("its table of contents is too long")
    archive = zipfile.ZipFile(file)
    if len(set(archive.namelist())) < len(archive.namelist()):
        raise zipfile.BadZipFile("it has two parts of the same name")
    return archive


def read_part(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Read a part of an archive, whose length is known before."""
    info = part_info(archive, name, limit)
    with archive.open(info) as part:
        content = part.read(info.file_size)
    if len(content) != info.file_size:
        raise zipfile.BadZipFile(f"{name} is shorter than it says")
    return content


def part_info(archive: zipfile.ZipFile, name: str, limit: int) -> zipfile.ZipInfo:
    """Return the entry of a part in the table of contents, if its length and compression are allowed."""
    info = archive.getinfo(name)
    require_size(info.file_size, limit, f"has a part {name} that is")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others expand without bounds
        raise zipfile.BadZipFile(f"{name} is compressed in another way")
    return info


def _read_arrays(packed: bytes, limit: int) -> Arrays:
    """Read the arrays, if all of them together keep to the limit."""
    with open_archive(io.BytesIO(packed)) as archive:
        left = limit - sum(info.file_size for info in archive.infolist())
        require_size(limit - left, limit, "has arrays that are")
        return {
            name.removesuffix(".npy"): _read_array(_read_bytes(archive, part_info(archive, name, limit)), left)
            for name in archive.namelist()
        }


def _read_blobs(packed: bytes, limit: int) -> list[bytes]:
    """Read the estimators as skops has written them, numbered from 0."""
    with open_archive(io.BytesIO(packed)) as archive:
        require_size(sum(info.file_size for info in archive.infolist()), limit, "has members that are")
        return [read_part(archive, f"{number}.skops", limit) for number in range(len(archive.namelist()))]


def _read_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[np.uint8]:
    """Read a part into the memory of an array."""
    content, done = np.empty(info.file_size, np.uint8), 0
    with archive.open(info) as part:
        while chunk := part.read(min(_CHUNK_BYTES, len(content) - done)):
            content[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
            done += len(chunk)
    if done != info.file_size:
        raise zipfile.BadZipFile(f"{info.filename} is shorter than it says")
    return content


def _read_array(content: npt.NDArray[np.uint8], left: int) -> npt.NDArray[Any]:
    """Return an array, without a copy if possible; its header comes first, and must describe the rest to the byte."""
    stream = io.BytesIO(content[:_LARGEST_HEADER].tobytes())
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_columns, dtype = header[np.lib.format.read_magic(stream)](stream)
    if dtype.kind not in "biufU" or not dtype.itemsize or (dtype.kind in "iuf" and dtype.itemsize != _NUMBER):
        raise ValueError(f"an array of {dtype}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array that is not {shape} as it says")
    flat = np.frombuffer(content, dtype, offset=stream.tell()) if math.prod(shape) else np.empty(0, dtype)
    if dtype.kind == "b" and (flat.view(np.uint8) > 1).any():
        raise ValueError("truth values that are neither true nor false")
    if by_columns or not dtype.isnative or not flat.flags.aligned:
        require_size(len(content), max(left, _COPIED_FREELY), "has an array, which must be turned around, that is")
    flat = np.require(flat.astype(dtype.newbyteorder("="), copy=False), requirements=["A"])
    return flat.reshape(shape, order="F").copy(order="C") if by_columns else flat.reshape(shape)


def require_size(size: int, limit: int, what: str) -> None:
    """Raise ``FileError`` if something is larger than allowed."""
    if size > limit:
        raise FileError(
            f"{what} {size:,} bytes long; {limit:,} are allowed. If you trust it, give load a larger limit=."
        )
