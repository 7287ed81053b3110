"""Stratified sampling: worlds for every placement of a few key cards, so that no important one is overlooked.

A stratum is one placement of the key cards. Its worlds are the ways to deal the rest, so they are counted and drawn
like all worlds. Reference: ScrofaZero, stratified sampling.
"""

from __future__ import annotations

import functools
import itertools
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game
from gongzhu_jax.view import View
from gongzhu_jax.worlds._numbered import all_if_few
from gongzhu_jax.worlds._sampling import (
    Undealt,
    deal,
    pick,
    raise_if_impossible,
    random_words,
    splits,
    undealt,
)
from gongzhu_jax.worlds._sampling import uniform as to_uniform

StrataWeights = Literal["exact", "equal"]

# Key cards in order of importance, by suit led. A leader has no use for the high cards near the pig, the sheep or the
# doubler once that card is played: while its first card is seen, a group but for the hearts does not count.
_FOLLOWING = ("SQ SA SK SJ S10", "HA HK HQ HJ H10", "DJ DA DK DQ D10", "C10 CA CK CQ CJ")
_LEADING = ("SQ SA SK", "DJ DA DK DQ", "HA HK HQ", "C10 CA CK CQ CJ")


def _table() -> np.ndarray:
    """``int8[5, 15, 2]``: key cards, each with the card that must be unseen for it to count; −1 past the last.

    Rows 0..3 are for a suit led, row 4 is for the leader of a trick.
    """
    rows = [[(card, card) for card in cards.parse(text)] for text in _FOLLOWING]
    groups = [cards.parse(text) for text in _LEADING]
    rows.append([(card, card if card in cards.HEARTS else group[0]) for group in groups for card in group])
    table = np.full((5, max(map(len, rows)), 2), -1, np.int8)
    for led, row in enumerate(rows):
        table[led, : len(row)] = row
    return table


_TABLE = _table()


def key_cards(view: View, num_keys: int = 2) -> jax.Array:
    """The first key cards that are unseen: by the suit led, or those that matter to who leads.

    Args:
      view: one View.
      num_keys: static.

    Returns:
      ``int8[num_keys]``, ids in order of importance; −1 where fewer are unseen.
    """
    row = jnp.where(view.ply % 4 == 0, 4, cards.suit(game.table(view)[0]))
    which = jnp.arange(5, dtype=jnp.int32) == row
    key, gate = jnp.moveaxis(
        jnp.sum(jnp.where(which[:, None, None], _TABLE, 0), axis=0, dtype=jnp.int8), -1, 0
    )
    counts = _holds(view.unseen, key) & _holds(view.unseen, gate)
    before = jnp.cumsum(counts, dtype=jnp.int32) - counts
    here = counts & (before == jnp.arange(num_keys, dtype=jnp.int32)[:, None])
    return jnp.sum(jnp.where(here, key + 1, 0), axis=1, dtype=jnp.int8) - 1


def _holds(masks: jax.Array, card: jax.Array) -> jax.Array:
    """Whether ``uint16[4]`` holds cards ``int8[K]``: ``bool[K]``."""
    return jnp.any(masks & cards.mask_of(card) != 0, axis=-1)


def sample_strata(
    key: jax.Array, view: View, n: int, weights: StrataWeights = "exact", num_keys: int = 2
) -> tuple[jax.Array, jax.Array]:
    """Random worlds, as evenly as can be from all placements of the key cards that are possible.

    The worlds are dealt round-robin to the strata, beginning with a random one, and are uniformly random within. Each
    weighs the probability of its stratum / draws of the stratum, so that weighted means are unbiased. With fewer
    worlds than strata these are drawn by systematic sampling in proportion to their probability, and every world
    weighs 1/n, which is unbiased too. Where there are at most ``n`` worlds in all (and at most 12 unseen cards),
    every world is taken once.

    Args:
      key: a JAX random key.
      view: one View.
      n: how many worlds; static. At least 3 ** num_keys gives every stratum one.
      weights: static. The probability of a stratum: "exact", its share of all worlds, or "equal" for all that are
        possible, the paper's zeroth order.
      num_keys: how many key cards, 0..3; static. If fewer are unseen there are fewer strata.

    Returns:
      ``uint16[n, 3, 4]``: the hands of seats 1..3 counted from the viewer, and ``float32[n]`` weights that add up to
      1. Worlds of weight 0 repeat the first (see :func:`sample_or_all`). Inside a trace all hands are empty and
      weigh nothing if no world is possible.

    Raises:
      ValueError: outside of a trace, no world is possible; n < 1, no such weights, num_keys out of range.
    """
    if n < 1:
        raise ValueError(f"sample at least one world, not {n}")
    if weights not in get_args(StrataWeights):
        raise ValueError(f"weights must be one of {', '.join(get_args(StrataWeights))}, not {weights!r}")
    if num_keys not in range(4):
        raise ValueError(f"num_keys must be 0, 1, 2 or 3, not {num_keys}")
    if game.is_concrete(key, view):
        raise_if_impossible(view)
    return _sample_strata(key, view, n, weights, num_keys)


