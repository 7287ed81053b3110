"""Text files of one entry a line: read lazily with errors that name ``FILE:LINE``, written as a whole."""

from __future__ import annotations

import codecs
import collections
import contextlib
import errno
import gzip
import itertools
import json
import math
import os
import reprlib
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

MAX_LINE = 1 << 16
"""Bytes of the longest line that is read, with its end. A complete game record has about 800."""

StrPath = str | os.PathLike[str]
Source = StrPath | IO[bytes] | IO[str]
"""A path (``.gz``: decompressed while reading) or an open file."""

Entry = TypeVar("Entry")


def located(where: str, problem: object) -> ValueError:
    """A ValueError that starts with ``where:``, its text cut short if what is shown of the file is long."""
    text = str(problem)
    return ValueError(f"{where}: {text if len(text) <= 500 else text[:500] + ' …'}")


def entries(
    source: Source, parse: Callable[[str, int], Entry | None]
) -> Iterator[tuple[str, Entry | ValueError]]:
    """What each line holds, or what is wrong with it; one line is in memory at a time.

    Blank lines and lines where ``parse`` finds nothing are left out. UTF-8, with or without a byte order
    mark; LF or CRLF. Reading goes on after a bad line, but not after damage in a compressed file.

    Args:
      parse: from the line and its number, counted from 1; raises ValueError.

    Yields:
      ``FILE:LINE`` and the entry, or the ValueError, which names ``FILE:LINE`` too.

    Raises:
      OSError: the file cannot be opened or read.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            name = os.fspath(source)
            # A with block over a yield: the file is closed when the caller drops the generator.
            file: Any = stack.enter_context((gzip.open if name.endswith(".gz") else open)(name, "rb"))
        else:
            name, file = str(getattr(source, "name", "<file>")), source
        for number in itertools.count(1):
            where = f"{name}:{number}"
            try:
                raw = _read_line(file)
                if raw is None:
                    return
                raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                entry: Entry | ValueError | None = parse(_decode(raw), number) if raw.strip() else None
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                yield where, located(where, f"the gzip file is damaged: {error}")
                return
            except UnicodeDecodeError as error:
                yield where, located(where, f"not UTF-8 text: byte {error.start} cannot be decoded")
                return
            except ValueError as error:
                entry = located(where, error)
            if entry is not None:
                yield where, entry


def read(source: Source, parse: Callable[[str, int], Entry | None]) -> Iterator[Entry]:
    """The entries of a file, as :func:`entries`, up to the first bad line.

    Raises:
      ValueError: a line is bad; the text starts with ``FILE:LINE:``.
      OSError: the file cannot be opened or read.
    """
    for _, entry in entries(source, parse):
        if isinstance(entry, ValueError):
            raise entry
        yield entry


def _read_line(file: IO[Any]) -> bytes | None:
    """The next line, None after the last. A line that is too long is passed over in pieces, then refused."""
    line = file.readline(MAX_LINE + 1)
    if not line:
        return None
    # Files opened as text give str; a lone surrogate passes here, and decoding refuses it as any bad byte.
    raw: bytes = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
    if len(raw) <= MAX_LINE:
        return raw
    while line and not raw.endswith(b"\n"):
        line = file.readline(MAX_LINE)
        raw = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
    raise ValueError(f"the line is longer than {MAX_LINE} bytes")


def _decode(raw: bytes) -> str:
    raw = raw.rstrip(b"\r\n")
    if b"\0" in raw:
        raise ValueError(f"not text: byte {raw.index(0)} of the line is NUL")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text: byte {error.start} of the line cannot be decoded") from None


def parse_json(line: str) -> Any:
    """The JSON value of one line, stricter than Python: every value can be written back and read by others.

    Raises:
      ValueError: no JSON, NaN or an infinite number, a key that stands twice in an object, half a character
        (a lone surrogate), or nesting too deep for Python.
    """
    try:
        value = _JSON.decode(line)
        if "\\u" in line:  # an escape may be half of a character, which no text file can hold
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        if error.pos >= len(line.rstrip()) or error.msg.startswith("Unterminated string"):
            raise ValueError("not JSON: the line is cut off; an entry is one line") from None
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except UnicodeEncodeError as error:
        raise ValueError(
            f"not text: {error.object[error.start : error.end]!r} is half of a character"
        ) from None
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        raise ValueError(f"{reprlib.repr(number)} is too large a number")
    return float(number)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = collections.Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the field {reprlib.repr(twice)} stands there twice")
    return found


_JSON = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)


def write(path: StrPath, lines: Iterable[str], overwrite: bool = False) -> None:
    """Write a file (``.gz``: compressed) that appears under its name only when it is complete.

    The lines go to ``PATH.….tmp`` beside it, renamed at the end and removed after an error or Ctrl-C.

    Raises:
      FileExistsError: the file is there and ``overwrite`` is not set.
      OSError: it cannot be written.
    """
    path = Path(path)
    _refuse(path, overwrite)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(partial, "xb") as raw:
            # No name and time inside a .gz: the same lines give the same bytes.
            zipped = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else None
            with zipped or contextlib.nullcontext():
                for line in lines:
                    (zipped or raw).write(line.encode() + b"\n")
            raw.flush()
            os.fsync(raw.fileno())
        _refuse(path, overwrite)  # somebody may have made it meanwhile
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _refuse(path: Path, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    if path.exists() and not path.is_file():  # a folder; or a device, which a rename would destroy
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if not overwrite and path.exists():
        raise FileExistsError(errno.EEXIST, "the file exists; overwrite=True replaces it", str(path))
