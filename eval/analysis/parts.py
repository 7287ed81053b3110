"""What the parts of ``deep`` are worth: each changed alone, against Greed on the same deals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from eval import cli
from eval.analysis import common, cost
from eval.analysis.common import Analysis
from eval.pairings import Pairings
from gongzhu_jax.players.deep import DEFAULT
from gongzhu_jax.results import Figure

VARIANTS = {
    "uniform": ("uniform worlds", "belief=none"),
    "hands": ("worlds by the hand model", "belief=hands"),
    "likelihood": ("worlds by what was played", "belief=likelihood"),
    "both": ("worlds by both", "belief=both"),
    "to_the_end": ("playouts to the end, no critic", "horizon=52"),
    "at_once": ("the critic at once, no playouts", "horizon=0"),
    "no_endings": ("no exact endings", "solve=0"),
    "bold": ("any gain is believed", "deviate=0"),
    "half": ("half the playouts", f"simulations={DEFAULT.simulations // 2}"),
    "twice": ("twice the playouts", f"simulations={2 * DEFAULT.simulations}"),
}
"""By the name in figures: what tables call it, and what it changes."""
OTHERS = {key: variant for key, variant in VARIANTS.items() if variant[1] != f"belief={DEFAULT.belief}"}
"""Those that differ from the player as it is."""
KEYS = {"deep": "deep"} | {name: key for key, (name, _) in OTHERS.items()} | {"one forward pass": "actor"}
GAINS = {f"deep − {name}": f"gain_over_{key}" for name, key in KEYS.items() if key != "deep"}


@dataclasses.dataclass(frozen=True)
class Parts(Analysis):
    """The player ``deep`` as it is, with each part changed alone, and the actor in one forward pass.

    All play Greed on the same deals with the same luck, so that differences are paired. Finished pairings are kept.

    Examples::

        python -m eval.analysis parts actor-v1 --deals 2048 --seed 5 --out runs/parts
    """

    out: Path = Path("runs/parts")
    """Folder for results, made if it is not there."""
    time: bool = True
    """Measure what decisions cost."""


def run(args: Parts, console: Console) -> int:
    """Play what is missing, then report; returns the exit status."""
    deals = args.read_deals()
    specs = {"deep": f"deep:model={args.model}"}
    specs |= {key: f"deep:model={args.model},{rest}" for key, (_, rest) in OTHERS.items()}
    specs["actor"] = f"actor:model={args.model}"
    made = {key: cli.make_player(spec) for key, spec in specs.items()}
    greed = cli.make_player("greed")
    pairings = Pairings(args.out, deals, args.seed, args.deal_file)
    margins = {key: pairings.margins(player, greed, args.batch, console) for key, player in made.items()}

    figures = {f"wpg_{key}": common.mean(values) for key, values in margins.items()}
    figures |= {f"won_{key}": Figure(float((m > 0).mean()), "share", len(m)) for key, m in margins.items()}
    figures |= {
        f"gain_over_{key}": common.mean(margins["deep"] - values)
        for key, values in margins.items()
        if key != "deep"
    }
    if args.time:
        for key, player in made.items():
            figures[f"decision_ms_{key}"] = cost.milliseconds(player, 64)
    common.report("parts", figures, table, draw, args.out, console)
    return 0


def table(figures: Mapping[str, Figure]) -> str:
    """The table as markdown."""
    caption = (
        f"Points per deal against Greed on {figures['wpg_deep'].n:,} deals at two tables, ± standard error; "
        "differences are paired."
    )
    return common.margins_table(figures, KEYS, GAINS, caption)


def draw(figures: Mapping[str, Figure], path: Path) -> None:
    """The table as a picture: margins on the left, paired differences on the right."""
    common.draw_margins(figures, KEYS, GAINS, path)