@functools.partial(game.inline_jit, static_argnames=("n", "weights", "num_keys"))
def _sample_strata(
    key: jax.Array, view: View, n: int, weights: StrataWeights, num_keys: int
) -> tuple[jax.Array, jax.Array]:
    hidden = undealt(view)
    given, allowed, rest = _strata(hidden, key_cards(view, num_keys))
    by_split = jax.vmap(splits, (_BY_NEED,))(rest)
    counts = jnp.where(allowed, jnp.sum(by_split, axis=(1, 2)), 0.0)
    possible = counts > 0
    mass = counts if weights == "exact" else possible.astype(jnp.float32)
    share = mass / jnp.maximum(jnp.sum(mass), 1.0)

    key_strata, key_worlds = jax.random.split(key)
    stratum = _allot(jax.random.bits(key_strata, (), jnp.uint32), share, n)
    its_rest = rest._replace(need=rest.need[stratum])
    drawn = jax.vmap(deal, (0, _BY_NEED, 0))(random_words(key_worlds, n), its_rest, by_split[stratum])
    drawn = jnp.where(jnp.any(possible), drawn | given[stratum], jnp.uint16(0))
    found, used = all_if_few(drawn, hidden, splits(hidden))

    inside = jnp.all(found[:, None] & given == given, axis=(2, 3)) & possible & used[:, None]
    draws = jnp.sum(inside, axis=0, dtype=jnp.float32)
    weight = jnp.sum(jnp.where(inside, share / jnp.maximum(draws, 1.0), 0.0), axis=1)
    return found, jnp.where(n < jnp.sum(possible), jnp.float32(1 / n), weight)


_BY_NEED = Undealt(cards=None, void=None, need=0)  # type: ignore[arg-type]  # axes of vmap: strata differ in need


def _strata(hidden: Undealt, keys: jax.Array) -> tuple[jax.Array, jax.Array, Undealt]:
    """The 3^q placements of q key cards.

    Returns:
      ``uint16[3^q, 3, 4]``, the key cards in the hands of seats 1..3; ``bool[3^q]``, False where a seat is void, or
      where there is no such key card and its placement is not the first; and what is left to deal, with ``need``
      ``int32[3^q, 4]``.
    """
    placements = np.array(list(itertools.product((1, 2, 3), repeat=len(keys))), np.int32)
    seats = np.arange(4) == placements[:, :, None]  # bool[3^q, q, 4]
    sets = cards.mask_of(keys)  # uint16[q, 4]
    given = jnp.sum(jnp.where(seats[..., None], sets[:, None], 0), axis=1, dtype=jnp.uint16)
    needs = hidden.need - jnp.sum(jnp.where(keys[:, None] >= 0, seats, False), axis=1, dtype=jnp.int32)
    fits = ~jnp.any((given != 0) & hidden.void, axis=(1, 2))
    fits &= jnp.all((keys >= 0) | (placements == 1), axis=1)
    left = hidden.cards & ~jnp.sum(sets, axis=0, dtype=jnp.uint16)
    return given[:, 1:], fits, Undealt(left, hidden.void, needs)


def _allot(word: jax.Array, share: jax.Array, n: int) -> jax.Array:
    """Which stratum each of ``n`` worlds is drawn from: ``int32[n]``.

    Args:
      word: ``uint32[]``, random.
      share: ``float32[3^q]``, probabilities of the strata, 0 where impossible.
    """
    number = jnp.arange(n, dtype=jnp.int32)
    upto = jnp.cumsum(share > 0, dtype=jnp.int32)
    turn = (cards.below(word, upto[-1]) + number) % jnp.maximum(upto[-1], 1)
    in_turn = jnp.sum(upto <= turn[:, None], axis=1, dtype=jnp.int32)
    point = jnp.minimum((to_uniform(word) + number) / n, 1 - 2**-24)  # so that none is rounded to 1
    in_proportion = jax.vmap(pick, (0, None))(point, share)
    return jnp.where(n < upto[-1], in_proportion, jnp.minimum(in_turn, len(share) - 1))
