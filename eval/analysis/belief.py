"""What a belief knows about hidden hands, trick by trick: bits, calibration, effective worlds."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
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
from gongzhu_jax import belief, cards, game, models, networks, worlds
from gongzhu_jax.results import Figure

RULES: dict[str, belief.Settings] = {
    "iec": belief.Settings(),
    "iec_all_plays": belief.Settings(above=1, led_suit_only=False),
    "iec_line": belief.Settings("iec-line"),
    "naive_bayes": belief.Settings("naive-bayes", above=1, led_suit_only=False),
    "likelihood": belief.Settings("likelihood", above=1, led_suit_only=False),
}
"""With the paper's importance filter, and with every play counted."""
BINS = 10


@dataclasses.dataclass(frozen=True)
class Belief(Analysis):
    """How well beliefs know the hidden hands of real games, by trick.

    The model's raw player and Greed play each other; at its first turn in each trick a player of the raw team asks
    each belief about the true hands. Bits gained: log2 of the true world's probability over that of uniform worlds,
    with the mean score of all worlds estimated from --worlds uniform samples. Calibration: how often a seat holds a
    card that the belief gives it with some probability.

    Examples::

        python -m eval.analysis belief runs/small/best.model --deals 512 --out runs/belief
    """

    out: Path = Path("runs/belief")
    """Folder for results, made if it is not there."""
    worlds: int = 128
    """Uniform worlds for each question."""


def run(args: Belief, console: Console) -> int:
    """Play, ask, report; returns the exit status."""
    deals = args.read_deals()
    cli.check_range("--worlds", args.worlds, 2)
    model = models.load(args.model)
    raw, greed = cli.make_player(f"raw:model={args.model}"), cli.make_player("greed")
    size = min(args.batch or 64, len(deals))
    parts = []
    for number, part in enumerate(track(list(duplicate.batches(deals, size)), description="deals")):
        rows = np.arange(size) % len(part)
        whole = duplicate.Deals(part.ids[rows], part.hands[rows], part.leaders[rows])
        ends = duplicate.play_pairs(raw, greed, whole, args.seed).ends
        first = jax.tree.map(lambda x: jnp.asarray(x[:, 0]), ends)  # the raw team sits at seats 0 and 2
        key = jax.random.fold_in(jax.random.key(args.seed), number)
        asked = jax.device_get(_ask(model.network, model.params, key, first, args.worlds))
        parts.append(jax.tree.map(operator.itemgetter(slice(len(part))), asked))
    answers = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    common.report("belief", summarize(answers), table, draw, args.out, console)
    return 0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Answers:
    """``[N]`` games, 13 tricks.

    uniform_bits: ``float32[N, 13]``, log2 of the number of worlds.
    gained: by rule, ``float32[N, 13]``, bits.
    effective: by rule, ``float32[N, 13]``, effective worlds as a share of those asked.
    predicted: by rule, ``float32[N, 13, BINS]``, sums of P(card at seat) by bin of probability.
    held: by rule, the same of whether the seat held the card.
    count: by rule, the same of cards and seats.
    """

    uniform_bits: jax.Array
    gained: dict[str, jax.Array]
    effective: dict[str, jax.Array]
    predicted: dict[str, jax.Array]
    held: dict[str, jax.Array]
    count: dict[str, jax.Array]


@functools.partial(jax.jit, static_argnames=("network", "num_worlds"))
def _ask(network: nn.Module, params: Any, key: jax.Array, ends: gz.State, num_worlds: int) -> Answers:
    """Every belief about every trick of some games ``[B]``."""

    def policy(inputs: jax.Array) -> jax.Array:
        return networks.apply(network, params, inputs)[0]

    start = jax.vmap(game.dealt)(ends)
    num = ends.ply.shape[0]

    def one_trick(trick: jax.Array) -> Answers:
        # the first player of team 0 in the trick: its leader, or the one after
        leader = jnp.take_along_axis(ends.leaders, jnp.full((num, 1), trick), axis=1)[:, 0].astype(jnp.int32)
        ply = 4 * trick + leader % 2
        plays = jnp.where(jnp.arange(52) < ply[:, None], ends.plays, -1).astype(jnp.int8)
        states = jax.vmap(gz.play)(start, plays)
        seat = jax.vmap(game.mover)(states)
        views = jax.vmap(gz.view)(states, seat)
        keys = jax.random.split(jax.random.fold_in(key, trick), num)
        drawn = jax.vmap(lambda k, v: worlds.sample(k, v, num_worlds))(keys, views)
        order = (seat[:, None] + jnp.arange(1, 4)) % 4
        truth = jnp.take_along_axis(states.hands, order[:, :, None].astype(jnp.int32), axis=1)
        every = jnp.concatenate([drawn, truth[:, None]], axis=1)
        at_seat = cards.to_bools(drawn)  # [B, W, 3, 52]
        true_at_seat = cards.to_bools(truth)
        unseen = jax.vmap(lambda v: cards.to_bools(v.unseen))(views)[:, None]
        answers: dict[str, dict[str, jax.Array]] = {
            k: {} for k in ("gained", "effective", "predicted", "held", "count")
        }
        for name, settings in RULES.items():
            scores = belief.log_scores(views, every, policy, settings)
            mean = jax.nn.logsumexp(scores[:, :-1], axis=1) - math.log(num_worlds)
            weights = jax.nn.softmax(scores[:, :-1], axis=1)
            answers["gained"][name] = (scores[:, -1] - mean) / math.log(2)
            answers["effective"][name] = 1 / jnp.sum(weights**2, axis=1) / num_worlds
            chance = jnp.einsum("bw,bwsc->bsc", weights, at_seat.astype(jnp.float32))
            which = jnp.clip((chance * BINS).astype(jnp.int32), 0, BINS - 1)
            here = (which[..., None] == jnp.arange(BINS)) & unseen[..., None]
            answers["predicted"][name] = jnp.sum(jnp.where(here, chance[..., None], 0.0), axis=(1, 2))
            answers["held"][name] = jnp.sum(here & true_at_seat[..., None], axis=(1, 2)).astype(jnp.float32)
            answers["count"][name] = jnp.sum(here, axis=(1, 2)).astype(jnp.float32)
        return Answers(jax.vmap(worlds.log_count)(views) / math.log(2), **answers)

    by_trick = jax.lax.map(one_trick, jnp.arange(13))
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), by_trick)


