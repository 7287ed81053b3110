"""Points lost in the last three tricks, against perfect play that knows all hands."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.progress import track

import gongzhu_jax as gz
from eval import cli, duplicate
from eval.analysis import common
from gongzhu_jax import endgame, game
from gongzhu_jax.results import Figure

PLIES = range(endgame.FIRST_PLY, game.NUM_PLIES)


@dataclasses.dataclass(frozen=True)
class Endings:
    """What players lose in the last three tricks, card by card, against perfect play with open hands.

    Each player plays Greed; a card loses what the exact solution of its position is worth more than the position after
    it. Nobody can see all hands, so that a loss is not always a mistake; it bounds what perfect endings could add.

    Examples::

        python -m eval.analysis endings raw:model=runs/small/best.model greed --deals 512
    """

    players: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PLAYER…")]
    """The players, one or more."""
    out: Path = Path("runs/endings")
    """Folder for results, made if it is not there."""
    deals: int = 256
    """How many deals, each at two tables."""
    seed: int = 0
    """Of the deals and of all luck."""


def run(args: Endings, console: Console) -> int:
    """Play, solve, report; returns the exit status."""
    cli.check_range("--deals", args.deals, 2)
    cli.check_range("--seed", args.seed, 0, 2**31 - 1)
    if not args.players:
        raise cli.UsageError("name one player or more, such as greed")
    made = [cli.make_player(spec) for spec in args.players]
    greed = cli.make_player("greed")
    deals = duplicate.random_deals(args.seed, args.deals)
    losses = {}
    for player in made:
        found = []
        for part in track(list(duplicate.batches(deals, 64)), description=f"{player.name} v {greed.name}"):
            ends = duplicate.play_pairs(player, greed, part, args.seed).ends
            flat = jax.tree.map(lambda x: jnp.asarray(x.reshape(-1, *x.shape[2:])), ends)
            lost, team = (np.asarray(x).reshape(len(part), 2, -1) for x in lost_by_ply(flat))
            mine = team == np.arange(2)[:, None]  # the player sits at seats 0 and 2, then 1 and 3
            found.append(np.where(mine, lost, 0).mean(axis=1))
        losses[player.name] = np.concatenate(found)  # [N, 12]
    figures = {}
    for name, by_ply in losses.items():
        figures[f"lost_{name}"] = common.mean(by_ply.sum(axis=1))
        for trick in range(3):
            figures[f"lost_{name}_trick_{11 + trick}"] = common.mean(
                by_ply[:, 4 * trick : 4 * trick + 4].sum(axis=1)
            )
    common.report("endings", figures, table, draw, args.out, console)
    return 0


@jax.jit
def lost_by_ply(ends: gz.State) -> tuple[jax.Array, jax.Array]:
    """What every card of the last three tricks lost for its team, and which team it was: ``[G, 12]`` each.

    Args:
      ends: ``[G]`` games at their end.
    """
    start = jax.vmap(game.dealt)(ends)

    def at_ply(ply: jax.Array) -> tuple[jax.Array, jax.Array]:
        plays = jnp.where(jnp.arange(game.NUM_PLIES) < ply, ends.plays, jnp.int8(-1))
        states = jax.vmap(gz.play)(start, plays)
        values = jax.lax.map(endgame.card_values, states, batch_size=16)
        played = jnp.take_along_axis(values, ends.plays[:, ply, None].astype(jnp.int32), axis=1)[:, 0]
        return jnp.max(values, axis=1) - played, jax.vmap(game.mover_team)(states)

    lost, team = jax.lax.map(at_ply, jnp.array(PLIES))
    return lost.T, team.T


def _names(figures: Mapping[str, Figure]) -> list[str]:
    """The players."""
    return [key.removeprefix("lost_") for key in figures if "_trick_" not in key]


def table(figures: Mapping[str, Figure]) -> str:
    """Losses by trick as markdown."""
    names = _names(figures)
    rows = [
        [
            name,
            *(common.with_error(figures[f"lost_{name}_trick_{t}"]).lstrip("+") for t in (11, 12, 13)),
            common.with_error(figures[f"lost_{name}"]).lstrip("+"),
        ]
        for name in names
    ]
    caption = (
        f"Points per deal lost in the last three tricks against perfect play with open hands, ± standard error, "
        f"{figures[f'lost_{names[0]}'].n:,} deals at two tables against Greed."
    )
    return common.markdown(["player", "trick 11", "trick 12", "trick 13", "all"], rows, caption)


def draw(figures: Mapping[str, Figure], path: Path) -> None:
    """Losses as stacked bars."""
    names = _names(figures)
    picture, (ax,) = common.new_picture(8, 1.2 + 0.6 * len(names))
    left = np.zeros(len(names))
    for trick, color in zip((11, 12, 13), ("#1f77b4", "#8fb3d9", "#cfe0f0"), strict=True):
        values = np.array([figures[f"lost_{name}_trick_{trick}"].value for name in names])
        ax.barh(names, values, left=left, color=color, label=f"trick {trick}")
        left += values
    ax.invert_yaxis()
    ax.set_xlabel("points per deal lost against perfect play with open hands")
    ax.legend()
    common.save(picture, path)
