"""The last three tricks with open hands, solved exactly by playing out every line."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game
from gongzhu_jax.game import State

MAX_CARDS = 3
FIRST_PLY = game.NUM_PLIES - 4 * MAX_CARDS
"""From this ply on, nobody holds more than :data:`MAX_CARDS` cards."""
FAR = 1_000_000


class Trick(NamedTuple):
    """One trick of N games along all L = c⁴ choices of four players with c cards each.

    exists: ``bool[4, N, L]``, whether the choice of a ply is there to be made.
    team: ``int8[4, N, L]``, whose choice it is.
    """

    exists: jax.Array
    team: jax.Array


def card_values(state: State) -> jax.Array:
    """The margin of the mover's team after each of its cards, both teams then playing perfectly with open hands.

    Args:
      state: at ply 40 or later, not over, of a game with two teams.

    Returns:
      ``float32[52]``, points; −inf for cards that are not legal.
    """
    states = jax.tree.map(lambda x: x[None], state)
    tricks: list[tuple[int, Trick]] = []
    for number in range(MAX_CARDS):
        states, trick = _play_trick(states, FIRST_PLY + 4 * number, MAX_CARDS - number)
        tricks.append((MAX_CARDS - number, trick))
    value = jax.vmap(game.margin)(states)
    of_choices = jnp.zeros(MAX_CARDS, jnp.int32)
    for number, (choices, trick) in reversed(list(enumerate(tricks))):
        for place in reversed(range(4)):
            # A choice is made before those that follow it: of their lines the first speaks for all.
            shape = (trick.team.shape[1], choices**place, choices, -1)
            exists, team = (x[place].reshape(shape)[..., 0] for x in trick)
            by_card = value.reshape(shape[:3])
            at_root = state.ply == FIRST_PLY + 4 * number + place  # then only the first line led here
            root = jnp.pad(by_card[0, 0], (0, MAX_CARDS - choices))
            of_choices = jnp.where(at_root, root, of_choices)
            best = jnp.max(jnp.where(exists, by_card, -FAR), axis=2)
            worst = jnp.min(jnp.where(exists, by_card, FAR), axis=2)
            value = jnp.where(team[:, :, 0] == 0, best, worst)
        value = value.reshape(-1)
    mine = jnp.where(game.mover_team(state) == 0, of_choices, -of_choices).astype(jnp.float32)
    legal = game.legal_masks(state)
    hand = jax.vmap(cards.nth, (None, 0))(legal, jnp.arange(MAX_CARDS))
    held = jnp.arange(MAX_CARDS) < cards.count(legal)
    here = (hand[:, None] == jnp.arange(52, dtype=jnp.int8)) & held[:, None]
    return jnp.max(jnp.where(here, mine[:, None], -jnp.inf), axis=0)


def _play_trick(states: State, first_ply: int, choices: int) -> tuple[State, Trick]:
    """Play a trick along every line of choices: States ``[N]`` to ``[N · choices⁴]``, line by line of a game.

    Plies that a game has behind it already have one choice, which does nothing.
    """
    lines = np.stack(np.unravel_index(np.arange(choices**4), (choices,) * 4))  # [4, L]
    states = jax.tree.map(lambda x: jnp.repeat(x[:, None], choices**4, axis=1), states)

    def ply(states: State, now: tuple[jax.Array, jax.Array]) -> tuple[State, Any]:
        number, line = now

        def one(state: State, choice: jax.Array) -> tuple[State, tuple[jax.Array, jax.Array]]:
            passed = state.ply > number
            legal = game.legal_masks(state)
            exists = choice < jnp.where(passed, 1, cards.count(legal))
            stepped = game.step(state, cards.nth(legal, choice))
            after = jax.tree.map(lambda old, new: jnp.where(passed, old, new), state, stepped)
            return after, (exists, game.mover_team(state))

        return jax.vmap(jax.vmap(one), (0, None))(states, line)

    plies = first_ply + jnp.arange(4, dtype=jnp.int8)
    states, found = jax.lax.scan(ply, states, (plies, jnp.asarray(lines)))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), states), Trick(*found)
