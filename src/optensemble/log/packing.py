r"""Entries as bytes: JSON and the plain bytes of arrays, with a checksum; nothing else can be read back from them.

::

    b"OE1\n" | checksum of the rest | length of the JSON | JSON, padded | arrays, each padded to 8 bytes
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from typing import Any

import numpy as np

from optensemble.persistence.archive import Arrays

_MAGIC = b"OE1\n"
_HEAD = struct.Struct("<4sII")
_STEP = 8  # bytes: numbers lie where compiled code wants them
_TYPES = re.compile(r"\|b1|<[iuf]8|<U[1-9]\d{0,6}")
_MOST_ARRAYS, _MOST_AXES = 10_000, 6


def pack(document: dict[str, Any], arrays: Arrays) -> bytes:
    """Return a document and arrays as bytes."""
    plain = {name: np.asarray(each, order="C") for name, each in arrays.items()}
    for name, each in plain.items():
        if not _TYPES.fullmatch(each.dtype.str) or each.ndim > _MOST_AXES:
            raise ValueError(f"{name} is an array of {each.dtype.str:.40} with {each.ndim} axes")
    listed = [[name, each.dtype.str, each.shape] for name, each in plain.items()]
    header = json.dumps({"document": document, "arrays": listed}, ensure_ascii=False, separators=(",", ":")).encode()
    parts = [header, _padding(_HEAD.size + len(header))]
    for each in plain.values():
        parts += [each.tobytes(), _padding(each.nbytes)]
    body = b"".join(parts)
    return _HEAD.pack(_MAGIC, zlib.crc32(body), len(header)) + body


def unpack(content: bytes) -> tuple[Any, Arrays]:
    """Return the document and the arrays; ``ValueError`` if these are not the bytes that :func:`pack` has made."""
    if len(content) < _HEAD.size:
        raise ValueError("it is too short")
    magic, checksum, length = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError("it does not begin as an entry does")
    if zlib.crc32(memoryview(content)[_HEAD.size :]) != checksum:
        raise ValueError("it does not match its checksum")
    header = json.loads(content[_HEAD.size : _HEAD.size + length].decode())
    if not isinstance(header, dict) or not isinstance(header.get("arrays"), list):
        raise ValueError("it has no list of arrays")
    if len(header["arrays"]) > _MOST_ARRAYS:
        raise ValueError("it has too many arrays")
    at, arrays = _padded(_HEAD.size + length), Arrays()
    for name, kind, shape in header["arrays"]:
        dtype = _as_dtype(kind)
        if not isinstance(name, str) or not isinstance(shape, list) or len(shape) > _MOST_AXES:
            raise ValueError("an array has no name or no shape")
        if not all(type(each) is int and each >= 0 for each in shape):
            raise ValueError(f"an array of shape {shape}")
        count = math.prod(shape)
        if count * dtype.itemsize > len(content) - at:
            raise ValueError("an array is longer than the entry")
        found = np.frombuffer(content, dtype, count, at) if count else np.empty(0, dtype)
        if dtype.kind == "b" and (found.view(np.uint8) > 1).any():
            raise ValueError("truth values that are neither true nor false")
        arrays[name] = found.reshape(shape).copy()
        at += _padded(count * dtype.itemsize)
    return header.get("document"), arrays


def _as_dtype(kind: Any) -> np.dtype[Any]:
    """Return one of the types that are written; numpy takes much else for the name of a type."""
    if not isinstance(kind, str) or not _TYPES.fullmatch(kind):
        raise ValueError(f"an array of {kind!r:.40}")
    return np.dtype(kind)


def _padded(length: int) -> int:
    return -(-length // _STEP) * _STEP


def _padding(length: int) -> bytes:
    return bytes(_padded(length) - length)
