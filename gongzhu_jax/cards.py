"""Cards: 52 ids and their names, and the two ways the library holds sets of cards.

A *card* is an id 0..51: suits run S, H, D, C and inside a suit ranks run 2..A, so
``id = 13 * suit + rank``. A *set of cards* is either

* ``bool[..., 52]``, one flag a card: what people index and what networks read, or
* ``uint16[..., 4]``, one 13-bit mask of ranks a suit: what the engine computes with.

:func:`to_masks` and :func:`to_bools` convert between them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import SupportsInt

import jax
import jax.numpy as jnp
import numpy as np

SUITS = "SHDC"
SUIT_SYMBOLS = "♠♥♦♣"
RANKS = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")
NAMES: tuple[str, ...] = tuple(suit + rank for suit in SUITS for rank in RANKS)
"""The card names in id order: ``S2 … SA H2 … HA D2 … DA C2 … CA``."""

NUM_CARDS = 52
NUM_SUITS = 4
NUM_RANKS = 13
FULL_SUIT = (1 << NUM_RANKS) - 1

_IDS = {name: card for card, name in enumerate(NAMES)} | {s + "T": 13 * i + 8 for i, s in enumerate(SUITS)}

PIG = _IDS["SQ"]
SHEEP = _IDS["DJ"]
DOUBLER = _IDS["C10"]
HEARTS: tuple[int, ...] = tuple(range(13, 26))


def name(card: SupportsInt) -> str:
    """The name of a card id, e.g. ``name(10) == "SQ"``.

    Raises:
      ValueError: ``card`` is not an id 0..51.
    """
    if not 0 <= int(card) < NUM_CARDS:
        raise ValueError(f"{card} is not a card id: ids are 0..51")
    return NAMES[int(card)]


def names(cards: Iterable[SupportsInt]) -> str:
    """The names of several ids, separated by spaces."""
    return " ".join(name(card) for card in cards)


def parse(cards: str | int | Iterable[str | int]) -> list[int]:
    """Card ids from what a person types: ``parse("SQ s10 HT") == [10, 8, 21]``.

    Args:
      cards: names separated by blanks or commas (``T`` or ``10`` for the ten, either case), an id,
        or a sequence of names and ids.

    Raises:
      ValueError: a word is not a card.
    """
    if isinstance(cards, str):
        return [_parse_name(word) for word in cards.replace(",", " ").split()]
    if isinstance(cards, int | np.integer) and not isinstance(cards, bool):
        return [_IDS[name(int(cards))]]
    if isinstance(cards, Iterable):
        return [card for item in cards for card in parse(item)]
    raise ValueError(f"{cards!r} is not a card: use names such as SQ, D10 or ids 0..51")


def _parse_name(word: str) -> int:
    card = _IDS.get(word.upper())
    if card is None:
        raise ValueError(
            f"{word!r} is not a card: write a suit S H D C, then a rank {' '.join(RANKS)} (T is the ten too)"
        )
    return card


def to_set(cards: str | int | Iterable[str | int]) -> np.ndarray:
    """``bool[52]`` of the cards that :func:`parse` reads.

    Raises:
      ValueError: a word is not a card, or a card stands there twice.
    """
    ids = parse(cards)
    found = np.bincount(ids, minlength=NUM_CARDS)
    if found.max() > 1:
        raise ValueError(f"{names(np.flatnonzero(found > 1))} stands there more than once")
    return found > 0


def suit(card: jax.Array) -> jax.Array:
    """Suit 0..3 of card ids, integer ``[...]``; −1 for −1, "no card"."""
    # Counting the suits that start at or below the card vectorises on CPUs; a floor division does not.
    below = [(card >= first).astype(card.dtype) for first in range(0, NUM_CARDS, NUM_RANKS)]
    return functools.reduce(jnp.add, below) - 1


def rank(card: jax.Array) -> jax.Array:
    """Rank 0..12 (2..A) of card ids, integer ``[...]``; undefined for −1."""
    return card - NUM_RANKS * suit(card)


def bit(rank: jax.Array) -> jax.Array:
    """``uint16[...]`` with the bit of a rank 0..12 set; empty for other numbers."""
    return (jnp.uint16(1) << rank.astype(jnp.uint16)) & jnp.uint16(FULL_SUIT)


def mask_of(card: jax.Array) -> jax.Array:
    """``uint16[..., 4]`` holding one card; empty for ids outside 0..51.

    Args:
      card: integer ``[...]``.
    """
    here = jnp.arange(NUM_SUITS, dtype=card.dtype) == suit(card)[..., None]
    return jnp.where(here, bit(rank(card))[..., None], jnp.uint16(0))


def to_masks(cards: jax.Array) -> jax.Array:
    """``bool[..., 52]`` to ``uint16[..., 4]``."""
    by_suit = cards.reshape(*cards.shape[:-1], NUM_SUITS, NUM_RANKS)
    bits = jnp.uint16(1) << jnp.arange(NUM_RANKS, dtype=jnp.uint16)
    return jnp.sum(jnp.where(by_suit, bits, jnp.uint16(0)), axis=-1, dtype=jnp.uint16)


def to_bools(masks: jax.Array) -> jax.Array:
    """``uint16[..., 4]`` to ``bool[..., 52]``."""
    bits = masks[..., None] >> jnp.arange(NUM_RANKS, dtype=jnp.uint16)
    return (bits & 1).astype(jnp.bool_).reshape(*masks.shape[:-1], NUM_CARDS)


def count(masks: jax.Array) -> jax.Array:
    """How many cards ``uint16[..., 4]`` holds: ``int32[...]``."""
    return jnp.sum(jax.lax.population_count(masks), axis=-1, dtype=jnp.int32)


def nth(masks: jax.Array, n: jax.Array) -> jax.Array:
    """The n-th card, counting from 0 in id order, of ``uint16[4]``: ``int8[]``; undefined past the last."""
    upto = list(itertools.accumulate(jax.lax.population_count(m).astype(jnp.int32) for m in masks))
    suit, mask, before = jnp.int32(0), masks[0], jnp.int32(0)
    for s in range(1, NUM_SUITS):
        beyond = n >= upto[s - 1]
        suit = jnp.where(beyond, s, suit)
        mask = jnp.where(beyond, masks[s], mask)
        before = jnp.where(beyond, upto[s - 1], before)
    # Its rank is the number of ranks up to which no more than n cards of the suit are held.
    low = np.array([(2 << rank) - 1 for rank in range(NUM_RANKS)], np.uint16)
    rank = jnp.sum(jax.lax.population_count(mask & low).astype(jnp.int32) <= n - before, dtype=jnp.int32)
    return (NUM_RANKS * suit + rank).astype(jnp.int8)


def below(bits: jax.Array, n: jax.Array) -> jax.Array:
    """Random integers in ``[0, n)`` from 32 random bits: ``floor(bits · n / 2³²)`` without 64-bit words.

    Args:
      bits: ``uint32[...]``, uniform.
      n: integers below 2¹⁶, broadcastable to ``bits``. The bias is below n / 2³².

    Returns:
      ``int32[...]``.
    """
    n = n.astype(jnp.uint32)
    high = (bits >> 16) * n
    low = ((bits & 0xFFFF) * n) >> 16
    return ((high + low) >> 16).astype(jnp.int32)


def random_card(key: jax.Array, masks: jax.Array) -> jax.Array:
    """A uniformly random card of ``uint16[4]``: ``int8[]``; undefined for the empty set."""
    return nth(masks, below(jax.random.bits(key, (), jnp.uint32), count(masks)))


def best_card(key: jax.Array, values: jax.Array) -> jax.Array:
    """A card of the highest value, ties uniformly at random.

    Args:
      values: ``[52]``, −inf (or the least integer) where illegal.

    Returns:
      ``int8[]``.
    """
    return random_card(key, to_masks(values == jnp.max(values)))
