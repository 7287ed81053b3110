"""Measured figures: one JSON file a topic in ``results/``, written by the command that measured them.

Everything that README, docs or a report quotes is read from there. Schema::

    {"name", "command", "commit", "date", "device", "versions",
     "figures": {KEY: {"value", "stderr", "unit", "n"}}}
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

VERSIONED = ("jax", "jaxlib", "numpy", "flax", "optax", "gongzhu-jax")


class Figure(NamedTuple):
    """One measured number: its value, standard error (None if not a sample mean), unit and sample size."""

    value: float
    unit: str
    n: int
    stderr: float | None = None


def write(
    name: str,
    figures: Mapping[str, Figure],
    folder: str | Path = "results",
    command: str | None = None,
    partial: bool = False,
) -> Path:
    """Write ``folder/NAME.json``, replacing an older measurement as a whole.

    Args:
      command: default: the running process's own command line.
      partial: the measurement was cut short; adds ``"partial": true``.

    Raises:
      ValueError: a figure is not a finite number.
    """
    for key, figure in figures.items():
        if not math.isfinite(figure.value) or (
            figure.stderr is not None and not math.isfinite(figure.stderr)
        ):
            raise ValueError(f"results {name!r}: figure {key!r} is not finite: {figure}")
    content: dict[str, Any] = {
        "name": name,
        "command": command or command_line(),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": device(),
        "versions": versions(),
        "figures": {
            key: {"value": f.value, "stderr": f.stderr, "unit": f.unit, "n": f.n}
            for key, f in figures.items()
        },
    }
    if partial:
        content["partial"] = True
    path = Path(folder) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".json.unfinished")
    unfinished.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(path)
    return path


def read(name: str, folder: str | Path = "results") -> dict[str, Any]:
    """The content of ``folder/NAME.json``, with ``figures`` as :class:`Figure` values.

    Raises:
      ValueError: the file is missing or does not follow the schema.
    """
    path = Path(folder) / f"{name}.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        figures = {key: Figure(**figure) for key, figure in content["figures"].items()}
    except FileNotFoundError:
        raise ValueError(
            f"{path}: no such results; there are: {', '.join(topics(folder)) or 'none'}"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a results file: {error}") from None
    return content | {"figures": figures}


def topics(folder: str | Path = "results") -> list[str]:
    """The names of the results in a folder."""
    return sorted(path.stem for path in Path(folder).glob("*.json"))


def command_line() -> str:
    """The command that runs this process, as one would type it from the repository."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = (
        ["python", "-m", spec.name.removesuffix(".__main__")]
        if spec
        else ["python", os.path.basename(sys.argv[0])]
    )
    return shlex.join(program + sys.argv[1:])


def commit() -> str:
    """The commit that this code is at, ``-dirty`` when tracked code differs, or ``unknown`` outside of a checkout."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", "*.py", "*.toml")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head}-dirty" if changed else head


def _git(*arguments: str) -> str:
    source = Path(__file__).resolve().parent.parent
    if not (source / ".git").exists():
        raise FileNotFoundError("installed, not a checkout")
    found = subprocess.run(
        ["git", *arguments], cwd=source, capture_output=True, text=True, timeout=10, check=True
    )
    return found.stdout.strip()


def device() -> str:
    """The machine in words: accelerator, or processor and cores."""
    found = jax.devices()
    if found[0].platform != "cpu":
        return f"{len(found)} × {found[0].device_kind}"
    return f"{os.cpu_count()} cores of {_processor()}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Python and the installed packages that a figure depends on."""
    found = {"python": platform.python_version()}
    for package in VERSIONED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