def summarize(answers: Answers) -> dict[str, Figure]:
    """By trick (1 to 13) and by rule."""

    def over_games(values: jax.Array, unit: str) -> Figure:
        return common.mean(np.asarray(values), unit)

    figures: dict[str, Figure] = {}
    for trick in range(13):
        figures[f"uniform_bits_trick_{trick + 1}"] = over_games(-answers.uniform_bits[:, trick], "bits")
        for name in RULES:
            figures[f"bits_gained_{name}_trick_{trick + 1}"] = over_games(
                answers.gained[name][:, trick], "bits"
            )
            share = answers.effective[name][:, trick]
            figures[f"effective_{name}_trick_{trick + 1}"] = over_games(share, "share")
    for name in RULES:
        count, held = answers.count[name].sum(axis=(0, 1)), answers.held[name].sum(axis=(0, 1))
        predicted = answers.predicted[name].sum(axis=(0, 1))
        for i in np.flatnonzero(count):
            n = int(count[i])
            figures[f"predicted_{name}_bin_{i}"] = Figure(float(predicted[i] / n), "probability", n)
            figures[f"held_{name}_bin_{i}"] = Figure(float(held[i] / n), "share", n)
        gap = np.abs(held - predicted)
        figures[f"calibration_error_{name}"] = Figure(
            float(gap.sum() / count.sum()), "probability", int(count.sum())
        )
    return figures


def table(figures: Mapping[str, Figure]) -> str:
    """Bits by trick as markdown."""
    rows = []
    for trick in range(1, 14):
        gained = [figures[f"bits_gained_{name}_trick_{trick}"] for name in RULES]
        cells = [f"{f.value:+.2f} ± {f.stderr:.2f}" for f in gained]
        rows.append([str(trick), f"{figures[f'uniform_bits_trick_{trick}'].value:.1f}", *cells])
    caption = (
        f"log2 of the probability of the true hands: under uniform worlds, and bits gained by each belief, ± standard "
        f"error, {figures['uniform_bits_trick_1'].n:,} deals; asked at a player's first turn in each trick."
    )
    return common.markdown(["trick", "uniform", *RULES], rows, caption)


def draw(figures: Mapping[str, Figure], path: Path) -> None:
    """Bits by trick on the left, calibration on the right."""
    picture, (left, right) = common.new_picture(11, 4.5, columns=2)
    tricks = np.arange(1, 14)
    for name, color in zip(RULES, common.COLORS.values(), strict=True):
        found = [figures[f"bits_gained_{name}_trick_{t}"] for t in tricks]
        value = np.array([f.value for f in found])
        error = 1.96 * np.array([f.stderr for f in found])
        label = name.replace("_", " ")
        left.plot(tricks, value, marker=".", color=color, label=label)
        left.fill_between(tricks, value - error, value + error, color=color, alpha=0.15, linewidth=0)
        bins = [f"{name}_bin_{i}" for i in range(BINS) if f"held_{name}_bin_{i}" in figures]
        bins = [b for b in bins if figures[f"held_{b}"].n > 50]
        right.plot(
            [figures[f"predicted_{b}"].value for b in bins],
            [figures[f"held_{b}"].value for b in bins],
            marker="o",
            markersize=4,
            color=color,
            label=label,
        )
    left.axhline(0, color="#444444", linewidth=1)
    left.set_xlabel("trick")
    left.set_ylabel("bits gained over uniform worlds (95 %)")
    left.legend()
    right.plot([0, 1], [0, 1], color="#444444", linewidth=1)
    right.set_xlabel("belief: P(seat holds card)")
    right.set_ylabel("share held")
    common.save(picture, path)
