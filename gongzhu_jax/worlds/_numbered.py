"""Worlds by number: late in a deal there are few, so that all can be taken and none is drawn twice.

The two steps of sampling count instead: the numbers of the ways give the split of an i-th world, then its cards.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from gongzhu_jax import cards, game
from gongzhu_jax.view import View
from gongzhu_jax.worlds import _sampling as sampling
from gongzhu_jax.worlds._sampling import Undealt, sample

MAX_NUMBERED = 12  # unseen cards: 4 a hand, at most 34,650 worlds, which float32 and int32 count exactly


def nth_world(view: View, i: Any) -> jax.Array:
    """The i-th world in a fixed order, found by counting: for the last tricks, when there are few.

    Worlds that agree on how many cards of each class every seat holds follow each other; among them the order is
    that of the seats of the cards, in id order.

    Args:
      view: one View with at most 12 unseen cards.
      i: integer ``[]``, 0 to the number of worlds − 1.

    Returns:
      ``uint16[3, 4]``: the hands of seats 1..3 counted from the viewer. Inside a trace they are empty if there is
      no such world or more cards are unseen.

    Raises:
      ValueError: outside of a trace, more than 12 cards are unseen, no world is possible or there is no i-th.
    """
    if game.is_concrete(view):
        _raise_if_not_numbered(view)
        if game.is_concrete(i) and not 0 <= int(i) < sampling.count_worlds(view):
            raise ValueError(f"no world {i}: there are {sampling.count_worlds(view)}, counted from 0")
    return _nth_world(view, jnp.asarray(i, jnp.int32))


@game.inline_jit
def _nth_world(view: View, i: jax.Array) -> jax.Array:
    rest = sampling.undealt(view)
    return _unrank(i, rest, sampling.splits(rest), jnp.bool_(True))


def every_world(view: View, limit: int) -> tuple[jax.Array, jax.Array]:
    """All worlds, or the first ``limit`` in the order of :func:`nth_world`.

    Args:
      view: one View with at most 12 unseen cards.
      limit: static.

    Returns:
      ``uint16[limit, 3, 4]`` and ``bool[limit]``, which of them are worlds: the first min(count, limit). The hands
      of the others are empty. Inside a trace there are none if more than 12 cards are unseen.

    Raises:
      ValueError: outside of a trace, more than 12 cards are unseen or no world is possible; limit < 1.
    """
    if limit < 1:
        raise ValueError(f"list at least one world, not {limit}")
    if game.is_concrete(view):
        _raise_if_not_numbered(view)
    return _every_world(view, limit)


@functools.partial(game.inline_jit, static_argnames="limit")
def _every_world(view: View, limit: int) -> tuple[jax.Array, jax.Array]:
    rest = sampling.undealt(view)
    by_split, number = sampling.splits(rest), jnp.arange(limit)
    hands = jax.vmap(_unrank, (0, None, None, None))(number, rest, by_split, jnp.bool_(True))
    return hands, (number < jnp.sum(by_split)) & _is_numbered(rest)


def sample_or_all(key: jax.Array, view: View, n: int) -> tuple[jax.Array, jax.Array]:
    """Every world once where there are at most ``n`` (and at most 12 unseen cards), else ``n`` random worlds.

    Args:
      key: a JAX random key; random worlds are those of :func:`sample`.
      view: one View.
      n: static.

    Returns:
      ``uint16[n, 3, 4]`` hands as from :func:`sample`, and ``float32[n]`` equal weights that add up to 1. Where
      all worlds take less than ``n`` places, the first is repeated with weight 0. Inside a trace all hands are
      empty and weigh nothing if no world is possible.

    Raises:
      ValueError: outside of a trace, no world is possible; n < 1.
    """
    drawn = sample(key, view, n)  # which checks its arguments
    return _all_if_few(drawn, view)


@game.inline_jit
def _all_if_few(drawn: jax.Array, view: View) -> tuple[jax.Array, jax.Array]:
    rest = sampling.undealt(view)
    by_split = sampling.splits(rest)
    hidden, used = all_if_few(drawn, rest, by_split)
    counts = used & (jnp.sum(by_split) > 0)
    return hidden, counts / jnp.maximum(jnp.sum(counts), 1).astype(jnp.float32)


def all_if_few(drawn: jax.Array, rest: Undealt, by_split: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Put all worlds in the place of ``n`` random ones where they fit in.

    Args:
      drawn: ``uint16[n, 3, 4]``, kept where there are more than ``n`` worlds, none, or more than 12 cards.
      rest: what is dealt in them.
      by_split: its :func:`splits`.

    Returns:
      ``uint16[n, 3, 4]``, and ``bool[n]``, False where the first world is only repeated.
    """
    n, total = len(drawn), jnp.sum(by_split)
    few = (total > 0) & (total <= n) & _is_numbered(rest)
    number = jnp.arange(n)
    fresh = number < total
    unrank = jax.vmap(_unrank, (0, None, None, None))
    listed = unrank(jnp.where(fresh, number, 0), rest, by_split, few)
    return jnp.where(few, listed, drawn), fresh | ~few


