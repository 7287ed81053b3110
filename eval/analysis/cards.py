"""What single cards are worth to a network: how willingly they are played, and what it costs to hold them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track

import gongzhu_jax as gz
from eval import cli, duplicate
from eval.analysis import common
from eval.analysis.common import Analysis
from gongzhu_jax import belief, cards, features, game, models, networks, search
from gongzhu_jax.results import Figure

GREED = {"SA": 50, "SK": 30, "DA": -30, "DK": -20, "DQ": -10, "CA": 80, "CK": 60, "CQ": 40, "CJ": 20}
"""Relief by which Greed gets rid of a card at the start of a deal: the constants of its program, for clubs its share of
the 200 points still to come."""


@dataclasses.dataclass(frozen=True)
class Cards(Analysis):
    """Card statistics of a network.

    By card, over positions of the network's games with Greed in which there is a choice: γ = exp(−β · regret) by the
    policy on averaged hands (the belief's factor), and the spread of its value one step later around the mean of the
    legal cards, with open hands. Holding costs: what the network's value loses at the start of a deal, for the player
    to lead, when it holds a card in place of the lowest card of the suit that another seat has.

    Examples::

        python -m eval.analysis cards runs/small/best.model --deals 512 --out runs/cards
    """

    out: Path = Path("runs/cards")
    """Folder for results, made if it is not there."""


def run(args: Cards, console: Console) -> int:
    """Play, ask, report; returns the exit status."""
    deals = args.read_deals()
    model = models.load(args.model)
    raw, greed = cli.make_player(f"raw:model={args.model}"), cli.make_player("greed")
    sums, costs = np.zeros((5, 52)), []
    for part in track(list(duplicate.batches(deals, args.batch or 64)), description="deals"):
        ends = duplicate.play_pairs(raw, greed, part, args.seed).ends
        first = jax.tree.map(lambda x: jnp.asarray(x[:, 0]), ends)
        sums += np.asarray(_statistics(model.network, model.params, first), np.float64)
        costs.append(np.asarray(_holding(model.network, model.params, jax.vmap(game.dealt)(first))))
    common.report("cards", summarize(sums, np.concatenate(costs)), table, draw, args.out, console)
    return 0


@functools.partial(jax.jit, static_argnames="network")
def _statistics(network: nn.Module, params: Any, ends: gz.State) -> jax.Array:
    """Over all positions with a choice, by card: count, Σ γ, Σ γ², Σ (q − mean), Σ (q − mean)²: ``float32[5, 52]``."""
    beta = belief.Settings().beta
    leaf = networks.leaf_function(network, params)

    def ply(states: gz.State, card: jax.Array) -> tuple[gz.State, jax.Array]:
        legal = jax.vmap(gz.legal_cards)(states)
        choice = legal & (jnp.sum(legal, axis=1, keepdims=True) > 1)
        views = jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)
        policy = networks.apply(network, params, jax.vmap(features.encode_average)(views))[0]
        best = jnp.max(jnp.where(legal, policy, -jnp.inf), axis=1, keepdims=True)
        gamma = jnp.exp(-beta * (best - policy))
        q = search.search(states, leaf, search.Settings(base=0, per_card=1, chunk=1024)).q
        q = jnp.where(legal, q, 0.0)
        apart = q - jnp.sum(q, axis=1, keepdims=True) / jnp.maximum(jnp.sum(legal, axis=1, keepdims=True), 1)
        values = jnp.stack([jnp.ones_like(gamma), gamma, gamma**2, apart, apart**2])
        return jax.vmap(gz.step)(states, card), jnp.sum(jnp.where(choice, values, 0.0), axis=1)

    return jnp.sum(jax.lax.scan(ply, jax.vmap(game.dealt)(ends), ends.plays.T)[1], axis=0)


@functools.partial(jax.jit, static_argnames="network")
def _holding(network: nn.Module, params: Any, starts: gz.State) -> jax.Array:
    """What it costs the leader to hold each card of :data:`GREED`, ``float32[B, 9]``; NaN where it does not hold it."""

    def one(start: gz.State, card: int) -> jax.Array:
        hands = cards.to_bools(start.hands)
        holder = jnp.argmax(hands[:, card])
        suit = (jnp.arange(52) // 13 == card // 13) & ~hands[holder] & (jnp.arange(52) < card)
        low = jnp.argmax(suit)  # the lowest card of the suit that another seat has
        other = jnp.argmax(hands[:, low])
        swapped = hands.at[holder, card].set(False).at[other, low].set(False)
        swapped = swapped.at[holder, low].set(True).at[other, card].set(True)
        both = [gz.from_hands(h, holder) for h in (hands, swapped)]
        value = networks.apply(network, params, jnp.stack([features.encode(s) for s in both]))[1]
        return jnp.where(jnp.any(suit), value[1] - value[0], jnp.nan)

    ids = [cards.parse(name)[0] for name in GREED]
    return jax.vmap(lambda start: jnp.stack([one(start, card) for card in ids]))(starts)


def summarize(sums: np.ndarray, costs: np.ndarray) -> dict[str, Figure]:
    """Figures by card name."""
    count, gamma, gamma2, apart, apart2 = sums
    figures: dict[str, Figure] = {"deals": Figure(len(costs), "deals", 1)}
    for card in range(52):
        n, name = max(int(count[card]), 1), cards.name(card)
        mean = gamma[card] / n
        figures[f"gamma_{name}"] = Figure(
            mean, "probability", n, float(np.sqrt(max(gamma2[card] / n - mean**2, 0) / n))
        )
        spread = apart2[card] / n - (apart[card] / n) ** 2
        figures[f"value_spread_{name}"] = Figure(float(np.sqrt(max(spread, 0))), "points", n)
    for i, name in enumerate(GREED):
        some = costs[:, i][np.isfinite(costs[:, i])]
        figures[f"holding_{name}"] = common.mean(some, "points")
    return figures


def table(figures: Mapping[str, Figure]) -> str:
    """Holding costs beside Greed's constants, as markdown."""
    rows = [
        [
            name,
            common.with_error(figures[f"holding_{name}"]),
            f"{constant:+d}",
            f"{figures[f'gamma_{name}'].value:.2f}",
            f"{figures[f'value_spread_{name}'].value:.0f}",
        ]
        for name, constant in GREED.items()
    ]
    caption = (
        "What the network expects to lose by holding a card at the start of a deal, ± standard error over "
        f"{figures['deals'].value:,} deals, beside the relief by which Greed gets rid of it; mean γ and spread of "
        "value one step later."
    )
    return common.markdown(["card", "cost of holding", "Greed", "mean γ", "value spread"], rows, caption)


def draw(figures: Mapping[str, Figure], path: Path) -> None:
    """Mean γ and value spread of all cards by suit and rank, and holding costs."""
    picture, axes = common.new_picture(14, 4, columns=3)
    for ax, what, title in zip(
        axes, ("gamma", "value_spread"), ("mean γ", "spread of value, points"), strict=False
    ):
        values = np.array([figures[f"{what}_{cards.name(c)}"].value for c in range(52)]).reshape(4, 13)
        image = ax.imshow(values, cmap="Blues", aspect="auto")
        ax.set_yticks(range(4), [cards.name(13 * s)[0] for s in range(4)])
        ax.set_xticks(range(13), [cards.name(r)[1:] for r in range(13)])
        ax.grid(visible=False)
        ax.set_title(title)
        picture.colorbar(image, ax=ax)
    names = list(GREED)
    found = [figures[f"holding_{name}"] for name in names]
    place = np.arange(len(names))
    axes[2].bar(
        place - 0.2,
        [f.value for f in found],
        0.4,
        yerr=[1.96 * (f.stderr or 0) for f in found],
        label="network",
    )
    axes[2].bar(place + 0.2, list(GREED.values()), 0.4, label="Greed's constants")
    axes[2].set_xticks(place, names)
    axes[2].axhline(0, color="#444444", linewidth=1)
    axes[2].set_title("cost of holding a card, points")
    axes[2].legend()
    common.save(picture, path)
