"""``python -m gongzhu_jax.records check FILE…``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tyro

from gongzhu_jax.records import check


def _command(command: Literal["check"], files: tuple[Path, ...], /, max_errors: int = 20) -> int:
    """Replay game records and say what is wrong with them: FILE:LINE, the ply, the card and the rule.

    Exit status: 0 all is right, 1 something is wrong or cannot be read, 2 the command is wrong.

    Example: python -m gongzhu_jax.records check games.jsonl more.jsonl.gz deals.tsv

    Args:
        command: what to do.
        files: records, one JSON object a line; or deals, if named .tsv or .pbn.
        max_errors: bad lines to explain; all are counted.
    """
    if not files or max_errors < 0:
        print("a FILE is missing" if not files else "--max-errors must be 0 or more", file=sys.stderr)
        print("see python -m gongzhu_jax.records --help", file=sys.stderr)
        return 2
    bad = shown = unreadable = 0
    for file in files:
        try:
            counts = check([file], max_errors - shown)[0]
        except OSError as error:
            print(f"{file}: {error.strerror or error}", file=sys.stderr)
            unreadable += 1
            continue
        bad, shown = bad + counts.bad, shown + len(counts.errors)
        print(*counts.errors, sep="\n", end="\n" if counts.errors else "", file=sys.stderr)
        print(counts)
    if bad > shown:
        print(f"and {bad - shown} more bad lines, see --max-errors", file=sys.stderr)
    return 1 if bad or unreadable else 0


def main(args: Sequence[str] | None = None) -> int:
    """The command line, without the program's name; returns the exit status.

    Raises:
      SystemExit: after ``--help`` (0) and for a command that cannot be parsed (2).
    """
    try:
        return tyro.cli(_command, prog="python -m gongzhu_jax.records", args=args)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
