"""Worlds drawn by a belief about single cards: exactly ∝ Π odds[seat that holds the card, card].

Hand sizes and voids bind the cards together. Going through the cards in order, a table holds the log weight of all
ways to deal the cards so far with a of them to seat 1 and b to seat 2; going back through it, every card is given to a
seat with its exact probability. Nothing is rejected, and the probability of what was drawn is known.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gongzhu_jax import cards, game
from gongzhu_jax.view import View
from gongzhu_jax.worlds import _sampling as sampling

LEAST = -12.0
"""Log odds of a card are not below this beside its likeliest seat: what a belief rules out stays possible."""


class Weighted(NamedTuple):
    """Worlds and how likely it was to draw them.

    hidden: ``uint16[n, 3, 4]``, as of :func:`gongzhu_jax.worlds.sample`; empty hands if no world is possible.
    log_probability: ``float32[n]``, natural logarithms; −inf if no world is possible.
    """

    hidden: jax.Array
    log_probability: jax.Array


def sample_weighted(key: jax.Array, view: View, log_odds: jax.Array, n: int) -> Weighted:
    """Random worlds, each with a probability proportional to the product of the odds of its cards.

    With equal odds these are the uniform worlds of :func:`gongzhu_jax.worlds.sample`.

    Args:
      key: a JAX random key.
      view: one View.
      log_odds: ``float32[3, 52]``, by hidden seat counted from the viewer and card, up to a constant for each card; of
        cards that are not hidden, and of suits that a seat has shown void, they do not matter. Odds of less than
        e^−12 beside the likeliest seat count as that.
      n: how many worlds; static.

    Raises:
      ValueError: outside of a trace, no world is possible (naming the seat and what it lacks), or n < 1.
    """
    if n < 1:
        raise ValueError(f"sample at least one world, not {n}")
    if game.is_concrete(key, view):
        sampling.raise_if_impossible(view)
    return _sample_weighted(jax.random.bits(key, (n, 52), jnp.uint32), view, log_odds)


@game.inline_jit
def _sample_weighted(words: jax.Array, view: View, log_odds: jax.Array) -> Weighted:
    rest = sampling.undealt(view)
    hidden = cards.to_bools(rest.cards)
    allowed = hidden & ~jnp.repeat(rest.void[1:], 13, axis=1, total_repeat_length=52)
    top = jnp.max(jnp.where(allowed, log_odds, -jnp.inf), axis=0)
    log_odds = jnp.where(allowed, jnp.maximum(log_odds - top, LEAST), -jnp.inf)

    def give(table: jax.Array, card: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        odds, hidden = card
        to_1 = jnp.pad(table, ((1, 0), (0, 0)), constant_values=-jnp.inf)[:-1]
        to_2 = jnp.pad(table, ((0, 0), (1, 0)), constant_values=-jnp.inf)[:, :-1]
        ways = jnp.stack([odds[0] + to_1, odds[1] + to_2, odds[2] + table])
        return jnp.where(hidden, jax.nn.logsumexp(ways, axis=0), table), table

    # In logarithms: voids further on may leave only what looked hopeless so far.
    nothing = jnp.full((14, 14), -jnp.inf).at[0, 0].set(0.0)
    last, tables = jax.lax.scan(give, nothing, (log_odds.T, hidden))
    one, two = rest.need[1], rest.need[2]
    total = last[one, two]
    possible = jnp.isfinite(total) & (jnp.sum(hidden) == jnp.sum(rest.need[1:]))

    Carry = tuple[jax.Array, jax.Array, jax.Array]

    def take(left: Carry, card: tuple[jax.Array, ...]) -> tuple[Carry, jax.Array]:
        one, two, found = left  # [n]
        table, odds, hidden, words = card
        flat = table.reshape(-1)
        ways = jnp.stack(
            [
                odds[0] + jnp.where(one > 0, flat[jnp.maximum(one - 1, 0) * 14 + two], -jnp.inf),
                odds[1] + jnp.where(two > 0, flat[one * 14 + jnp.maximum(two - 1, 0)], -jnp.inf),
                odds[2] + flat[one * 14 + two],
            ],
            axis=-1,
        )
        chances = jnp.exp(ways - jnp.max(ways, axis=-1, keepdims=True))
        seat = jax.vmap(sampling.pick)(sampling.uniform(words), chances)
        seat = jnp.where(hidden, seat, -1)
        mine = jnp.sum(jnp.where(seat[:, None] == jnp.arange(3), odds, 0.0), axis=1)
        return (one - (seat == 0), two - (seat == 1), found + mine), seat

    n = words.shape[0]
    start = (jnp.full(n, one), jnp.full(n, two), jnp.zeros(n))
    (_, _, found), seats = jax.lax.scan(take, start, (tables, log_odds.T, hidden, words.T), reverse=True)
    hands = jax.vmap(cards.to_masks)(seats.T[:, None] == jnp.arange(3)[:, None])  # [n, 3, 52]
    return Weighted(jnp.where(possible, hands, 0), jnp.where(possible, found - total, -jnp.inf))
