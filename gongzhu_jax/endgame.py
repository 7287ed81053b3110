"""The last three tricks with open hands, solved exactly by playing out every line."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gongzhu_jax import cards, game
from gongzhu_jax.game import State

MAX_CARDS = 3
FIRST_PLY = game.NUM_PLIES - 4 * MAX_CARDS
"""From this ply on, nobody holds more than :data:`MAX_CARDS` cards."""


def solve(state: State) -> jax.Array:
    """The margin of team 0 at the end of the deal if both teams play perfectly with open hands.

    Args:
      state: at ply 40 or later, of a game with two teams.

    Returns:
      ``int32[]``, points.
    """
    states, lines = jax.tree.map(lambda x: x[None], state), []
    for ply in range(FIRST_PLY, game.NUM_PLIES):
        branches = MAX_CARDS - (ply - FIRST_PLY) // 4
        passed = states.ply > ply  # the deal was further on: one line goes through
        legal = jax.vmap(game.legal_masks)(states)
        count = jnp.where(passed, 1, cards.count(legal))
        slots = jnp.arange(branches)
        card = jax.vmap(lambda masks: jax.vmap(cards.nth, (None, 0))(masks, slots))(legal)  # noqa: B023
        stepped = jax.vmap(jax.vmap(game.step, (None, 0)))(states, card)

        def either(old: jax.Array, new: jax.Array, passed: jax.Array = passed) -> jax.Array:
            here = passed.reshape(-1, *[1] * (new.ndim - 1))
            return jnp.where(here, old[:, None], new).reshape(-1, *new.shape[2:])

        lines.append((slots < count[:, None], jax.vmap(game.mover_team)(states)))
        states = jax.tree.map(either, states, stepped)
    value = jax.vmap(game.margin)(states)
    far = jnp.int32(1_000_000)
    for exists, team in reversed(lines):
        by_card = value.reshape(exists.shape)
        best = jnp.max(jnp.where(exists, by_card, -far), axis=1)
        worst = jnp.min(jnp.where(exists, by_card, far), axis=1)
        value = jnp.where(team == 0, best, worst)
    return value[0]


def card_values(state: State) -> jax.Array:
    """The margin of the mover's team after each of its cards, both teams then playing perfectly with open hands.

    Args:
      state: at ply 40 or later, not over.

    Returns:
      ``float32[52]``, points; −inf for cards that are not legal.
    """
    legal = game.legal_masks(state)
    hand = jax.vmap(cards.nth, (None, 0))(legal, jnp.arange(MAX_CARDS))
    margins = jax.vmap(solve)(jax.vmap(game.step, (None, 0))(state, hand))
    mine = jnp.where(game.mover_team(state) == 0, margins, -margins).astype(jnp.float32)
    here = (hand[:, None] == jnp.arange(52, dtype=jnp.int8)) & (
        jnp.arange(MAX_CARDS)[:, None] < cards.count(legal)
    )
    return jnp.max(jnp.where(here, mine[:, None], -jnp.inf), axis=0)
