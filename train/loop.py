"""Runs an algorithm batch by batch: evaluations, checkpoints, logs, and an orderly end whatever happens."""

from __future__ import annotations

import dataclasses
import math
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import jax
from jax.sharding import Mesh
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from gongzhu_jax import models, results
from gongzhu_jax.models import Model
from gongzhu_jax.players import Player
from train import checkpoints, devices, logs
from train import config as configs
from train.checkpoints import Checkpoints, Counters
from train.config import Config
from train.evaluation import OPPONENTS, Evaluation

LAST, BEST = "last.model", "best.model"


class Algorithm(Protocol):
    """What the loop needs of an algorithm. States are pytrees of arrays that are whole on every device."""

    mesh: Mesh
    what: str
    """What is trained, in a few words."""

    @property
    def config(self) -> Config:
        """What defines the run."""

    @property
    def numbers(self) -> Sequence[str]:
        """Names of a batch's numbers."""

    def init(self) -> Any:
        """The state before the first batch."""

    def batch(self, state: Any, index: int) -> tuple[Any, dict[str, float]]:
        """One batch, which is a function of state and index; its :attr:`numbers` begin with ``loss``."""

    def player(self, params: Any) -> Player:
        """What is evaluated, from ``state.params``; traced."""

    def models(self, state: Any, info: dict[str, Any]) -> dict[str, Model]:
        """What is written as model files: the player's by the name "", others by theirs."""

    def spec(self, path: Path) -> str:
        """The spec of the player that the file of "" makes."""


