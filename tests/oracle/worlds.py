"""Hidden hands: every consistent world, their number, and an exactly uniform draw (scrofazero.md 6.1, 6.2).

A world gives each hidden seat `needs[i]` of the `unseen` cards, none of a suit in `voids[i]`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import combinations
from math import factorial

World = tuple[frozenset[int], ...]


def enumerate_worlds(
    unseen: Sequence[int], needs: Sequence[int], voids: Sequence[AbstractSet[int]]
) -> Iterator[World]:
    """All worlds, each once: choose the first seat's cards in every way, then the rest by recursion."""
    _check(unseen, needs, voids)
    yield from _enumerate(tuple(sorted(unseen)), tuple(needs), tuple(voids))


def _enumerate(
    unseen: tuple[int, ...], needs: tuple[int, ...], voids: tuple[AbstractSet[int], ...]
) -> Iterator[World]:
    if not needs:
        yield ()
        return
    allowed = [c for c in unseen if c // 13 not in voids[0]]
    for chosen in combinations(allowed, needs[0]):
        first = frozenset(chosen)
        rest = tuple(c for c in unseen if c not in first)
        for others in _enumerate(rest, needs[1:], voids[1:]):
            yield (first, *others)


def count_worlds(unseen: Sequence[int], needs: Sequence[int], voids: Sequence[AbstractSet[int]]) -> int:
    """Number of worlds, exactly and without enumerating them."""
    _check(unseen, needs, voids)
    return _Tables(unseen, needs, voids).count(0, tuple(needs))


def sample_world(
    rng: random.Random, unseen: Sequence[int], needs: Sequence[int], voids: Sequence[AbstractSet[int]]
) -> World:
    """One world, exactly uniform: a table of suit counts by its weight, then the cards."""
    _check(unseen, needs, voids)
    return _Tables(unseen, needs, voids).draw(rng)


def sample_worlds(
    rng: random.Random,
    number: int,
    unseen: Sequence[int],
    needs: Sequence[int],
    voids: Sequence[AbstractSet[int]],
) -> list[World]:
    """`number` independent draws of `sample_world`, sharing the counting."""
    _check(unseen, needs, voids)
    tables = _Tables(unseen, needs, voids)
    return [tables.draw(rng) for _ in range(number)]


def _check(unseen: Sequence[int], needs: Sequence[int], voids: Sequence[AbstractSet[int]]) -> None:
    if len(set(unseen)) != len(unseen) or sum(needs) != len(unseen) or len(needs) != len(voids):
        raise ValueError("needs must add up to the number of (different) unseen cards, one void set per seat")


def _splits(total: int, limits: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways of writing `total` as a sum of counts, the i-th at most `limits[i]`."""
    if not limits:
        if total == 0:
            yield ()
        return
    for first in range(min(total, limits[0]) + 1):
        for others in _splits(total - first, limits[1:]):
            yield (first, *others)


class _Tables:
    """Counts of worlds by the table of suit counts: the row of one suit weighs (cards)! / prod (counts)!."""

    def __init__(
        self, unseen: Sequence[int], needs: Sequence[int], voids: Sequence[AbstractSet[int]]
    ) -> None:
        self.by_suit = [sorted(c for c in unseen if c // 13 == s) for s in range(4)]
        self.needs = tuple(needs)
        self.voids = tuple(voids)
        self.count = cache(self._count)  # per object: two deals must not share entries

    def rows(self, s: int, left: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
        """Each way to hand out suit `s` when seat i still needs left[i] cards, with its number of worlds.

        The number counts the ways to give out this suit's cards times the ways to go on after it.
        """
        limits = [0 if s in void else n for n, void in zip(left, self.voids, strict=True)]
        for row in _splits(len(self.by_suit[s]), limits):
            ways = factorial(len(self.by_suit[s]))
            for n in row:
                ways //= factorial(n)
            yield row, ways * self.count(s + 1, tuple(a - b for a, b in zip(left, row, strict=True)))

    def _count(self, s: int, left: tuple[int, ...]) -> int:
        if s == 4:
            return 1 if not any(left) else 0
        return sum(number for _, number in self.rows(s, left))

    def _row_at(self, pick: int, s: int, left: tuple[int, ...]) -> tuple[int, ...]:
        """The row in which the world number `pick` falls, worlds being numbered row after row."""
        for row, number in self.rows(s, left):
            if pick < number:
                return row
            pick -= number
        raise AssertionError("pick is not below the count")

    def draw(self, rng: random.Random) -> World:
        if self.count(0, self.needs) == 0:
            raise ValueError("no world is consistent with these voids")
        hands: list[set[int]] = [set() for _ in self.needs]
        left = self.needs
        for s, suit_cards in enumerate(self.by_suit):
            # randrange on big integers is exact, so every world has the same probability to the last bit.
            pick = rng.randrange(self.count(s, left))
            row = self._row_at(pick, s, left)
            shuffled = rng.sample(suit_cards, len(suit_cards))
            for hand, n in zip(hands, row, strict=True):
                hand.update(shuffled[:n])
                shuffled = shuffled[n:]
            left = tuple(a - b for a, b in zip(left, row, strict=True))
        return tuple(frozenset(hand) for hand in hands)
