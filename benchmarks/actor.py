"""The actor: what an hour of training on two cores reaches, and what the model that ships does in one forward pass.

``python -m benchmarks.actor --run RUN`` takes the folder of a finished run with ``--preset cpu``. Its best model and
the one that ships play Greed on the same fresh deals, which nothing else uses; then decisions are timed, in a batch
and alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import sys
from pathlib import Path

import tyro
from rich.console import Console

from benchmarks import timing
from eval import duplicate
from eval.analysis import cost
from eval.match import play_match
from gongzhu_jax import models, players
from gongzhu_jax.results import Figure
from train import logs, loop

FRESH_SEED = 20_261_201
"""Of the deals and the luck of the figures against Greed; used by nothing else."""
CURVE = Path("results") / "actor_cpu.csv"
"""The progress file of the run that was measured last."""


@dataclasses.dataclass(frozen=True)
class Actor:
    """Measure a run of an hour, the shipped model and its speed; writes actor.json."""

    run: Path
    """Folder of a finished run with --preset cpu."""
    pairs: int = 4096
    """Fresh deals of the matches against Greed."""
    games: int = 1024
    """Games in lockstep for decisions per second."""
    out: Path = Path("results")
    """Folder of actor.json."""


def trained(args: Actor) -> dict[str, Figure]:
    """What the run took, and how fast its batches were."""
    every = logs.read(args.run / logs.CSV)
    rows = [row for row in every if row["learn_seconds"]]
    shutil.copyfile(args.run / logs.CSV, args.out / CURVE.name)
    games = [int(b["games"]) - int(a["games"]) for a, b in itertools.pairwise(rows)]
    seconds = [float(row["play_seconds"]) + float(row["learn_seconds"]) for row in rows[1:]]
    best = models.load(args.run / loop.BEST).info
    return {
        "minutes": Figure(float(rows[-1]["seconds"]) / 60, "min", 1),
        "deals": Figure(float(rows[-1]["games"]), "deals", 1),
        "best_deals": Figure(float(best["games"]), "deals", 1),
        "deals_per_s": Figure(
            sum(games) / sum(seconds),
            "deals/s",
            len(games),
            timing.stderr([n / s for n, s in zip(games, seconds, strict=True)]),
        ),
    }


def matches(args: Actor, console: Console) -> dict[str, Figure]:
    """Margins against Greed on fresh deals in one forward pass."""
    deals = duplicate.random_deals(FRESH_SEED, args.pairs)
    found = {}
    for name, spec in (("cpu60", f"actor:model={args.run / loop.BEST}"), ("shipped", "actor")):
        margins, _ = play_match(players.make(spec), players.make("greed"), deals, FRESH_SEED, None, console)
        summary = duplicate.summarize(margins)
        low, _ = summary.interval
        found |= {
            f"wpg_actor_{name}": Figure(summary.margin, "points/deal", summary.pairs, summary.stderr),
            f"wpg_actor_{name}_low": Figure(low, "points/deal", summary.pairs),
            f"won_actor_{name}": Figure(summary.won / summary.pairs, "share", summary.pairs),
        }
    return found


def speed(args: Actor) -> dict[str, Figure]:
    """What a decision of the shipped model takes."""
    actor = players.make("actor")
    batch = cost.milliseconds(actor, args.games, rounds=9)
    assert batch.stderr is not None
    rate = 1e3 / batch.value
    return {
        "decisions_per_s": Figure(rate, "decisions/s", batch.n, rate * batch.stderr / batch.value),
        "latency_ms": cost.milliseconds(actor, 1, rounds=9),
    }


def run(args: Actor, console: Console) -> None:
    """Measure, print a table, write the figures."""
    figures = trained(args) | matches(args, console) | speed(args)
    timing.report("actor", figures, args.out, console)


def main() -> int:
    """The command line."""
    run(tyro.cli(Actor, prog="python -m benchmarks.actor"), Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
