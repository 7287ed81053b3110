"""The player ``deep`` against Greed, what its parts and all knowledge of hidden hands are worth, and what it costs.

``python -m benchmarks.deep STANDARD_DEALS`` plays the standard deals and fresh ones that nothing else uses. Matches are
kept in parts, so that the same command goes on where it was stopped.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console

from benchmarks import timing
from eval import cli
from eval.analysis import ceiling, common, cost
from eval.duplicate import Contestant, OpenHanded, file_deals, random_deals
from eval.pairings import Pairings
from gongzhu_jax import models, players, search
from gongzhu_jax.players.deep import DEFAULT
from gongzhu_jax.results import Figure

FRESH_SEED = 20_261_202
"""Of the fresh deals and the luck on them; used by nothing else."""
STANDARD_SEED = 20_261_203
"""Of the luck on the standard deals."""
OPEN_SEARCH = search.Settings(base=100, per_card=20)
"""The budget of the search that sees all hands."""


@dataclasses.dataclass(frozen=True)
class Deep:
    """Measure the player deep; writes deep.json.

    Examples::

        python -m benchmarks.deep ../shared/data/standard_deals_1024.tsv --out results
    """

    standard: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="STANDARD_DEALS")]
    """File of the standard deals."""
    fresh: int = 8192
    """Fresh deals, each at two tables."""
    compared: int = 2048
    """Of those, how many are played again with parts left out, and with all hands seen."""
    part: int = 1024
    """Fresh deals in a match that is kept."""
    batch: int = 128
    """Deals in one compiled call: few, so that all cores have some."""
    games: int = 256
    """Games in lockstep for the cost of decisions in a batch."""
    folder: Path = Path("runs/deep")
    """Folder of finished matches."""
    out: Path = Path("results")
    """Folder of deep.json."""


def against_greed(args: Deep, player: Contestant, count: int, console: Console) -> np.ndarray:
    """Margins on the first so many fresh deals: ``float[count]``."""
    found = []
    for first in range(0, count, args.part):
        deals = random_deals(FRESH_SEED, min(args.part, count - first), first=first)
        pairings = Pairings(args.folder / f"fresh-{first}-{len(deals)}", deals, FRESH_SEED, None)
        found.append(pairings.margins(player, players.make("greed"), args.batch, console))
    return np.concatenate(found)


def seer() -> OpenHanded:
    """Searches with all hands seen."""
    name = f"open-hand search {OPEN_SEARCH.base}+{OPEN_SEARCH.per_card}L"
    found = ceiling.searching(models.load(models.SCROFA), name, OPEN_SEARCH)
    return dataclasses.replace(found, models=(models.SCROFA,))


def run(args: Deep, console: Console) -> int:
    """Measure, print a table, write the figures; returns the exit status."""
    for flag, value in (("--fresh", args.fresh), ("--compared", args.compared), ("--part", args.part)):
        cli.check_range(flag, value, 2)
    cli.check_range("--compared", args.compared, 2, args.fresh)
    deep = cli.make_player("deep")
    standard = file_deals(args.standard)
    pairings = Pairings(args.folder / "standard", standard, STANDARD_SEED, args.standard)
    on_standard = pairings.margins(deep, players.make("greed"), args.batch, console)
    fresh = against_greed(args, deep, args.fresh, console)
    figures = {
        "wpg_deep_standard": common.mean(on_standard),
        "won_standard": Figure(float((on_standard > 0).mean()), "share", len(on_standard)),
        "wpg_deep_fresh": common.mean(fresh),
        "won_fresh": Figure(float((fresh > 0).mean()), "share", len(fresh)),
    }
    compared = fresh[: args.compared]
    for name, without in (("belief", "deep:belief=none"), ("endgame", "deep:solve=0"), ("search", "actor")):
        margins = against_greed(args, cli.make_player(without), args.compared, console)
        figures[f"gain_{name}_paired"] = common.mean(compared - margins)
    cheating = against_greed(args, seer(), args.compared, console)
    share = common.share(compared, cheating)
    figures |= {"wpg_cheating": common.mean(cheating), "share_of_cheating": share}
    figures |= {
        "latency_ms": cost.milliseconds(deep, 1, rounds=9),
        "amortised_ms": cost.milliseconds(deep, args.games, rounds=5),
        "simulations": Figure(DEFAULT.simulations, "playouts", 1),
    }
    timing.report("deep", figures, args.out, console)
    return 0


def main() -> int:
    """The command line; returns the exit status."""
    return cli.run(Deep, run, prog="python -m benchmarks.deep", args=None)


if __name__ == "__main__":
    sys.exit(main())
