"""The file behind a saved ensemble: a zip of JSON and npz with checksums, written whole or not at all.

::

    manifest.json    format, schema_version, SHA-256 of the other two
    ensemble.json    text and single numbers
    arrays.npz       everything else
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._files import replace
from optensemble.exceptions import FileError

SCHEMA_VERSION = 1
_FORMAT = "optensemble"
_MANIFEST, _DOCUMENT, _ARRAYS = "manifest.json", "ensemble.json", "arrays.npz"
_NOT_WHOLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,  # and NotImplementedError: a flipped bit claims encryption or another compression
)

Arrays = dict[str, npt.NDArray[Any]]


def _bundle(document: dict[str, Any], arrays: Arrays) -> bytes:
    packed = _zipped({f"{name}.npy": _as_npy(array) for name, array in arrays.items()}, zipfile.ZIP_DEFLATED)
    parts = {_DOCUMENT: json.dumps(document, ensure_ascii=False).encode(), _ARRAYS: packed}
    manifest = {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "sha256": {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()},
    }
    return _zipped({_MANIFEST: json.dumps(manifest).encode(), **parts}, zipfile.ZIP_STORED)


def _zipped(parts: dict[str, bytes], compression: int) -> bytes:
    """Return a zip of the parts without the time it was made at: the same content is the same file."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, compress_type=compression)
    return whole.getvalue()


def _as_npy(array: npt.NDArray[Any]) -> bytes:
    written = io.BytesIO()
    np.lib.format.write_array(written, array, allow_pickle=False)
    return written.getvalue()


def write(path: Path, document: dict[str, Any], arrays: Arrays) -> None:
    """Write the file; a reader finds the old one or the new one, whole."""
    replace(path, _bundle(document, arrays))


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Check format, version and integrity, in this order, before anything is looked at."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in (_MANIFEST, _DOCUMENT, _ARRAYS)}
        manifest = json.loads(parts[_MANIFEST])
        version, expected = manifest["schema_version"], dict(manifest["sha256"])
        ours = manifest["format"] == _FORMAT
    except FileNotFoundError as error:
        raise FileError(f"there is no file {path}. Check the path.") from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}. Give a file that save() wrote.") from error
    except _NOT_WHOLE as error:
        raise FileError(
            f"{path} is not a whole optensemble file: truncated, altered, or something else ({error}). "
            "Take another copy, or save the ensemble again."
        ) from error
    if not ours:
        raise FileError(f"{path} is not an optensemble file. Check the path.")
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise FileError(
            f"{path} has schema version {version!r}, and this optensemble reads up to {SCHEMA_VERSION}. "
            "Update optensemble to read it."
        )
    for name in (_DOCUMENT, _ARRAYS):
        if hashlib.sha256(parts[name]).hexdigest() != expected.get(name):
            raise FileError(
                f"{path} was altered after it was saved ({name} does not match its checksum). "
                "Take another copy, or save the ensemble again."
            )
    try:
        with np.load(io.BytesIO(parts[_ARRAYS]), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return json.loads(parts[_DOCUMENT]), arrays
    except _NOT_WHOLE as error:
        raise FileError(f"{path} holds what optensemble never writes ({error}). Save the ensemble again.") from error
