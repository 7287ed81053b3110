"""Mr. Random, Mr. If and Mr. Greed in plain Python (opponents.md), as functions of what a seat knows.

Arguments everywhere: the seat to play, its hand, the completed tricks `[leader, c, c, c, c]` and the
running one `[leader, c...]`, cards in playing order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from .gongzhu import DOUBLER, PIG, POINTS, SHEEP, cards, legal_cards, parse, rank, suit, winning_position
from .worlds import sample_worlds

Tricks = Sequence[Sequence[int]]
World = Mapping[int, Sequence[int]]

SPADES, HEART_SUIT, DIAMONDS, CLUBS = range(4)
SK, SA = cards("SK SA")


def legal(hand: Iterable[int], table: Sequence[int]) -> list[int]:
    """Legal cards of a seat, in the order of the hand (S, H, D, C, ranks ascending)."""
    return legal_cards(hand, suit(table[1]) if len(table) > 1 else None)


def mr_random(
    seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int], rng: random.Random
) -> int:
    """opponents.md, Mr. Random: uniform over the legal cards."""
    return rng.choice(legal(hand, table))


# ------------------------------------------------------------------------------------------------ Mr. If

UNSAFE_TO_LEAD = [set(cards(text)) for text in ("SQ SK SA", "HQ HK HA", "DJ", "C10 CJ CQ CK CA")]
AVOID_LEADING = set(cards("SQ SK SA HA HK C10 CJ CQ CK CA DJ"))
DISCARDS = cards("SQ HA SA SK HK C10 CA HQ HJ CK CQ CJ H10 H9 H8 H7 H6 H5")


def if_distribution(
    seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int]
) -> dict[int, Fraction]:
    """Probability of each card Mr. If may play (opponents.md, Mr. If)."""
    hand = sorted(hand)
    on_table = list(table[1:])
    if not on_table:
        return _if_lead(hand)
    led = suit(on_table[0])
    following = [c for c in hand if suit(c) == led]
    if not following:
        return {_if_discard(hand): Fraction(1)}
    if len(following) == 1:
        return {following[0]: Fraction(1)}
    if led == HEART_SUIT:
        top = max(c for c in on_table if suit(c) == HEART_SUIT)
        below = [c for c in following if c < top]
        return {below[-1]: Fraction(1)} if below else _uniform(following)
    follow = {SPADES: _if_spades, DIAMONDS: _if_diamonds, CLUBS: _if_clubs}[led]
    return {follow(following, on_table): Fraction(1)}


def if_choices(seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int]) -> set[int]:
    """The cards Mr. If may play."""
    return set(if_distribution(seat, hand, tricks, table))


def mr_if(seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int], rng: random.Random) -> int:
    """Mr. If's card, drawn from `if_distribution`."""
    chances = if_distribution(seat, hand, tricks, table)
    # Integer weights over a common denominator, so that the draw is exact.
    whole = lcm(*(p.denominator for p in chances.values()))
    pick = rng.randrange(whole)
    for card, p in chances.items():
        pick -= int(p * whole)
        if pick < 0:
            return card
    raise AssertionError("the probabilities do not add up to 1")


def _uniform(choices: Sequence[int]) -> dict[int, Fraction]:
    return {c: Fraction(1, len(choices)) for c in choices}


def _suits_by_length(hand: Sequence[int]) -> list[list[int]]:
    """The held suits, fewest cards first, ties in the order S, H, D, C."""
    suits = [[c for c in hand if suit(c) == s] for s in range(4)]
    return sorted((held for held in suits if held), key=len)


def _if_lead(hand: Sequence[int]) -> dict[int, Fraction]:
    """Rule 1."""
    for held in _suits_by_length(hand):
        if not UNSAFE_TO_LEAD[suit(held[0])] & set(held):
            return {held[-1]: Fraction(1)}
    good = [c for c in hand if c not in AVOID_LEADING]
    n = len(hand)
    all_five_fail = Fraction(n - len(good), n) ** 5
    chances = dict.fromkeys(hand, all_five_fail / n)
    for c in good:
        chances[c] += (1 - all_five_fail) / len(good)
    return chances


def _if_discard(hand: Sequence[int]) -> int:
    """Rule 2."""
    for c in DISCARDS:
        if c in hand:
            return c
    return _suits_by_length(hand)[0][-1]


def _if_spades(following: Sequence[int], on_table: Sequence[int]) -> int:
    """Rule 4, two or more spades held."""
    if PIG in following and (SK in on_table or SA in on_table):
        return PIG
    if len(on_table) == 3 and PIG not in on_table:
        return [c for c in following if c != PIG][-1]
    m = next((c for c in (SA, SK) if c in on_table), PIG)
    return ([c for c in following if c < m] or following)[-1]


