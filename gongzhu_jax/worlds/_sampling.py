"""Worlds: full assignments of the unseen cards to the three hidden hands, counted and sampled exactly.

A world respects hand sizes and shown voids. The voids put every unseen card into a *class*: the set of hidden
seats that may hold it. Cards of a class are exchangeable, so a world is drawn in two steps: how many cards of
each class every seat gets (weights in closed form, three draws from at most 14 values), then which cards they
are (one by one, a seat with probability quota / cards left). No rejection, no bias, a fixed number of steps.
Reference: ScrofaZero, uniform sampling, whose suit-count tables this replaces.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game
from gongzhu_jax.game import State
from gongzhu_jax.view import View, hand_sizes, why_impossible

# A class is a 3-bit number: bit j - 1 is set when hidden seat j = 1..3, counted from the viewer, may hold it.
_ONLY_1, _ONLY_2, _NOT_3, _ONLY_3, _NOT_2, _NOT_1, _ANY = range(1, 8)

_WORDS = 3 + 52  # random words a world: three for the split, one a card
TAKES = np.arange(14, dtype=np.int32)  # what a seat may take of a class
_BINOMIALS = np.array([[math.comb(n, k) for k in range(40)] for n in range(40)], np.float32)


class Undealt(NamedTuple):
    """Cards still to be dealt to the hidden seats, counted from the viewer; row 0, the viewer's, plays no part.

    cards: ``uint16[4]``, rank masks by suit.
    void: ``bool[4, 4]`` (seat, suit), what a seat may not get.
    need: ``int32[4]``, how many cards each seat gets.
    """

    cards: jax.Array
    void: jax.Array
    need: jax.Array


def undealt(view: View) -> Undealt:
    """All that is hidden from the viewer."""
    return Undealt(view.unseen, view.void, hand_sizes(view))


def sample(key: jax.Array, view: View, n: int) -> jax.Array:
    """Uniformly random worlds, independent of each other.

    Args:
      key: a JAX random key.
      view: one View.
      n: how many worlds; static.

    Returns:
      ``uint16[n, 3, 4]``: the hands of seats 1..3 counted from the viewer, as rank masks by suit. All hands are
      empty if no world is possible (see :func:`is_possible`).

    Raises:
      ValueError: outside of a trace, no world is possible (naming the seat and what it lacks), or n < 1.
    """
    if n < 1:
        raise ValueError(f"sample at least one world, not {n}")
    if game.is_concrete(key, view):
        raise_if_impossible(view)
    return jax.vmap(_sample, (0, None))(random_words(key, n), view)


@game.inline_jit
def _sample(words: jax.Array, view: View) -> jax.Array:
    """One world from ``uint32[55]`` random words."""
    rest = undealt(view)
    return deal(words, rest, splits(rest))


def random_words(key: jax.Array, n: int) -> jax.Array:
    """What :func:`deal` needs for ``n`` worlds: ``uint32[n, 55]``."""
    return jax.random.bits(key, (n, _WORDS), jnp.uint32)


def uniform(words: jax.Array) -> jax.Array:
    """``float32[...]`` in [0, 1) from ``uint32[...]`` random words: 24 bits, so that none is rounded to 1."""
    return (words >> 8) * jnp.float32(2**-24)


def deal(words: jax.Array, rest: Undealt, by_split: jax.Array) -> jax.Array:
    """Deal the rest uniformly at random.

    Args:
      words: ``uint32[55]``, random.
      rest: the cards and who may get them.
      by_split: its :func:`splits`.

    Returns:
      ``uint16[3, 4]``: rank masks of seats 1..3, empty if the rest cannot be dealt.
    """
    of_suit, size = classes(rest)
    quotas, possible = _draw_quotas(uniform(words[:3]), size, rest.need, by_split)

    def deal_suit(quotas: jax.Array, suit: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        words, unseen, its_class = suit
        here = (jnp.arange(8) == its_class)[:, None]
        left = jnp.sum(jnp.where(here, quotas, 0), axis=0, dtype=jnp.int32)
        hands, left = _deal_suit(words, unseen, left)
        return jnp.where(here, left, quotas), hands

    _, hands = jax.lax.scan(deal_suit, quotas, (words[3:].reshape(4, 13), rest.cards, of_suit))
    return jnp.where(possible, hands.T, 0).astype(jnp.uint16)


def _deal_suit(words: jax.Array, unseen: jax.Array, quotas: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Deal the unseen cards of one suit: seat j gets a card with probability quota j / cards left in the class.

    Args:
      words: ``uint32[13]`` random bits.
      unseen: ``uint16[]`` rank mask.
      quotas: ``int32[3]``, how many cards of the class each hidden seat still gets.

    Returns:
      ``uint16[3]`` rank masks, and the quotas that are left.
    """
    Carry = tuple[Any, ...]

    def give(carry: Carry, draw: tuple[jax.Array, jax.Array]) -> tuple[Carry, None]:
        word, bit = draw
        one, two, three, hand_1, hand_2, hand_3 = carry
        drawn = cards.below(word, one + two + three)
        held = unseen & bit != 0
        to_1, to_2 = held & (drawn < one), held & (drawn >= one) & (drawn < one + two)
        to_3 = held & (drawn >= one + two)
        left = [q - to.astype(jnp.int32) for q, to in ((one, to_1), (two, to_2), (three, to_3))]
        hands = [h | jnp.where(to, bit, 0) for h, to in ((hand_1, to_1), (hand_2, to_2), (hand_3, to_3))]
        return (*left, *hands), None

    empty = jnp.uint16(0)
    bits = jnp.uint16(1) << jnp.arange(13, dtype=jnp.uint16)
    start: Carry = (quotas[0], quotas[1], quotas[2], empty, empty, empty)
    (one, two, three, *hands), _ = jax.lax.scan(give, start, (words, bits))
    return jnp.stack(hands), jnp.stack([one, two, three])


