"""The last three tricks with open hands, solved exactly: every line of play at once, then minimax.

Four players with three cards have 3⁴ · 2⁴ ways to play them. The lines of a trick are laid out by the choices of its
players in playing order, so that minimax is a maximum or minimum over one axis after the other, the last player's
first. What a line scores comes from tallies, which add up.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game, rules
from gongzhu_jax.game import State
from gongzhu_jax.rules import Tally

MAX_CARDS = 3
FIRST_PLY = game.NUM_PLIES - 4 * MAX_CARDS
"""From this ply on, nobody holds more than :data:`MAX_CARDS` cards."""
FAR = 1_000_000
FIRST, SECOND = (np.stack(np.unravel_index(np.arange(c**4), (c,) * 4)) for c in (3, 2))
"""The choice of each player on the 81 lines of the first trick and on the 16 of the second: ``[4, L]``."""

Tree = TypeVar("Tree")


class Card(NamedTuple):
    """Cards on some lines of play, ``int32[...]`` each: ids and suits, −1 for no card, and what they are worth."""

    id: jax.Array
    suit: jax.Array
    worth: Tally


def card_values(state: State) -> jax.Array:
    """The margin of the mover's team after each of its cards, both teams then playing perfectly with open hands.

    Args:
      state: at ply 40 or later, not over, of a game with two teams.

    Returns:
      ``float32[52]``, points; −inf for cards that are not legal.

    Raises:
      ValueError: the rules are not played by two teams.
    """
    # Players are counted in the playing order of the running trick; each has three cards, in the order of its choices.
    # A trick that is over was won by player 0, with no card as everybody's choice number 0 and only choice; so is a
    # card on the table that of who played it. Thus every game is at the start of three tricks.
    order = (game.leader(state) + jnp.arange(4, dtype=jnp.int8)) & 3
    sign = list(game.team_signs(state.rules)[order])
    forced = state.ply > FIRST_PLY + np.arange(8).reshape(2, 4)  # in the first two tricks, by place

    held = _held(state, order)
    first = [_where(FIRST[p] == 0, a, _where(FIRST[p] == 1, b, c)) for p, (a, b, c) in enumerate(held)]
    left = [(_where(FIRST[p] == 0, b, a), _where(FIRST[p] == 2, b, c)) for p, (a, b, c) in enumerate(held)]
    winner = _winning_place(first, first[0].suit)  # [81]
    by_place = _in_order_from(winner, left)
    second = [_where(SECOND[p][:, None] == 0, a, b) for p, (a, b) in enumerate(by_place)]
    third = [_where(SECOND[p][:, None] == 0, b, a) for p, (a, b) in enumerate(by_place)]
    place = _winning_place(second, second[0].suit)  # [16, 81]
    last_place = _winning_place(third, _in_order_from(place, third)[0].suit)

    piles = _piles(state, order)
    winners = (winner, (winner + place) & 3, (winner + last_place) & 3)
    for trick, who in zip((first, second, third), winners, strict=True):
        added = functools.reduce(_add, (card.worth for card in trick))
        piles = [_where(who == p, _add(pile, added), pile) for p, pile in enumerate(piles)]
    points = rules.scores_of_tallies(piles, state.rules)
    value = functools.reduce(jnp.add, (s * x for s, x in zip(sign, points, strict=True)))

    of_last = value[0, :1]
    follows = [_follows(second, p, [third[p]]) for p in range(4)]
    exists = _exists(SECOND[..., None], forced[1], follows)
    value, of_second = _minimax(value, exists, _in_order_from(winner, sign))
    follows = [_follows(first, p, left[p]) for p in range(4)]
    _, of_first = _minimax(value, _exists(FIRST, forced[0], follows), sign)
    return _by_card(state, held, [of_first, [x[:, 0] for x in of_second], [of_last] * 4])


def _held(state: State, order: jax.Array) -> list[list[Card]]:
    """Each player's three cards, in playing order."""
    slot = jnp.arange(MAX_CARDS)
    behind = (state.ply.astype(jnp.int32) - FIRST_PLY) >> 2  # tricks
    tables = rules.tally_tables(state.rules)

    def of_player(hand: jax.Array, on_table: jax.Array) -> Card:
        at = slot - behind - (on_table >= 0)
        in_hand = jax.vmap(cards.nth, (None, 0))(hand, at)
        ids = jnp.where(at >= 0, in_hand, jnp.where(slot == behind, on_table, jnp.int8(-1)))
        here = ids[:, None] == jnp.arange(52, dtype=jnp.int8)
        worth = jax.tree.map(lambda table: jnp.sum(jnp.where(here, table, 0), axis=1), tables)
        return Card(ids.astype(jnp.int32), cards.suit(ids.astype(jnp.int32)), worth)

    every = jax.vmap(of_player)(state.hands[order], game.table(state))
    return [[jax.tree.map(lambda x, p=p, i=i: x[p, i], every) for i in range(MAX_CARDS)] for p in range(4)]