def _if_clubs(following: Sequence[int], on_table: Sequence[int]) -> int:
    """Rule 5, two or more clubs held."""
    high = [c for c in cards("CA CK CQ CJ") if c in on_table]
    if DOUBLER in following and high:
        return DOUBLER
    if len(on_table) == 3 and DOUBLER not in on_table:
        return [c for c in following if c != DOUBLER][-1]
    m = high[0] if high else DOUBLER
    return ([c for c in following if c < m] or following)[-1]


def _if_diamonds(following: Sequence[int], on_table: Sequence[int]) -> int:
    """Rule 6, two or more diamonds held."""
    if len(on_table) == 3 and SHEEP in following and not set(cards("DA DK DQ")) & set(on_table):
        return SHEEP
    return following[-2] if following[-1] == SHEEP else following[-1]


# --------------------------------------------------------------------------------------------- Mr. Greed

N_WORLDS = 20
SPECIAL = frozenset({PIG, SHEEP, DOUBLER})

# opponents.md, constants: B(c) by rank 2..A.
_BURDEN = [0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]
_BURDEN_HEARTS = [0, 0, 1, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0]
BURDEN = {c: (_BURDEN_HEARTS if suit(c) == HEART_SUIT else _BURDEN)[rank(c)] for c in range(52)}
PIG_RELIEF = {SA: 50, SK: 30}
SHEEP_RELIEF = {parse("DA"): -30, parse("DK"): -20, parse("DQ"): -10}
DOUBLER_RELIEF_TENTHS = {parse("CA"): 4, parse("CK"): 3, parse("CQ"): 2, parse("CJ"): 1}


@dataclass(frozen=True)
class GreedState:
    """opponents.md, state it uses, at one root decision."""

    root: int
    leader: int
    raw: tuple[int, ...]
    has_doubler: tuple[bool, ...]
    to_come: int  # R, points still to come per seat
    gone: frozenset[int]  # special cards captured or on the table


def greed_state(seat: int, tricks: Tricks, table: Sequence[int]) -> GreedState:
    """Read raw_i, D_i, R and the gone flags off what has been played."""
    captured: list[set[int]] = [set(), set(), set(), set()]
    for leader, *played in tricks:
        captured[(leader + winning_position(played)) % 4] |= set(played)
    raw = tuple(sum(POINTS.get(c, 0) for c in pile) for pile in captured)
    return GreedState(
        root=seat,
        leader=table[0],
        raw=raw,
        has_doubler=tuple(DOUBLER in pile for pile in captured),
        to_come=(-200 - sum(raw)) // 4,
        gone=SPECIAL & set(table[1:]).union(*captured),
    )


def trick_value(state: GreedState, trick: Sequence[int]) -> int:
    """T of a completed trick (opponents.md, value of a completed trick)."""
    position = winning_position(trick)
    winner = (state.leader + position) % 4
    g = sum(POINTS.get(c, 0) for c in trick)
    if state.has_doubler[winner]:
        g = 2 * g
    elif DOUBLER in trick:
        g = 2 * g + state.raw[winner] + state.to_come
    return g if position in (1, 3) else -g


def relief(state: GreedState, card: int, gone: Iterable[int]) -> int:
    """Relief of getting rid of `card`, given the gone flags (opponents.md, relief)."""
    value = BURDEN[card]
    if PIG not in gone:
        value += PIG_RELIEF.get(card, 0)
    if SHEEP not in gone:
        value += SHEEP_RELIEF.get(card, 0)
    if DOUBLER not in gone:
        tenths = -DOUBLER_RELIEF_TENTHS.get(card, 0) * (state.to_come + state.raw[state.root])
        value += abs(tenths) // 10 * (1 if tenths > 0 else -1)  # trunc rounds toward zero
    return value


def play_out(state: GreedState, trick: Sequence[int], world: World, gone: frozenset[int]) -> int:
    """T after the replies of the players still to come (opponents.md, replies inside the trick)."""
    position = len(trick)
    if position == 4:
        return trick_value(state, trick)
    hand = world[(state.leader + position) % 4]
    gone = gone | (SPECIAL & set(hand))
    sign = 1 if position in (1, 3) else -1
    best_value, best_t = None, 0
    for card in legal_cards(hand, suit(trick[0])):
        t = play_out(state, [*trick, card], world, gone)
        value = sign * t + relief(state, card, gone)
        if best_value is None or value > best_value:  # strictly: ties go to the first card
            best_value, best_t = value, t
    return best_t


