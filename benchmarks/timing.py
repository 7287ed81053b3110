"""Timing in turn: what is compared is run round by round, so that a machine's drift hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
from rich.progress import track

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