def _piles(state: State, order: jax.Array) -> list[Tally]:
    """What each player has captured so far, in playing order."""
    captured = cards.to_bools(state.taken[order])
    return [rules.tally(captured[p], state.rules) for p in range(4)]


def _winning_place(trick: Sequence[Card], led: jax.Array) -> jax.Array:
    """The place of the highest card of the led suit, 0 where there are no cards."""
    strength = [jnp.where(card.suit == led, 4 * card.id + 3 - p, -1) for p, card in enumerate(trick)]
    return 3 - (functools.reduce(jnp.maximum, strength) & 3)


def _follows(trick: Sequence[Card], place: int, rest: Sequence[Card]) -> jax.Array:
    """Whether the card at a place may be played, its player holding the rest too."""
    led = trick[0].suit
    has_none = functools.reduce(jnp.logical_and, (card.suit != led for card in rest))
    return has_none | (trick[place].suit == led) | (place == 0)


def _exists(choices: np.ndarray, forced: jax.Array, follows: Sequence[jax.Array]) -> list[jax.Array]:
    """Whether the choices that lead to lines are there to be made, by place."""
    return [jnp.where(forced[p], choices[p] == 0, follows[p]) for p in range(4)]


def _minimax(
    value: jax.Array, exists: Sequence[jax.Array], sign: Sequence[jax.Array]
) -> tuple[jax.Array, list[jax.Array]]:
    """Fold the lines of a trick, ``int32[choices⁴, ...]``.

    Args:
      value: of each line, in points of team 0.
      exists: by place ``bool[choices⁴, ...]``, whether that player has that choice.
      sign: by place 1 for team 0 and −1 for team 1, ``int32[...]``.

    Returns:
      The value at the start of the trick ``int32[...]``, and by place those of the choices ``int32[choices, ...]``
      after everybody's choice number 0 before.
    """
    lines, *rest = value.shape
    choices = round(lines**0.25)
    of_choices = []
    for place in reversed(range(4)):
        # A choice is made before those that follow it: of their lines the first speaks for all.
        by_choice = value.reshape(choices**place, choices, *rest)
        there = jnp.broadcast_to(exists[place], (lines, *rest))
        there = there.reshape(choices**place, choices, -1, *rest)[:, :, 0]
        best = jnp.max(jnp.where(there, sign[place] * by_choice, -FAR), axis=1)
        value = sign[place] * best
        of_choices.append(by_choice[0])
    return value[0], of_choices[::-1]


def _by_card(state: State, held: list[list[Card]], values: list[list[jax.Array]]) -> jax.Array:
    """Values for the mover's team by card, of values for team 0 by trick, place and choice."""
    found = jnp.full(52, -jnp.inf)
    for trick in range(MAX_CARDS):
        for place in range(4):
            now = state.ply == FIRST_PLY + 4 * trick + place
            for choice, value in enumerate(values[trick][place]):
                here = jnp.arange(52) == held[place][trick + choice].id
                found = jnp.where(here & now, value.astype(jnp.float32), found)
    mine = jnp.where(game.mover_team(state) == 0, found, -found)
    return jnp.where(game.legal_cards(state), mine, -jnp.inf)


def _where(condition: Any, one: Tree, other: Tree) -> Tree:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), one, other)


def _add(one: Tally, other: Tally) -> Tally:
    return jax.tree.map(jnp.add, one, other)


def _in_order_from(place: jax.Array, four: Sequence[Tree]) -> list[Tree]:
    """What four players have, counted from the one at a place."""

    def at(first: int) -> Tree:
        a, b, c, d = (four[(first + p) & 3] for p in range(4))
        return _where(place == 0, a, _where(place == 1, b, _where(place == 2, c, d)))

    return [at(first) for first in range(4)]
