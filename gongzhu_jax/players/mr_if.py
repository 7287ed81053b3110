"""Mr. If: a list of rules of thumb (ScrofaZero, sections 5.1 and 8.2), to the letter of the authors' program.

"First" is first in the order S, H, D, C and inside a suit by rank ascending.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game
from gongzhu_jax.players.base import Player
from gongzhu_jax.view import View


def _masks(names: str) -> np.ndarray:
    """``uint16[4]`` of the named cards."""
    ids = np.array(cards.parse(names))
    return np.bincount(ids // 13, weights=1 << ids % 13, minlength=4).astype(np.uint16)


UNSAFE_SUIT = _masks("SQ SK SA HQ HK HA C10 CJ CQ CK CA DJ")
"""A suit is safe to lead if none of these is held in it."""
UNSAFE_LEAD = _masks("SQ SK SA HA HK C10 CJ CQ CK CA DJ")
"""Not led, if five draws find another card, when no suit is safe."""
DISCARDS = cards.parse("SQ HA SA SK HK C10 CA HQ HJ CK CQ CJ H10 H9 H8 H7 H6 H5")
"""Thrown off when void, the first that is held."""

_RANK = {name: rank for rank, name in enumerate(cards.RANKS)}


def mr_if() -> Player:
    """Mr. If."""
    return Player("if", jax.vmap(_choose))


def _choose(key: jax.Array, view: View) -> jax.Array:
    table = game.table(view)
    led = cards.suit(table[0])
    here = jnp.arange(4, dtype=led.dtype) == led
    mine = jnp.sum(jnp.where(here, view.hand, 0), dtype=jnp.uint16)
    on_table = jax.vmap(cards.mask_of)(table)
    seen = functools.reduce(jnp.bitwise_or, [on_table[i] for i in range(4)])
    seen = jnp.sum(jnp.where(here, seen, 0), dtype=jnp.uint16)
    last = (view.ply & 3) == 3

    following = jnp.stack(
        [
            _follow_spades(mine, seen, last),
            _follow_hearts(mine, seen, cards.rank(cards.random_card(key, jnp.where(here, view.hand, 0)))),
            _follow_diamonds(mine, seen, last),
            _follow_clubs(mine, seen, last),
        ]
    )
    rank = jnp.where(
        jax.lax.population_count(mine) == 1, _highest(mine), jnp.sum(jnp.where(here, following, 0))
    )
    follow = (13 * led + rank).astype(jnp.int8)
    return jnp.where(led < 0, _lead(key, view.hand), jnp.where(mine == 0, _discard(view.hand), follow))


def _lead(key: jax.Array, hand: jax.Array) -> jax.Array:
    """The highest card of the shortest safe suit; else a random card, in five of six draws not an unsafe one."""
    safe = (hand != 0) & (hand & UNSAFE_SUIT == 0)
    by_length = _shortest(hand, safe)
    drawn = jax.vmap(cards.random_card, (0, None))(jax.random.split(key, 6), hand)
    unsafe = jnp.any(jax.vmap(cards.mask_of)(drawn) & UNSAFE_LEAD != 0, axis=1)
    fine = ~unsafe | (jnp.arange(6) == 5)
    return jnp.where(jnp.any(safe), by_length, drawn[jnp.argmax(fine)])


def _discard(hand: jax.Array) -> jax.Array:
    """The first held card of the list, else the highest card of the shortest suit."""
    listed = jnp.array(DISCARDS, jnp.int8)
    held = jnp.any(jax.vmap(cards.mask_of)(listed) & hand != 0, axis=1)
    return jnp.where(jnp.any(held), listed[jnp.argmax(held)], _shortest(hand, hand != 0))


def _shortest(hand: jax.Array, among: jax.Array) -> jax.Array:
    """The highest card of the shortest suit among some: ``int8[]``."""
    lengths = jnp.where(among, jax.lax.population_count(hand).astype(jnp.int32), 99)
    suit = jnp.argmin(lengths)
    mask = jnp.sum(jnp.where(jnp.arange(4) == suit, hand, 0), dtype=jnp.uint16)
    return (13 * suit + _highest(mask)).astype(jnp.int8)


def _highest(mask: jax.Array) -> jax.Array:
    """The highest rank in ``uint16[]``: ``int32[]``, −1 if empty."""
    return 31 - jax.lax.clz(mask.astype(jnp.int32))


def _bit(rank: str) -> jax.Array:
    return jnp.uint16(1 << _RANK[rank])


def _highest_below(mine: jax.Array, limit: jax.Array) -> jax.Array:
    """The highest rank below a limit, or the highest of all if there is none below."""
    below = mine & ((jnp.uint16(1) << limit.astype(jnp.uint16)) - 1)
    return jnp.where(below != 0, _highest(below), _highest(mine))


def _first_seen(seen: jax.Array, ranks: Sequence[str], otherwise: str) -> jax.Array:
    """The first of some ranks that is on the table, or else another rank: ``int32[]``."""
    found = jnp.int32(_RANK[otherwise])
    for rank in reversed(ranks):
        found = jnp.where(seen & _bit(rank) != 0, _RANK[rank], found)
    return found


def _follow_spades(mine: jax.Array, seen: jax.Array, last: jax.Array) -> jax.Array:
    pig = _bit("Q")
    dump = (mine & pig != 0) & (seen & (_bit("K") | _bit("A")) != 0)
    under = _highest_below(mine, _first_seen(seen, ["A", "K"], otherwise="Q"))
    take = last & (seen & pig == 0)
    return jnp.where(dump, _RANK["Q"], jnp.where(take, _highest(mine & ~pig), under))


def _follow_clubs(mine: jax.Array, seen: jax.Array, last: jax.Array) -> jax.Array:
    ten = _bit("10")
    dump = (mine & ten != 0) & (seen & (_bit("J") | _bit("Q") | _bit("K") | _bit("A")) != 0)
    under = _highest_below(mine, _first_seen(seen, ["A", "K", "Q", "J"], otherwise="10"))
    take = last & (seen & ten == 0)
    return jnp.where(dump, _RANK["10"], jnp.where(take, _highest(mine & ~ten), under))


def _follow_diamonds(mine: jax.Array, seen: jax.Array, last: jax.Array) -> jax.Array:
    sheep = _bit("J")
    win_it = last & (mine & sheep != 0) & (seen & (_bit("Q") | _bit("K") | _bit("A")) == 0)
    highest = _highest(mine)
    other = jnp.where(highest == _RANK["J"], _highest(mine & ~sheep), highest)
    return jnp.where(win_it, _RANK["J"], other)


def _follow_hearts(mine: jax.Array, seen: jax.Array, random_rank: jax.Array) -> jax.Array:
    below = mine & ((jnp.uint16(1) << jnp.maximum(_highest(seen), 0).astype(jnp.uint16)) - 1)
    return jnp.where(below != 0, _highest(below), random_rank.astype(jnp.int32))
