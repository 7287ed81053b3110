"""Timing in turn, and a report of figures.

What is compared is run round by round, so that a machine's drift hits all alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.progress import track
from rich.table import Table

from gongzhu_jax import results
from gongzhu_jax.results import Figure


def in_turn(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call in each round; results are waited for. Calls must have run once before."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in track(range(rounds), description="timing"):
        for name, call in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            seconds[name].append(time.perf_counter() - start)
    return seconds


def first_call(call: Callable[[], Any]) -> float:
    """Seconds of a call that compiles."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def rate(count: int, seconds: list[float], unit: str) -> Figure:
    """Things per second: the median round, and the spread of rounds."""
    rates = [count / s for s in seconds]
    return Figure(statistics.median(rates), unit, len(rates), stderr(rates))


def stderr(values: list[float]) -> float:
    """Standard error of the mean, 0 for a single value."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def report(name: str, figures: Mapping[str, Figure], out: Path, console: Console) -> None:
    """Print figures as a table, write them to ``out/NAME.json``, and say so."""
    table = Table("figure", "value", "± standard error", "unit", "n", title=results.device())
    for key, figure in figures.items():
        error = "" if figure.stderr is None else f"{figure.stderr:,.4g}"
        table.add_row(key, f"{figure.value:,.6g}", error, figure.unit, f"{figure.n:,}")
    console.print(table)
    console.print(f"figures: {results.write(name, figures, folder=out)}")
