"""How much a player can be exploited: an actor trained against it, which knows nothing but its play, then plays it.

``python -m benchmarks.best_response`` trains one for each of the players, all from the shipped actor with the same
deals, and plays them on fresh ones. What the training wins over its start is a lower bound of what a best response
would: the deals are few and the network is small. Runs and matches are kept, so that the same command goes on.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import timing
from eval import cli
from eval.analysis import common
from eval.duplicate import random_deals
from eval.pairings import Pairings
from gongzhu_jax import models
from gongzhu_jax.results import Figure
from train import actor, loop

FRESH_SEED = 20_261_204
"""Of the deals and the luck of the figures; used by nothing else."""
OPPONENTS = {"greed": "greed", "actor": "actor", "scrofa": "scrofa"}
"""By the name in figures."""


@dataclasses.dataclass(frozen=True)
class BestResponse:
    """Train best responses to the players, and measure them; writes best_response.json.

    Examples::

        python -m benchmarks.best_response --out results
    """

    batches: int = 100
    """Batches of training against each player."""
    games: int = 512
    """Deals in a batch."""
    pairs: int = 2048
    """Fresh deals, each at two tables."""
    learning_rate: float = 5e-4
    """Of Adam, at the start; falls along a cosine."""
    folder: Path = Path("runs/best_response")
    """Folder of the runs and of finished matches."""
    out: Path = Path("results")
    """Folder of best_response.json."""


def train(args: BestResponse, name: str) -> Path:
    """The model trained against a player, a file; trained unless it is there.

    Raises:
      UsageError: the training failed; it has told why.
    """
    folder = args.folder / name
    flags = {
        "preset": "cpu",
        "opponent": OPPONENTS[name],
        "start": models.ACTOR,
        "start-critic": models.CRITIC,
        "learning-rate": args.learning_rate,
        "schedule-batches": args.batches,
        "batches": args.batches,
        "games": args.games,
        "eval-every": args.batches,
        "out": folder,
    }
    given = [str(word) for flag, value in flags.items() for word in (f"--{flag}", value)]
    status = actor.main([*given, "--resume"] if folder.exists() else given)
    if status == 130:
        raise KeyboardInterrupt
    if status:
        raise cli.UsageError(
            f"--folder {args.folder}: the training against {name} ended with status {status}"
        )
    return folder / loop.LAST


def run(args: BestResponse, console: Console) -> int:
    """Measure, print a table, write the figures; returns the exit status."""
    cli.check_range("--batches", args.batches, 1)
    cli.check_range("--pairs", args.pairs, 2)
    deals = random_deals(FRESH_SEED, args.pairs)
    start = cli.make_player("actor")
    figures = {"deals": Figure(args.batches * args.games, "deals", 1)}
    for name, spec in OPPONENTS.items():
        opponent, response = cli.make_player(spec), cli.make_player(f"actor:model={train(args, name)}")
        pairings = Pairings(args.folder / f"matches-{name}", deals, FRESH_SEED, None)
        before, after = (pairings.margins(who, opponent, None, console) for who in (start, response))
        figures |= {
            f"wpg_start_{name}": common.mean(before),
            f"wpg_response_{name}": common.mean(after),
            f"gain_response_{name}": common.mean(after - before),
        }
    timing.report("best_response", figures, args.out, console)
    return 0


def main() -> int:
    """The command line; returns the exit status."""
    return cli.run(BestResponse, run, prog="python -m benchmarks.best_response", args=None)


if __name__ == "__main__":
    sys.exit(main())