def greed_world_values(
    seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int], world: World
) -> dict[int, int]:
    """The part of each card's value that depends on the world: T or -T after the replies."""
    state = greed_state(seat, tricks, table)
    sign = 1 if len(table) - 1 in (1, 3) else -1
    return {c: sign * play_out(state, [*table[1:], c], world, state.gone) for c in legal(hand, table)}


def lead_bonus(own: int, others: int, n_worlds: int) -> Fraction:
    """trunc(30 N (a - n)) / N with n = own, a = others / 3 (opponents.md, root decision, first three tricks).

    In exact arithmetic 30 N (a - n) is an integer and trunc does nothing. The recorded values show that the
    authors computed (30 (a - n)) N in binary64, which for some (own, others) falls 1 short, towards zero.
    """
    return Fraction(int(30 * (others / 3 - own) * n_worlds), n_worlds)


def greed_offsets(
    seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int], n_worlds: int = N_WORLDS
) -> dict[int, Fraction]:
    """The part of each card's value that is the same in every world: relief and the bonus for leads."""
    state = greed_state(seat, tricks, table)
    gone = state.gone | (SPECIAL & set(hand))
    offsets = {c: Fraction(relief(state, c, gone)) for c in legal(hand, table)}
    if len(table) == 1 and len(tricks) < 3:
        played = [c for _, *trick in tricks for c in trick]
        for c in offsets:
            own = sum(suit(other) == suit(c) for other in hand)
            others = 13 - sum(suit(other) == suit(c) for other in played) - own
            offsets[c] += lead_bonus(own, others, n_worlds)
    return offsets


def greed_values(
    seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int], worlds: Iterable[World] = ()
) -> dict[int, float]:
    """Value of each legal card as the mean over `worlds` (seat -> cards); fourth to play needs none."""
    drawn: list[World] = [{}] if len(table) == 4 else list(worlds)  # fourth: nobody is left to reply
    totals = dict.fromkeys(legal(hand, table), 0)
    for world in drawn:
        for c, t in greed_world_values(seat, hand, tricks, table, world).items():
            totals[c] += t
    offsets = greed_offsets(seat, hand, tricks, table, len(drawn))
    return {c: float(Fraction(totals[c], len(drawn)) + offsets[c]) for c in totals}


def hidden(
    seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int]
) -> tuple[list[int], list[int], list[int], list[set[int]]]:
    """What a seat knows of the others (scrofazero.md 6.1): seats, unseen cards, needs and voids of each."""
    seats = [(seat + i) % 4 for i in (1, 2, 3)]
    seen = set(hand)
    voids: list[set[int]] = [set(), set(), set(), set()]
    for leader, *played in [*tricks, table]:
        for i, c in enumerate(played):
            seen.add(c)
            if suit(c) != suit(played[0]):
                voids[(leader + i) % 4].add(suit(played[0]))
    # A seat that has played to the running trick holds one card less than the mover.
    on_table = [(table[0] + i) % 4 for i in range(len(table) - 1)]
    needs = [len(hand) - (s in on_table) for s in seats]
    unseen = [c for c in range(52) if c not in seen]
    return seats, unseen, needs, [voids[s] for s in seats]


def uniform_worlds(
    seat: int, hand: Sequence[int], tricks: Tricks, table: Sequence[int], rng: random.Random, number: int
) -> list[dict[int, list[int]]]:
    """Exactly uniform worlds as seat -> sorted cards."""
    seats, unseen, needs, voids = hidden(seat, hand, tricks, table)
    return [
        {s: sorted(held) for s, held in zip(seats, world, strict=True)}
        for world in sample_worlds(rng, number, unseen, needs, voids)
    ]


def greed(
    seat: int,
    hand: Sequence[int],
    tricks: Tricks,
    table: Sequence[int],
    rng: random.Random,
    n_worlds: int = N_WORLDS,
) -> int:
    """Mr. Greed's card (opponents.md, root decision)."""
    choices = legal(hand, table)
    if len(choices) == 1:
        return choices[0]
    if len(table) == 4:
        values = greed_values(seat, hand, tricks, table)
        return max(choices, key=lambda c: values[c])  # max keeps the first of the ties
    values = greed_values(seat, hand, tricks, table, uniform_worlds(seat, hand, tricks, table, rng, n_worlds))
    best = max(values.values())
    return rng.choice([c for c in choices if values[c] == best])