def classes(rest: Undealt) -> tuple[jax.Array, jax.Array]:
    """The class of each suit, ``int32[4]``, and the cards in each class, ``int32[8]``."""
    allowed = ~rest.void[1:4]
    of_suit = jnp.sum(jnp.where(allowed, jnp.array([[1], [2], [4]], jnp.int32), 0), axis=0, dtype=jnp.int32)
    in_suit = jax.lax.population_count(rest.cards).astype(jnp.int32)
    here = of_suit == jnp.arange(8, dtype=jnp.int32)[:, None]
    return of_suit, jnp.sum(jnp.where(here, in_suit, 0), axis=1, dtype=jnp.int32)


def splits(rest: Undealt) -> jax.Array:
    """How many worlds there are for each split of seat 1's cards.

    Seat 1 takes y cards that anyone may hold, z that seat 3 may not, and what it still needs of those that seat 2
    may not. Seat 2 then holds every other card that seat 3 may not, and fills up from one pool: what seat 1 left
    of the cards that anyone may hold, and those that seat 1 may not. The rest is seat 3's.

    Returns:
      ``float32[14, 14]`` over (y, z); their sum is the number of worlds.
    """
    size, need = classes(rest)[1], rest.need
    y, z = TAKES[:, None], TAKES[None, :]
    first = (
        _choose(size[_ANY], y) * _choose(size[_NOT_3], z) * _choose(size[_NOT_2], _rest_1(size, need, y, z))
    )
    second = _choose(size[_NOT_1] + size[_ANY] - y, _from_pool(size, need, z))
    fits = (size[0] == 0) & (jnp.sum(size) == need[1] + need[2] + need[3])
    return jnp.where(fits, first * second, 0.0)


def _rest_1(size: Any, need: Any, y: Any, z: Any) -> Any:  # arrays in a trace, ints in count_worlds
    return need[1] - size[_ONLY_1] - y - z


def _from_pool(size: Any, need: Any, z: Any) -> Any:
    return need[2] - size[_ONLY_2] - (size[_NOT_3] - z)


