"""Rules as data, and the three formulas that need nothing else: what may be played, who wins, what counts.

Default: the rules of the ScrofaZero paper (arXiv 2102.07495, section 2 and supplement 8.1). Scores are in
points and more is better in every variant, so that a margin means the same everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards

NUM_SEATS = 4
HAND_SIZE = 13
NUM_TRICKS = 13

PAPER_POINTS: tuple[int, ...] = (
    *(-100 if c == cards.PIG else 0 for c in range(13)),
    *(0, 0, 0, -10, -10, -10, -10, -10, -10, -20, -30, -40, -50),
    *(100 if c == cards.SHEEP else 0 for c in range(26, 39)),
    *(0 for _ in range(39, 52)),
)


class Sweep(NamedTuple):
    """What happens when one seat captures *all* of some cards.

    cards: the ids that are all needed.
    factor: their points are multiplied by this (−1 flips the sign, 0 cancels).
    others: points that every other seat receives (Hearts: −26 when the moon is shot).
    """

    cards: tuple[int, ...]
    factor: int = -1
    others: int = 0


@dataclasses.dataclass(frozen=True)
class Rules:
    """Everything that differs between the games of this family; hashable, so each variant compiles once.

    Attributes:
      name: what records call these rules.
      points: points of each of the 52 cards, before sweeps and doubling.
      scoring: the ids that count as scoring cards (for the doubler alone and for display).
      doubler: the id that doubles what its seat captured, or None.
      doubler_alone: points of the doubler when it is the only scoring card of its seat.
      sweeps: tried in order, the first whose cards are all there counts; name the most specific first.
      teams: the team of each seat; ``(0, 1, 2, 3)`` for individuals.
      first_leader: who leads the first trick of a random deal: "random", a seat 0..3, or the name of the
        card whose holder leads.
      first_card_forced: the holder must lead that card (needs a card as ``first_leader``).

    Raises:
      ValueError: a field is out of its range.
    """

    name: str = "paper"
    points: tuple[int, ...] = dataclasses.field(default=PAPER_POINTS, repr=False)
    scoring: tuple[int, ...] = dataclasses.field(
        default=(*cards.HEARTS, cards.PIG, cards.SHEEP, cards.DOUBLER), repr=False
    )
    doubler: int | None = cards.DOUBLER
    doubler_alone: int = 50
    sweeps: tuple[Sweep, ...] = dataclasses.field(default=(Sweep(cards.HEARTS),), repr=False)
    teams: tuple[int, int, int, int] = (0, 1, 0, 1)
    first_leader: int | str = "random"
    first_card_forced: bool = False

    def __post_init__(self) -> None:
        if len(self.points) != 52 or not all(isinstance(p, int) for p in self.points):
            raise ValueError("points must be 52 integers, one a card in id order")
        if sum(abs(p) for p in self.points) >= 1 << 20:
            raise ValueError("points are too large: their absolute sum must stay below 2**20")
        if len(self.teams) != NUM_SEATS or not all(t in range(NUM_SEATS) for t in self.teams):
            raise ValueError(f"teams must be four numbers 0..3, one a seat, not {self.teams}")
        for field, ids in (
            ("scoring", self.scoring),
            *((f"sweeps[{i}]", s.cards) for i, s in enumerate(self.sweeps)),
        ):
            if not all(c in range(52) for c in ids) or len(set(ids)) != len(ids):
                raise ValueError(f"{field} must be different card ids 0..51, not {ids}")
        if self.doubler is not None and self.doubler not in self.scoring:
            raise ValueError(f"the doubler {self.doubler} must be one of the scoring cards")
        if isinstance(self.first_leader, str) and self.first_leader != "random":
            if len(cards.parse(self.first_leader)) != 1:
                raise ValueError(
                    f"first_leader must be 'random', a seat or one card, not {self.first_leader!r}"
                )
        elif self.first_leader != "random" and self.first_leader not in range(NUM_SEATS):
            raise ValueError(
                f"first_leader must be 'random', a seat 0..3 or a card, not {self.first_leader!r}"
            )
        if self.first_card_forced and self.first_lead_card is None:
            raise ValueError("first_card_forced needs the name of a card as first_leader")

    @property
    def first_lead_card(self) -> int | None:
        """The id of the card whose holder leads first, or None when the leader is chosen otherwise."""
        if isinstance(self.first_leader, str) and self.first_leader != "random":
            return cards.parse(self.first_leader)[0]
        return None

    def with_points(self, points: Mapping[str, int], name: str) -> Rules:
        """These rules with other points for some cards: ``Rules().with_points({"H4": -10}, name="h4")``."""
        table = list(self.points)
        for card, value in points.items():
            table[cards.parse(card)[0]] = value
        return dataclasses.replace(self, points=tuple(table), name=name)


PAPER = Rules()
HEARTS = Rules(
    name="hearts",
    points=tuple(-13 if c == cards.PIG else -1 if c in cards.HEARTS else 0 for c in range(52)),
    scoring=(*cards.HEARTS, cards.PIG),
    doubler=None,
    sweeps=(Sweep((*cards.HEARTS, cards.PIG), factor=0, others=-26),),
    teams=(0, 1, 2, 3),
    first_leader="C2",
    first_card_forced=True,
)
"""Hearts as it is scored: −1 a heart, −13 for SQ, individuals; shooting the moon costs the others 26 each."""

VARIANTS: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        PAPER,
        HEARTS,
        PAPER.with_points({"H4": -10}, name="h4"),
        PAPER.with_points({"SQ": -200}, name="pig200"),
        dataclasses.replace(PAPER, name="pigflip", sweeps=(Sweep((*cards.HEARTS, cards.PIG)), *PAPER.sweeps)),
    )
}
"""Rules that records may name."""


def team_of(seat: jax.Array, rules: Rules) -> jax.Array:
    """The team of a seat, integer ``[...]``: ``int8[...]``. Signs of values come from here, never from parity."""
    return jnp.array(rules.teams, jnp.int8)[seat]


def legal_masks(hand: jax.Array, led: jax.Array) -> jax.Array:
    """The cards of a hand that may be played: the led suit if it is held, otherwise anything.

    Args:
      hand: ``uint16[4]``.
      led: the led suit 0..3, or −1 for the leader of the trick; integer ``[]``.

    Returns:
      ``uint16[4]``.
    """
    follow = jnp.where(jnp.arange(4, dtype=led.dtype) == led, hand, jnp.uint16(0))
    return jnp.where(jnp.any(follow != 0), follow, hand)


def trick_winner(trick: jax.Array) -> jax.Array:
    """Which card of a trick is ahead: the highest of the led suit.

    Args:
      trick: integer ``[4]``, cards in playing order, −1 where none is played yet.

    Returns:
      ``int8[]``, the position 0..3 (0 for an empty trick).
    """
    follows = (cards.suit(trick) == cards.suit(trick[0])) & (trick >= 0)
    # One maximum finds card and position together; −1 leaves position 0 ahead.
    strength = jnp.where(follows, trick, -1).astype(jnp.int32)
    ahead = jnp.max(4 * strength + jnp.arange(3, -1, -1, dtype=jnp.int32))
    return (3 - (ahead & 3)).astype(jnp.int8)


class Tally(NamedTuple):
    """What counts in a pile, as numbers that add up when piles are put together: ``int32[...]`` each.

    points: of its cards, before sweeps and doubling.
    sweeps: for each sweep of the rules, how many of its cards.
    doubler: how many cards that double: 0 or 1.
    others: how many scoring cards beside the doubler.
    """

    points: jax.Array
    sweeps: tuple[jax.Array, ...]
    doubler: jax.Array
    others: jax.Array


def tally_tables(rules: Rules) -> Tally:
    """What each card adds to a tally: NumPy ``int32[52]`` each."""
    ids = np.arange(52)
    doubler = ids == (-1 if rules.doubler is None else rules.doubler)
    members = (np.array(rules.points), [np.isin(ids, s.cards) for s in rules.sweeps], doubler)
    points, sweeps, doubler = jax.tree.map(lambda x: x.astype(np.int32), members)
    return Tally(points, tuple(sweeps), doubler, np.isin(ids, rules.scoring).astype(np.int32) - doubler)


def tally(captured: jax.Array, rules: Rules = PAPER) -> Tally:
    """What counts in the pile ``bool[..., 52]`` of one seat."""
    captured = jnp.asarray(captured, jnp.bool_)
    return jax.tree.map(
        lambda table: jnp.sum(jnp.where(captured, table, 0), axis=-1, dtype=jnp.int32), tally_tables(rules)
    )


def score(captured: jax.Array, rules: Rules = PAPER) -> jax.Array:
    """Points of what one seat captured: sweeps first, then the sum, then the doubler.

    Score differences anywhere in the library are differences of this formula, never sums of card points.

    Args:
      captured: ``bool[..., 52]``, the pile of one seat.

    Returns:
      ``int32[...]`` points. What a sweep gives to *other* seats is in :func:`scores`.
    """
    return _score(tally(captured, rules), rules)


def scores(captured: jax.Array, rules: Rules = PAPER) -> jax.Array:
    """Points of all four seats.

    Args:
      captured: ``bool[..., 4, 52]``.

    Returns:
      ``int32[..., 4]``: :func:`score` of each pile and what other seats' sweeps give.
    """
    piles = [tally(captured[..., seat, :], rules) for seat in range(NUM_SEATS)]
    return jnp.stack(scores_of_tallies(piles, rules), axis=-1)


def scores_of_tallies(piles: Sequence[Tally], rules: Rules = PAPER) -> list[jax.Array]:
    """:func:`scores` of what all seats' piles add up to: ``int32[...]`` points by seat."""
    found = [_score(pile, rules) for pile in piles]
    swept = [_swept(pile, rules) for pile in piles]
    for number, sweep in enumerate(rules.sweeps):
        if sweep.others:
            by_anyone = functools.reduce(jnp.logical_or, (seat[number] for seat in swept))
            gains = (jnp.where(by_anyone & ~seat[number], jnp.int32(sweep.others), 0) for seat in swept)
            found = [points + gain for points, gain in zip(found, gains, strict=True)]
    return found


def _score(pile: Tally, rules: Rules) -> jax.Array:
    total = pile.points
    for sweep, swept in zip(rules.sweeps, _swept(pile, rules), strict=True):
        gain = (sweep.factor - 1) * sum(rules.points[card] for card in sweep.cards)
        total = total + jnp.where(swept, jnp.int32(gain), 0)
    if rules.doubler is None:
        return total
    doubled = jnp.where(pile.others == 0, jnp.int32(rules.doubler_alone), 2 * total)
    return jnp.where(pile.doubler > 0, doubled, total)


def _swept(pile: Tally, rules: Rules) -> list[jax.Array]:
    """For each sweep of the rules ``bool[...]``: it is the first one whose cards are all captured."""
    found, earlier = [], jnp.zeros(pile.points.shape, jnp.bool_)
    for sweep, count in zip(rules.sweeps, pile.sweeps, strict=True):
        complete = count == len(sweep.cards)
        found.append(complete & ~earlier)
        earlier = earlier | complete
    return found
