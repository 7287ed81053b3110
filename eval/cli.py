"""What the commands of this folder share: parsing, checks of their arguments, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro
from rich.console import Console

from gongzhu_jax import players
from gongzhu_jax.players import Player

Command = TypeVar("Command")


class UsageError(ValueError):
    """A flag or argument that cannot be used; the text says which and what would be right."""


def run(
    command: type[Command],
    body: Callable[[Command, Console], int],
    prog: str,
    args: Sequence[str] | None,
    default: Command | None = None,
) -> int:
    """Parse a command line into a dataclass and run it.

    Args:
      default: what flags default to, where that is not the class's own.

    Returns:
      The exit status: what ``body`` returns; 2 for a wrong command line, 1 for bad input, 130 after Ctrl-C.
    """
    console = Console(stderr=False)
    options: dict[str, Any] = {} if default is None else {"default": default}
    parsed: Command = tyro.cli(command, prog=prog, args=args, **options)
    try:
        return body(parsed, console)
    except UsageError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130


def make_player(spec: str) -> Player:
    """A player from its spec.

    Raises:
      UsageError: there is no such player or parameter.
    """
    try:
        return players.make(spec)
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_range(flag: str, value: int, low: int, high: int | None = None) -> None:
    """Raise UsageError unless low ≤ value ≤ high."""
    if value < low or (high is not None and value > high):
        allowed = f"at least {low}" if high is None else f"{low} to {high}"
        raise UsageError(f"{flag} {value}: must be {allowed}")


def check_output(flag: str, path: Path | None, overwrite: bool) -> None:
    """Refuse to write over a file, before any work is done; with ``overwrite`` the old one is removed.

    Raises:
      UsageError: the file exists, or its folder does not.
    """
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{flag} {path}: name a file in a folder that exists")
    if path.exists() and not overwrite:
        raise UsageError(f"{flag} {path}: the file exists; name another one or add --overwrite")
    if path.exists():
        path.unlink()
