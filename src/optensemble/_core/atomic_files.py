"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optensemble.exceptions import FileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def replace(path: Path, content: bytes) -> None:
    """Write a file: a reader finds the old one or the new one, whole."""
    with whole(path) as new:
        new.write_bytes(content)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Make a new file beside the target to be written to; it takes the target's place at the end, and only then.

    An error, an interrupt or a full disk leaves what was there before. A link stays one: what it points to is written.
    """
    try:
        path = path.resolve()
    except (OSError, RuntimeError) as error:  # links in a circle: RuntimeError until Python 3.12
        raise FileError(f"cannot write {path}: {error}. Give another name.") from error
    if path.exists() and not path.is_file():
        raise FileError(f"cannot write {path}: it is there, and is not a file. Give another name.")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise FileError(
            f"cannot write {path}: {error.strerror or error}. Choose a folder that can be written to."
        ) from error
    os.close(handle)
    try:
        yield Path(name)
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FileError(f"cannot write {path}: {error.strerror or error}. Nothing was written.") from error
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file while it is read and then replaced: another process that wants to do so waits.

    The lock is the operating system's, on the file itself: a process that is killed leaves none behind. Systems and
    file systems without such locks (Windows, some network drives) have none here. Those who only read need no lock.
    """
    held = None
    while fcntl is not None and held is None and path.is_file():
        try:
            file = open(path, "rb")  # noqa: SIM115  (closed below)
        except FileNotFoundError:  # whoever reads it says so
            break
        except OSError as error:
            raise FileError(
                f"cannot read {path}: {error.strerror or error}. Make it readable and try again."
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            file.close()
            break
        if path.is_file() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            held = file
        else:  # another process has put a new file in its place while this one waited
            file.close()
    try:
        yield
    finally:
        if held is not None:
            held.close()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