def _draw_quotas(
    uniform: jax.Array, size: jax.Array, need: jax.Array, by_split: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """How many cards of each class each hidden seat gets, with the probability of all worlds that agree.

    Args:
      uniform: ``float32[3]`` in [0, 1).

    Returns:
      ``int32[8, 3]`` (class, seat), and whether any world is possible.
    """
    y = pick(uniform[0], jnp.sum(by_split, axis=1))
    z = pick(uniform[1], jnp.sum(jnp.where((y == TAKES)[:, None], by_split, 0.0), axis=0))
    v = pick(uniform[2], shares_of_2(size, need, y, z))
    return split_quotas(size, need, y, z, v), jnp.sum(by_split) > 0


def shares_of_2(size: jax.Array, need: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
    """How many ways there are for seat 2 to fill up with v of the cards that anyone may hold: ``float32[14]``."""
    from_pool = _from_pool(size, need, z)
    return _choose(size[_ANY] - y, TAKES) * _choose(size[_NOT_1], from_pool - TAKES)


def split_quotas(size: jax.Array, need: jax.Array, y: jax.Array, z: jax.Array, v: jax.Array) -> jax.Array:
    """How many cards of each class each hidden seat gets: ``int32[8, 3]`` (class, seat)."""
    from_pool = _from_pool(size, need, z)
    rest, none = _rest_1(size, need, y, z), jnp.int32(0)
    quotas = [
        (none, none, none),
        (size[_ONLY_1], none, none),
        (none, size[_ONLY_2], none),
        (z, size[_NOT_3] - z, none),
        (none, none, size[_ONLY_3]),
        (rest, none, size[_NOT_2] - rest),
        (none, from_pool - v, size[_NOT_1] - (from_pool - v)),
        (y, v, size[_ANY] - y - v),
    ]
    return jnp.stack([jnp.stack(row) for row in quotas])


def pick(uniform: jax.Array, weights: jax.Array) -> jax.Array:
    """An index of ``float32[K]`` weights with probability proportional to them: ``int32[]``."""
    upto = jnp.cumsum(weights)
    return jnp.sum(upto[:-1] <= uniform * upto[-1], dtype=jnp.int32)


def _choose(n: jax.Array, k: jax.Array | np.ndarray) -> jax.Array:
    """Binomial coefficients, ``float32``; 0 where k is outside 0..n."""
    inside = (k >= 0) & (k <= n)
    return jnp.where(inside, jnp.asarray(_BINOMIALS)[jnp.clip(n, 0, 39), jnp.clip(k, 0, 39)], 0.0)


def is_possible(view: View) -> jax.Array:
    """Whether any hidden hands fit a View: ``bool[]``."""
    return jnp.sum(splits(undealt(view))) > 0


def log_count(view: View) -> jax.Array:
    """Natural logarithm of the number of worlds: ``float32[]``, −inf if there are none."""
    return jnp.log(jnp.sum(splits(undealt(view))))


def count_worlds(view: View) -> int:
    """The exact number of worlds of one View, outside of a trace (inside: :func:`log_count`).

    Raises:
      ValueError: there are none; the text names the seat and what it lacks.
    """
    raise_if_impossible(view)
    size, need = np.asarray(classes(undealt(view))[1]).tolist(), np.asarray(hand_sizes(view)).tolist()
    total = 0
    for y in range(14):
        for z in range(14):
            rest, from_pool = _rest_1(size, need, y, z), _from_pool(size, need, z)
            pool = size[_NOT_1] + size[_ANY] - y
            if rest >= 0 and from_pool >= 0 and pool >= 0:
                seat_1 = math.comb(size[_ANY], y) * math.comb(size[_NOT_3], z) * math.comb(size[_NOT_2], rest)
                total += seat_1 * math.comb(pool, from_pool)
    return total


def raise_if_impossible(view: View) -> None:
    """Raise ``ValueError`` if no hidden hands fit one View (outside of a trace); the text says why."""
    problem = why_impossible(view)
    if problem:
        raise ValueError(f"no hidden hands fit this view: {problem}")


def to_state(view: View, hidden: jax.Array) -> State:
    """The State of one world, with seats counted from the viewer.

    Args:
      hidden: ``uint16[3, 4]``, the hands of seats 1..3.
    """
    bits = jnp.uint16(1) << jnp.arange(16, dtype=jnp.uint16)
    return State(
        hands=jnp.concatenate([view.hand[None], hidden]),
        taken=view.taken,
        plays=view.plays,
        leaders=view.leaders,
        void=jnp.sum(jnp.where(view.void.reshape(16), bits, jnp.uint16(0)), dtype=jnp.uint16),
        ply=view.ply,
        illegal=jnp.zeros((), jnp.bool_),
        rules=view.rules,
    )