def _unrank(i: jax.Array, rest: Undealt, by_split: jax.Array, wanted: jax.Array) -> jax.Array:
    """The i-th way to deal the rest, ``uint16[3, 4]``; empty if there is none, or ``wanted`` is False.

    Once the quotas of the seats are fixed, seat j gets the next card in (ways left) · (its quota) / (cards left)
    of the ways, a whole number.
    """
    of_suit, size = sampling.classes(rest)
    fits = wanted & (i >= 0) & (i < jnp.sum(by_split)) & _is_numbered(rest)
    y, i, _ = _take(i, jnp.sum(by_split, axis=1))
    z, i, ways = _take(i, jnp.sum(jnp.where((y == sampling.TAKES)[:, None], by_split, 0.0), axis=0))
    shares = sampling.shares_of_2(size, rest.need, y, z)
    v, i, ways = _take(i, shares * (ways / jnp.maximum(jnp.sum(shares), 1.0)))
    seats = jnp.arange(3, dtype=jnp.int32)

    def give(number: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        hands, quotas, i, ways = carry
        card = cards.mask_of(cards.nth(rest.cards, number))
        here = jnp.arange(8) == jnp.sum(jnp.where(card != 0, of_suit, 0))
        quota = jnp.sum(jnp.where(here[:, None], quotas, 0), axis=0, dtype=jnp.int32)
        left, upto = jnp.maximum(jnp.sum(quota), 1), jnp.cumsum(quota)
        seat = jnp.sum(upto[:2] <= i * left // jnp.maximum(ways, 1), dtype=jnp.int32)
        its = seats == seat
        own = jnp.sum(jnp.where(its, quota, 0), dtype=jnp.int32)
        before = jnp.sum(jnp.where(its, upto, 0), dtype=jnp.int32) - own
        hands |= jnp.where(its[:, None], card, jnp.uint16(0))
        quotas -= (here[:, None] & its).astype(jnp.int32)
        return hands, quotas, i - before * ways // left, ways * own // left

    # The number of rounds is not static, so that a batch in which nobody wants a world goes through none.
    rounds = jnp.where(fits, cards.count(rest.cards), 0)
    start = jnp.zeros((3, 4), jnp.uint16), sampling.split_quotas(size, rest.need, y, z, v), i, ways
    return jax.lax.fori_loop(0, rounds, give, start)[0]


def _take(i: jax.Array, counts: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Into which of consecutive groups with ``float32[14]`` members number i falls, its number there, the members."""
    upto = jnp.cumsum(counts)
    group = jnp.sum(upto[:-1] <= i, dtype=jnp.int32)
    members = jnp.sum(jnp.where(group == sampling.TAKES, counts, 0.0))
    before = jnp.sum(jnp.where(group == sampling.TAKES, upto, 0.0)) - members
    return group, i - before.astype(jnp.int32), members.astype(jnp.int32)


def _is_numbered(rest: Undealt) -> jax.Array:
    return cards.count(rest.cards) <= MAX_NUMBERED


def _raise_if_not_numbered(view: View) -> None:
    unseen = int(cards.count(view.unseen))
    if unseen > MAX_NUMBERED:
        raise ValueError(f"worlds are numbered while at most {MAX_NUMBERED} cards are unseen, not {unseen}")
    sampling.raise_if_impossible(view)
