"""Checkpoints of a run: whole or not there, checked when read, with the one before to fall back to."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as policies

from train import config as configs
from train import devices
from train.config import Config

MARGIN = "margin_greed"
"""The metric by which the best checkpoint is kept."""

logging.getLogger("absl").setLevel(logging.ERROR)  # orbax tells of every save


class Counters(NamedTuple):
    """Where a run stands.

    batch: batches done.
    games: games played.
    seconds: wall time so far, all sessions of the run together.
    best: the best margin against Greed so far, in points; None before the first evaluation.
    """

    batch: int
    games: int
    seconds: float
    best: float | None = None


class Checkpoints:
    """The checkpoints of one run folder: the last few, and the best by the validation deals."""

    def __init__(self, folder: Path, config: Config, keep: int) -> None:
        """Open a folder, made if it is not there; ``keep`` last checkpoints stay."""
        self.folder, self._config = folder.absolute(), config
        self._manager = ocp.CheckpointManager(
            self.folder,
            options=ocp.CheckpointManagerOptions(
                preservation_policy=policies.AnyPreservationPolicy(
                    [
                        policies.LatestN(keep),
                        policies.BestN(
                            get_metric_fn=lambda metrics: metrics[MARGIN],
                            n=1,
                            keep_checkpoints_without_metrics=False,
                        ),
                    ]
                ),
                enable_async_checkpointing=False,
            ),
        )

    def save(self, state: Any, counters: Counters, margin: float | None) -> Path:
        """Write a checkpoint; ``margin`` is that of an evaluation of this very state."""
        about = {
            "format": configs.FORMAT,
            "config": configs.to_json(self._config),
            "counters": counters._asdict(),
            "digest": digest(state),
        }
        self._manager.save(
            counters.batch,
            args=ocp.args.Composite(state=ocp.args.StandardSave(state), about=ocp.args.JsonSave(about)),
            metrics=None if margin is None else {MARGIN: margin},
        )
        return self.folder / str(counters.batch)

    def latest(self) -> Path | None:
        """The newest checkpoint."""
        step = self._manager.latest_step()
        return None if step is None else self.folder / str(step)

    def restore(self, like: Any, say: Callable[[str], None]) -> tuple[Any, Counters]:
        """Read the newest checkpoint that is whole.

        Damaged ones are told of and moved to the folder ``damaged`` beside the checkpoints.

        Args:
          like: shapes, dtypes and shardings of the state.

        Raises:
          ValueError: there is none, or it is of another config or version; the text names the field.
        """
        steps = sorted(self._manager.all_steps(), reverse=True)
        for step in steps:
            try:
                args = ocp.args.Composite(state=ocp.args.StandardRestore(like), about=ocp.args.JsonRestore())
                found = self._manager.restore(step, args=args)
                state, about = found["state"], found["about"]
                whole = about["digest"] == digest(state)
            except Exception as error:  # damaged files make orbax raise many kinds
                whole, reason = False, f"{type(error).__name__}"
            else:
                reason = "its content is not what was written"
            if whole:
                self._check_same_run(step, about)
                return state, Counters(**about["counters"])
            aside = self._move_aside(step)
            say(
                f"checkpoint {self.folder / str(step)} is damaged ({reason}): moved to {aside}; trying the one before"
            )
        raise ValueError(f"{self.folder}: no whole checkpoint" + (f" among {len(steps)}" if steps else ""))

    def _check_same_run(self, step: int, about: dict[str, Any]) -> None:
        where = f"{self.folder / str(step)}"
        try:
            old = configs.from_json(about["config"], about["format"], type(self._config))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if found := configs.difference(old, self._config):
            raise ValueError(f"{where}: a checkpoint of another run: {found}")

    def _move_aside(self, step: int) -> Path:
        aside = self.folder.parent / "damaged"
        if devices.is_first():
            aside.mkdir(exist_ok=True)
            while (aside / str(step)).exists():
                aside = aside / "older"
                aside.mkdir(exist_ok=True)
            (self.folder / str(step)).rename(aside / str(step))
        self._manager.reload()
        return aside / str(step)

    def close(self) -> None:
        """Wait for what is being written."""
        self._manager.close()


def digest(state: Any) -> str:
    """SHA-256 over all arrays in order, with their shapes and dtypes."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(devices.to_host(state)):
        array = np.ascontiguousarray(leaf)
        found.update(f"{array.dtype.name}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def num_bytes(state: Any) -> int:
    """Size of a state's arrays, given as arrays or shapes."""
    return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(state))
