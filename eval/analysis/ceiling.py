"""What there is to win by seeing all hands: a bound for players that see their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track

from eval import cli, duplicate
from eval.analysis import common
from eval.analysis.common import Analysis
from eval.duplicate import OpenHanded
from gongzhu_jax import cards, models, networks, search
from gongzhu_jax.game import State
from gongzhu_jax.models import Model
from gongzhu_jax.results import Figure


@dataclasses.dataclass(frozen=True)
class Ceiling(Analysis):
    """A team that sees all hands against Greed, who does not: how much there is to win at all.

    The model, which reads open hands, values every card one step later (open-hand network), and searches the true deal
    with the given budget (open-hand search).

    Examples::

        python -m eval.analysis ceiling scrofa-small-v1 --deals 1024 --base 200 --per-card 20
    """

    out: Path = Path("runs/ceiling")
    """Folder for results, made if it is not there."""
    base: int = 100
    """b of the search budget T = b + k · L."""
    per_card: int = 20
    """k of the search budget."""


KEYS = {"open-hand network": "wpg_open_network", "open-hand search": "wpg_open_search"}


def run(args: Ceiling, console: Console) -> int:
    """Play, report; returns the exit status."""
    deals = args.read_deals()
    cli.check_range("--base", args.base, 0)
    cli.check_range("--per-card", args.per_card, 1)
    try:
        model = models.load(args.model)
        networks.check_reads(model.network, "open")
    except ValueError as error:
        raise cli.UsageError(str(error)) from None
    greed = cli.make_player("greed")
    figures = {}
    for name, key in KEYS.items():
        base, per_card = (0, 1) if key == "wpg_open_network" else (args.base, args.per_card)
        seer = searching(model, name, search.Settings(base=base, per_card=per_card))
        margins = [
            duplicate.play_pairs(seer, greed, part, args.seed).margins
            for part in track(list(duplicate.batches(deals, args.batch or 64)), description=name)
        ]
        pairs = np.concatenate(margins).mean(axis=1)
        figures[key] = common.mean(pairs)
        figures[key.replace("wpg", "won")] = Figure(float((pairs > 0).mean()), "share", len(pairs))
    common.report("ceiling", figures, table, draw, args.out, console)
    return 0


def searching(model: Model, name: str, settings: search.Settings) -> OpenHanded:
    """Plays the card of the best value of a search of the true deal. What it is called tells model and budget apart."""
    leaf = networks.leaf_function(model.network, model.params)

    def choose(keys: jax.Array, states: State) -> jax.Array:
        found = search.search(states, leaf, settings)
        return jax.vmap(cards.best_card)(keys, jnp.where(found.visits > 0, found.q, -jnp.inf))

    return OpenHanded(name, choose, chunk=settings.chunk)


def table(figures: Mapping[str, Figure]) -> str:
    """Margins as markdown."""
    rows = [
        [name, common.with_error(figures[key]), f"{figures[key.replace('wpg', 'won')].value:.1%}"]
        for name, key in KEYS.items()
    ]
    caption = (
        "Points per deal of a team that sees all hands against Greed on "
        f"{figures['wpg_open_network'].n:,} deals at two tables, ± standard error."
    )
    return common.markdown(["team", "points per deal", "pairs won"], rows, caption)


def draw(figures: Mapping[str, Figure], path: Path) -> None:
    """Margins as bars."""
    picture, (ax,) = common.new_picture(8, 2.2)
    found = [figures[key] for key in KEYS.values()]
    ax.barh(
        list(KEYS),
        [f.value for f in found],
        xerr=[1.96 * (f.stderr or 0) for f in found],
        color="#8fb3d9",
    )
    ax.invert_yaxis()
    ax.set_xlabel("points per deal against Greed, seeing all hands (95 %)")
    common.save(picture, path)