def shapes(algorithm: Algorithm) -> Any:
    """Shapes, dtypes and shardings of an algorithm's state."""
    whole = jax.sharding.NamedSharding(algorithm.mesh, devices.WHOLE)
    fresh = jax.eval_shape(algorithm.init)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), fresh)


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a call of the loop ends: batches of the whole run, minutes of this call; None: no limit."""

    batches: int | None
    minutes: float | None


class StopRequest:
    """Ctrl-C and SIGTERM ask for an end after the current batch; the second one ends at once."""

    def __init__(self, console: Console) -> None:
        self.asked = False
        self._console = console

    def __enter__(self) -> StopRequest:
        self._before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._console.print("stopping after this batch, which is then saved; once more to stop at once")


class Run:
    """One call on a run folder."""

    def __init__(
        self, algorithm: Algorithm, program: str, folder: Path, keep: int, limits: Limits, console: Console
    ) -> None:
        """Open the folder, which exists and holds the run's config; ``program`` is the module that was called."""
        config = algorithm.config
        self.program = program
        self.algorithm, self.folder, self.limits, self.console = algorithm, folder, limits, console
        self.checkpoints = Checkpoints(folder / "checkpoints", config, keep)
        self.evaluation = Evaluation(algorithm.player, config.eval_deals, algorithm.mesh)
        self.counters = Counters(0, 0, 0.0)
        self.commit = results.commit()  # of the code that runs: the tree may change meanwhile
        self.started = time.perf_counter()
        self.before = 0.0  # seconds of earlier calls

    def go(self, resume: bool) -> int:
        """Train until a limit or a signal; returns the exit status."""
        state = self._begin(resume)
        first = devices.is_first()
        log = logs.RunLog(self.folder, self._columns(), self.counters.batch) if first else None
        status = 0
        numbers: dict[str, float] = {}
        with StopRequest(self.console) as stop, _bar(self.console) as bar:
            task = bar.add_task("training", total=1.0, what="compiling")
            self.say(logs.HEADER)
            if self.counters.batch == 0:
                self._evaluate(state, {}, log)
                self.checkpoints.save(state, self.counters, None)
            saved = self.counters.batch
            spent = 0.0  # seconds of the slowest batch of this call, the first one left out
            begun = self.counters.batch
            while not stop.asked and not self._finished(spent):
                start = time.perf_counter()
                state, numbers = self.algorithm.batch(state, self.counters.batch)
                if not math.isfinite(numbers["loss"]):
                    status = self._not_finite(saved)
                    break
                self._count(start, numbers)
                due = self.counters.batch % self.algorithm.config.eval_every == 0
                if due or (self._finished(spent) and not stop.asked):
                    margin = self._evaluate(state, numbers, log)
                    self._save(state, margin)
                    saved = self.counters.batch
                elif log:
                    log.write(self._row(numbers))
                if self.counters.batch > begun + 1:
                    spent = max(spent, time.perf_counter() - start)
                bar.update(task, completed=self._done(), what=self._what(numbers))
            if status == 0 and saved != self.counters.batch:
                self._save(state, None)
        if log:
            log.close()
        self.checkpoints.close()
        if status == 0:
            status = 130 if stop.asked else 0
            self._end(interrupted=stop.asked)
        return status

    def say(self, text: str) -> None:
        """To the terminal, from the first process only."""
        if devices.is_first():
            self.console.print(text, highlight=False, soft_wrap=True)

    def _begin(self, resume: bool) -> Any:
        if not resume:
            return self.algorithm.init()
        state, self.counters = self.checkpoints.restore(shapes(self.algorithm), self.say)
        self.before = self.counters.seconds
        self.say(f"going on after batch {self.counters.batch:,}")
        return state

    def _count(self, start: float, numbers: dict[str, float]) -> None:
        games = self.algorithm.config.games
        numbers["games_per_s"] = games / (time.perf_counter() - start)
        self.counters = self.counters._replace(
            batch=self.counters.batch + 1, games=self.counters.games + games, seconds=self._seconds()
        )

    def _seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def _finished(self, spent: float) -> bool:
        batches, minutes = self.limits.batches, self.limits.minutes
        here = time.perf_counter() - self.started
        return (batches is not None and self.counters.batch >= batches) or (
            minutes is not None and here + spent >= 60 * minutes
        )

    def _done(self) -> float:
        """The share of this call that is done."""
        batches, minutes = self.limits.batches, self.limits.minutes
        shares = [0.0]
        if batches:
            shares.append(self.counters.batch / batches)
        if minutes:
            shares.append((time.perf_counter() - self.started) / (60 * minutes))
        return min(max(shares), 1.0)

    def _left(self) -> float | None:
        """Seconds that this call will still take."""
        here, minutes = time.perf_counter() - self.started, self.limits.minutes
        left = [] if minutes is None else [max(60 * minutes - here, 0.0)]
        done = self.counters.batch
        if self.limits.batches and done:
            left.append(self._seconds() / done * (self.limits.batches - done))
        return min(left, default=None)

    def _what(self, numbers: dict[str, float]) -> str:
        left = self._left()
        return (
            f"batch {self.counters.batch:,}  {numbers['games_per_s']:.1f} games/s  loss {numbers['loss']:.3f}"
            + ("" if left is None else f"  {logs.clock(left)} left")
        )

    def _columns(self) -> list[str]:
        pairs = [f"{what}_{name}" for name in OPPONENTS for what in ("margin", "error")]
        return ["batch", "games", "samples", "seconds", "games_per_s", *self.algorithm.numbers, *pairs]

    def _row(self, numbers: dict[str, float]) -> dict[str, Any]:
        games = self.counters.games
        row = {"batch": self.counters.batch, "games": games, "samples": 52 * games}
        return row | {"seconds": round(self.counters.seconds, 3)} | numbers

    def _evaluate(self, state: Any, numbers: dict[str, float], log: logs.RunLog | None) -> float:
        found = self.evaluation(state.params)
        self.counters = self.counters._replace(seconds=self._seconds())
        row = self._row(numbers)
        for name, summary in found.items():
            row |= {f"margin_{name}": summary.margin, f"error_{name}": summary.stderr}
        if log:
            log.write(row)
        self.say(logs.line(row, self._left()))
        return found["greed"].margin

    def _save(self, state: Any, margin: float | None) -> None:
        better = margin is not None and (self.counters.best is None or margin > self.counters.best)
        if better:
            self.counters = self.counters._replace(best=margin)
        self.checkpoints.save(state, self.counters, margin)
        if devices.is_first():
            for name, model in self.algorithm.models(state, self._info(margin)).items():
                for file in (LAST, BEST) if better else (LAST,):
                    path = self.folder / file
                    path = path.with_stem(f"{path.stem}-{name}") if name else path
                    models.save(path, model, overwrite=True)

    def _info(self, margin: float | None) -> dict[str, Any]:
        about = {
            "config": configs.to_json(self.algorithm.config),
            "batches": self.counters.batch,
            "games": self.counters.games,
            "seconds": round(self.counters.seconds),
            "device": results.device(),
            "versions": results.versions(),
            "commit": self.commit,
        }
        if margin is not None:
            about["validation"] = {checkpoints.MARGIN: margin, "deals": self.algorithm.config.eval_deals}
        return about

    def _not_finite(self, saved: int) -> int:
        logs.warn(
            f"batch {self.counters.batch + 1}: the loss is not finite. The last good checkpoint is "
            f"{self.checkpoints.folder / str(saved)}; it and its config stay as they are. Start a new run with a "
            "lower --learning-rate or without --mixed."
        )
        return 1

    def _end(self, interrupted: bool) -> None:
        if not devices.is_first():
            return
        folder = self.folder
        self.say(
            f"\n{self.counters.games:,} games in {logs.clock(self.counters.seconds)}; "
            f"checkpoint: {self.checkpoints.latest()}"
        )
        if not interrupted and self.algorithm.mesh.size == len(jax.local_devices()):
            self.say(f"curve:    {self._curve()}")
        best = BEST if (folder / BEST).exists() else LAST
        self.say(f"evaluate: python -m eval.match {self.algorithm.spec(folder / best)} greed --deals 1024")
        self.say(f"go on:    {self.resume_command}")

    def _curve(self) -> Path:
        levels = {name: summary.margin for name, summary in self.evaluation.levels().items()}
        title = f"{self.folder.name}: {self.algorithm.what}, the same deals each time"
        return logs.curve(logs.evaluations(self.folder / logs.CSV), levels, title, self.folder / logs.CURVE)

    @property
    def resume_command(self) -> str:
        """The command that continues this run."""
        more = 2 * self.counters.batch or 1
        return f"python -m {self.program} --out {self.folder} --resume --batches {more}"


def _bar(console: Console) -> Progress:
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[what]}"))
    return Progress(*columns, console=console, transient=True, disable=not devices.is_first())
