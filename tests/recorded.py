"""Comparison with recorded decisions of the paper's own programs (opponent_cases.json)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import gongzhu_jax as gz
from gongzhu_jax import cards, players
from tests.conftest import at
from tests.oracle import opponents as oracle

Case = dict[str, Any]


def views_of(cases: list[Case]) -> gz.View:
    """The Views of recorded decisions, stacked."""
    views = [gz.view_from(c["seat"], c["hand"], c["tricks"], c["table"]) for c in cases]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *views)


def history(view: gz.View) -> tuple[int, list[int], list[list[int]], list[int]]:
    """A View as the oracle takes it: seat, hand, completed tricks, running trick."""
    seat = int(view.seat)
    leaders = [(first + seat) % 4 for first in np.asarray(view.leaders).tolist()]
    plays, done = np.asarray(view.plays).tolist(), int(view.ply) // 4
    tricks = [[leaders[k], *plays[4 * k : 4 * k + 4]] for k in range(done)]
    hand = np.flatnonzero(cards.to_bools(view.hand)).tolist()
    return seat, hand, tricks, [leaders[done], *plays[4 * done : int(view.ply)]]


def values_of(case: Case) -> np.ndarray:
    """The recorded values, ``float[52]``, −inf where illegal."""
    values = np.full(52, -np.inf)
    for name, value in case["values"].items():
        values[cards.parse(name)[0]] = value
    return values


def keys(seed: int, n: int) -> jax.Array:
    """Keys for a batch."""
    return jax.random.split(jax.random.key(seed), n)


def if_disagreements(cases: list[Case], draws: int = 40) -> list[Case]:
    """Decisions of Mr. If that disagree with the record.

    Where the original draws at random, the record may hold a part of its choices only; the oracle, which agrees
    with all records, tells the whole set. Certain cards must be the recorded ones.
    """
    views = views_of(cases)
    mr_if = jax.jit(players.make("if"))
    drawn = np.stack([np.asarray(mr_if(keys(i, len(cases)), views)) for i in range(draws)])
    wrong = []
    for i, case in enumerate(cases):
        recorded, mine = set(cards.parse(case["choices"])), set(drawn[:, i].tolist())
        possible = oracle.if_choices(*history(at(views, i)))
        if not (recorded <= possible and mine <= possible and (len(possible) > 1 or mine == recorded)):
            wrong.append(case)
    return wrong


def exact_cases(cases: list[Case]) -> list[Case]:
    """Decisions of Mr. Greed fourth to play, whose values have no sampling error."""
    return [case for case in cases if len(case["table"]) == 4]


def exact_disagreements(cases: list[Case]) -> list[Case]:
    """Exact decisions whose values differ at all from the record."""
    some = exact_cases(cases)
    found = np.asarray(jax.jit(players.make("greed").values)(keys(0, len(some)), views_of(some)))
    return [case for case, values in zip(some, found, strict=True) if (values != values_of(case)).any()]


class Sampled(NamedTuple):
    """Sampled decisions of Mr. Greed beside the record, one entry a case.

    worst: the largest difference of a value, in standard errors of both samples together.
    gap: how far the recorded top card is below ours, in points by our values.
    gap_errors: the same in standard errors of the record's difference between the two cards.
    """

    worst: np.ndarray
    gap: np.ndarray
    gap_errors: np.ndarray


def sampled_comparison(cases: list[Case], repeats: int = 60) -> Sampled:
    """Mr. Greed's values where none of the hidden seats has shown a void, over 20 · repeats worlds."""
    some = [case for case in cases if len(case["table"]) < 4 and not case["void_shown"]]
    views = views_of(some)
    values = jax.jit(players.make("greed").values)
    means = np.stack([np.asarray(values(keys(i, len(some)), views)) for i in range(repeats)])
    rows = []
    for i, case in enumerate(some):
        recorded = values_of(case)
        legal = np.isfinite(recorded)
        if (np.isfinite(means[0, i]) != legal).any():
            raise ValueError(f"other cards are legal than in the record: {case}")
        mine, theirs = means[:, i, legal], recorded[legal]
        mean, one_world = mine.mean(axis=0), mine.std(axis=0, ddof=1) * np.sqrt(20)
        error = one_world * np.sqrt(1 / (20 * repeats) + 1 / case["samples"])
        difference = np.abs(mean - theirs)
        gap = mine[:, mean.argmax()] - mine[:, theirs.argmax()]
        gap_error = gap.std(ddof=1) * np.sqrt(20 / case["samples"])
        rows.append(
            (
                np.max(np.where(difference < 1e-4, 0, difference / np.maximum(error, 1e-9))),
                gap.mean(),
                gap.mean() / max(gap_error, 1e-9),
            )
        )
    return Sampled(*np.array(rows).T)
