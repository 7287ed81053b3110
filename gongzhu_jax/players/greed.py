"""Mr. Greed: one trick looked ahead, over sampled hands, with hand-made card values (ScrofaZero, 5.1 and 8.2).

The players who still follow in the trick reply one after the other, each with its best card given the best
replies behind it. All numbers are integers (points), so values equal those of the authors' program exactly.

Layout: a *lane* is one decision in one world. Arrays of the reply search are ``[lanes]`` with loops over the
cards of a hand around them, so that every operation runs over contiguous lanes; loops stop at the largest
hand of the batch. The last reply, which has no loop inside, is unrolled.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game, rules, worlds
from gongzhu_jax.players.base import NO_VALUE, Player, best_card, by_position, legal
from gongzhu_jax.view import View, hand_sizes

HAND = 13
LANES = 1280  # at a time: as many as leave their arrays in the cache of one core
SPECIALS = (cards.PIG, cards.SHEEP, cards.DOUBLER)


def _table(values: dict[str, int]) -> np.ndarray:
    table = np.zeros(52, np.int32)
    for name, value in values.items():
        table[cards.parse(name)[0]] = value
    return table


POINTS = np.array(rules.PAPER_POINTS, np.int32)
"""p(c); the doubler has none of its own."""
BURDEN = np.array(
    [
        *(burden := [0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]),
        *([0, 0, 1, 1, 2, 3, 4, 5, 6] + [0] * 4),  # hearts above the ten
        *burden,
        *burden,
    ],
    np.int32,
)
"""B(c), how much a card is worth getting rid of."""
PIG_RELIEF = _table({"SA": 50, "SK": 30})
SHEEP_RELIEF = _table({"DA": -30, "DK": -20, "DQ": -10})
DOUBLER_TENTHS = _table({"CA": 4, "CK": 3, "CQ": 2, "CJ": 1})


class Situation(NamedTuple):
    """What Mr. Greed sees of the past, ``[…]`` decisions or lanes; seats by position in the trick (0 leads).

    raw: four ``int32[…]``, points captured by each position, neither doubled nor flipped.
    doubled: four ``bool[…]``, that position captured the doubler.
    to_come: ``int32[…]``, R, points still to come per seat.
    root_raw: ``int32[…]``, raw points of the player who decides.
    gone: three ``bool[…]``, whether pig, sheep and doubler are captured or on the table.
    """

    raw: tuple[jax.Array, ...]
    doubled: tuple[jax.Array, ...]
    to_come: jax.Array
    root_raw: jax.Array
    gone: tuple[jax.Array, ...]


class Trick(NamedTuple):
    """A running trick, ``[lanes]``.

    led: the led suit, −1 before the lead.
    best: the card that is ahead (an id).
    points: sum of p over the cards so far.
    has_doubler: the doubler is among them.
    sign: +1 if the player ahead plays second or fourth, −1 if first or third.
    winner_doubled, winner_bonus: of the player ahead, whether it captured the doubler, and raw + R.
    """

    led: jax.Array
    best: jax.Array
    points: jax.Array
    has_doubler: jax.Array
    sign: jax.Array
    winner_doubled: jax.Array
    winner_bonus: jax.Array


class Hand(NamedTuple):
    """A following player's cards in hand order, ``int32[13, lanes]``; ``card`` is −1 past the last.

    suits: ``uint16[4, lanes]``, the same as rank masks.
    relief: of getting rid of each card.
    """

    suits: jax.Array
    card: jax.Array
    points: jax.Array
    relief: jax.Array


def greed(worlds: int = 20) -> Player:
    """Mr. Greed.

    Args:
      worlds: sampled worlds per decision; the yardstick has 20.

    Raises:
      ValueError: ``worlds`` is not positive.
    """
    if worlds < 1:
        raise ValueError(f"worlds must be at least 1, not {worlds}")
    totals = functools.partial(_totals, worlds)

    def choose(keys: jax.Array, views: View) -> jax.Array:
        keys_worlds, keys_ties = _split(keys)
        return jax.vmap(_first_when_last)(keys_ties, views, totals(keys_worlds, views))

    def values(keys: jax.Array, views: View) -> jax.Array:
        total = totals(_split(keys)[0], views)
        # whole points apart from the fraction, so that whole values stay exact in float32
        mean = (total // worlds).astype(jnp.float32) + (total % worlds).astype(jnp.float32) / worlds
        return jnp.where(legal(views), mean, NO_VALUE)

    name = "greed" if worlds == 20 else f"greed:worlds={worlds}"
    return Player(name, choose, values, chunk=max(1, LANES // worlds))


def _split(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    both = jax.vmap(jax.random.split)(keys)
    return both[:, 0], both[:, 1]


def _first_when_last(key: jax.Array, view: View, total: jax.Array) -> jax.Array:
    """The best card; ties at random, but playing last the first of them."""
    drawn = best_card(key, total)
    return jnp.where((view.ply & 3) == 3, jnp.argmax(total).astype(jnp.int8), drawn)


_ILLEGAL = -(2**31)


def _totals(num_worlds: int, keys: jax.Array, views: View) -> jax.Array:
    """The sum over worlds of the value of every card, ``int32[B, 52]``; the least integer where illegal."""
    total = by_position(views, [functools.partial(_at, p, num_worlds, keys, views) for p in range(4)])
    return jnp.where(legal(views), total, _ILLEGAL)


def _at(position: int, num_worlds: int, keys: jax.Array, views: View) -> jax.Array:
    """:func:`_totals` for Views with ``position`` cards on the table: ``int32[B, 52]``, 0 where illegal."""
    situation = jax.vmap(functools.partial(_situation, position))(views)
    own = _slots(jnp.moveaxis(jax.vmap(game.legal_masks)(views), -1, 0))  # [13, B]
    worlds_here = 1 if position == 3 else num_worlds  # nobody replies to the fourth player: no worlds needed

    def in_lanes(x: jax.Array) -> jax.Array:
        return jnp.repeat(x, worlds_here, axis=0)

    in_world = jax.tree.map(in_lanes, situation)
    trick = jax.tree.map(in_lanes, _table_so_far(position, jax.vmap(game.table)(views), situation))
    behind: list[Hand] = []
    if position < 3:
        hidden = jax.vmap(lambda key, view: worlds.sample(key, view, num_worlds))(keys, views)
        followers = hidden.reshape(-1, 3, 4)[:, : 3 - position]  # the next seats
        behind = _hands_behind(jnp.moveaxis(followers, 0, -1), in_world)
    sizes = jnp.max(jax.vmap(hand_sizes)(views), axis=0)[1 : 4 - position]

    sign = 1 if position in (1, 3) else -1

    def root_card(slot: jax.Array, values: jax.Array) -> jax.Array:
        card = own[slot]
        played = _play(position, trick, in_lanes(card), in_lanes(_lookup(POINTS, card)), in_world)
        outcome = _reply(position + 1, played, in_world, behind, sizes)
        in_all = jnp.sum(outcome.reshape(-1, worlds_here), axis=1, dtype=jnp.int32)
        return values.at[slot].set(sign * (num_worlds // worlds_here) * in_all)

    num_cards = jnp.max(jnp.sum(own >= 0, axis=0, dtype=jnp.int32))
    by_slot = jax.lax.fori_loop(0, num_cards, root_card, jnp.zeros(own.shape, jnp.int32))
    here = own[:, :, None] == jnp.arange(52)
    total = jnp.sum(jnp.where(here, by_slot[:, :, None], 0), axis=0, dtype=jnp.int32)
    total += num_worlds * jax.vmap(_root_relief)(views, situation)
    if position == 0:
        total += jax.vmap(functools.partial(_lead_bonus, num_worlds))(views)
    return total


def _situation(position: int, view: View) -> Situation:
    captured = game.captured(view)
    raw = jnp.sum(jnp.where(captured, POINTS, 0), axis=1, dtype=jnp.int32)
    table = game.table(view)
    gone = tuple(jnp.any(captured[:, card]) | jnp.any(table == card) for card in SPECIALS)
    seats = [(p - position) % 4 for p in range(4)]  # by position; the viewer, seat 0, is at `position`
    return Situation(
        raw=tuple(raw[seat] for seat in seats),
        doubled=tuple(captured[seat, cards.DOUBLER] for seat in seats),
        to_come=(-200 - jnp.sum(raw, dtype=jnp.int32)) >> 2,  # an arithmetic shift rounds down
        root_raw=raw[0],
        gone=gone,
    )


def _table_so_far(position: int, table: jax.Array, situation: Situation) -> Trick:
    """The trick as it lies: ``table`` is ``int8[B, 4]``."""
    zero = jnp.zeros(table.shape[0], jnp.int32)
    no = zero != 0
    trick = Trick(zero - 1, zero - 1, zero, no, zero, no, zero)
    for p in range(position):
        card = table[:, p].astype(jnp.int32)
        trick = _play(p, trick, card, _lookup(POINTS, card), situation)
    return trick


def _play(position: int, trick: Trick, card: jax.Array, points: jax.Array, situation: Situation) -> Trick:
    """The trick after the player at ``position`` plays a card (id and points, ``int32[lanes]``)."""
    led = cards.suit(card) if position == 0 else trick.led
    beats = (cards.suit(card) == led) & (card > trick.best)
    return Trick(
        led=led,
        best=jnp.where(beats, card, trick.best),
        points=trick.points + points,
        has_doubler=trick.has_doubler | (card == cards.DOUBLER),
        sign=jnp.where(beats, 1 if position in (1, 3) else -1, trick.sign),
        winner_doubled=jnp.where(beats, situation.doubled[position], trick.winner_doubled),
        winner_bonus=jnp.where(beats, situation.raw[position] + situation.to_come, trick.winner_bonus),
    )


def _lookup(table: np.ndarray, card: jax.Array) -> jax.Array:
    return jnp.asarray(table)[jnp.clip(card, 0, 51)]


def _outcome(trick: Trick) -> jax.Array:
    """T, the value of a completed trick for the second and fourth player: ``int32[lanes]``."""
    from_trick = jnp.where(trick.has_doubler, 2 * trick.points + trick.winner_bonus, trick.points)
    return trick.sign * jnp.where(trick.winner_doubled, 2 * trick.points, from_trick)


def _slots(masks: jax.Array) -> jax.Array:
    """Cards in hand order: ``uint16[4, …]`` to ``int32[13, …]``, −1 past the last."""
    flat = masks.reshape(4, -1)
    held = jax.vmap(cards.count, 1)(flat)

    def slot(_: None, n: jax.Array) -> tuple[None, jax.Array]:
        return None, jnp.where(n < held, jax.vmap(cards.nth, (1, None))(flat, n).astype(jnp.int32), -1)

    slots = jax.lax.scan(slot, None, jnp.arange(HAND, dtype=jnp.int32))[1]
    return slots.reshape(HAND, *masks.shape[1:])


def _hands_behind(hidden: jax.Array, situation: Situation) -> list[Hand]:
    """The players still to follow, ``hidden`` being ``uint16[players, 4, lanes]``.

    Each simulated player adds the special cards of its own hand to those it inherited as gone; the first one
    inherits what is captured or on the table, without the root's hand.
    """
    hands, gone = [], situation.gone
    slots = _slots(jnp.moveaxis(hidden, 1, 0))  # [13, players, lanes]
    for player, suits in enumerate(hidden):
        gone = tuple(
            g | (suits[card // 13] & np.uint16(1 << card % 13) != 0)
            for g, card in zip(gone, SPECIALS, strict=True)
        )
        card = slots[:, player]
        hands.append(Hand(suits, card, _lookup(POINTS, card), _relief(card, situation, gone)))
    return hands


def _relief(card: jax.Array, situation: Situation, gone: Sequence[jax.Array]) -> jax.Array:
    """Relief of getting rid of a card: ``int32``, broadcasting card ids against lanes."""
    pig, sheep, doubler = gone
    expected = situation.to_come + situation.root_raw
    for_doubler = jax.lax.div(-_lookup(DOUBLER_TENTHS, card) * expected, jnp.int32(10))  # towards zero
    return (
        _lookup(BURDEN, card)
        + jnp.where(pig, 0, _lookup(PIG_RELIEF, card))
        + jnp.where(sheep, 0, _lookup(SHEEP_RELIEF, card))
        + jnp.where(doubler, 0, for_doubler)
    )


def _reply(
    position: int,
    trick: Trick,
    situation: Situation,
    behind: list[Hand],
    sizes: Sequence[jax.Array] | jax.Array,
) -> jax.Array:
    """T after the best replies of the players from ``position`` on: ``int32[lanes]``.

    Each picks the highest (T for its side) + relief, ties to its first card. The value, the slot and T are
    packed into one integer so that one maximum keeps all three.
    """
    if position == 4:
        return _outcome(trick)
    hand = behind[0]
    sign = 1 if position in (1, 3) else -1
    in_led = functools.reduce(jnp.bitwise_or, [jnp.where(trick.led == s, hand.suits[s], 0) for s in range(4)])
    must_follow = in_led != 0

    def reply(slot: int | jax.Array, best: jax.Array) -> jax.Array:
        card = hand.card[slot]
        after = _play(position, trick, card, hand.points[slot], situation)
        outcome = _reply(position + 1, after, situation, behind[1:], sizes[1:])
        allowed = (card >= 0) & ((cards.suit(card) == trick.led) | ~must_follow)
        value = sign * outcome + hand.relief[slot]
        packed = ((value + 4096) << 16) | ((HAND - 1 - slot) << 12) | (outcome + 2048)
        return jnp.maximum(best, jnp.where(allowed, packed, -1))

    nothing = jnp.full(trick.led.shape, -1, jnp.int32)
    if position == 3:
        best = functools.reduce(lambda best, slot: reply(slot, best), range(HAND), nothing)
    else:
        best = jax.lax.fori_loop(0, sizes[0], reply, nothing)
    return (best & 4095) - 2048


def _root_relief(view: View, situation: Situation) -> jax.Array:
    """Relief of every card for the player who decides, who knows its own special cards: ``int32[52]``."""
    hand = cards.to_bools(view.hand)
    gone = [g | hand[card] for g, card in zip(situation.gone, SPECIALS, strict=True)]
    return _relief(jnp.arange(52), situation, gone)


def _lead_bonus(num_worlds: int, view: View) -> jax.Array:
    """What leading a suit that others hold more of adds in the first three tricks, over all worlds: ``int32[52]``.

    trunc(30 N (a − n)), n cards of one's own, a = those of the others / 3. It is a whole number, but the
    authors' program computes it in binary64, where some cases fall one short; so does this table.
    """
    table = [[int(30 * (others / 3 - own) * num_worlds) for others in range(14)] for own in range(14)]
    own = jax.lax.population_count(view.hand).astype(jnp.int32)
    played = jnp.sum(jax.lax.population_count(view.taken).astype(jnp.int32), axis=0)
    bonus = jnp.array(table, jnp.int32)[own, 13 - played - own]
    return jnp.where(view.ply < 12, jnp.repeat(bonus, 13), 0)
