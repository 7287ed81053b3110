"""The rules of Gongzhu in plain Python (game.md), written to be obviously right rather than fast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SUITS = "SHDC"
RANKS = ["2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A"]
SEATS = 4


def suit(card: int) -> int:
    """0 S, 1 H, 2 D, 3 C (game.md, cards and play)."""
    return card // 13


def rank(card: int) -> int:
    """0 for the two up to 12 for the ace."""
    return card % 13


def name(card: int) -> str:
    """Card id to its name, suit first, ten written `10`."""
    if not 0 <= card < 52:
        raise ValueError(f"no card has id {card}")
    return SUITS[suit(card)] + RANKS[rank(card)]


def parse(text: str) -> int:
    """Name to card id; the ten may be `T` or `10`, either case (game.md, records)."""
    word = text.strip().upper()
    face = "10" if word[1:] == "T" else word[1:]
    if word[:1] not in tuple(SUITS) or face not in RANKS:
        raise ValueError(f"not a card: {text!r}")
    return 13 * SUITS.index(word[0]) + RANKS.index(face)


def cards(text: str) -> list[int]:
    """Parse names separated by blanks."""
    return [parse(word) for word in text.split()]


# ------------------------------------------------------------------------------------------------ points

HEARTS = frozenset(range(13, 26))
PIG, SHEEP, DOUBLER = parse("SQ"), parse("DJ"), parse("C10")

# game.md, points. The doubler has no points of its own; it is handled in `score`.
POINTS: dict[int, int] = {
    **{parse(f"H{r}"): 0 for r in (2, 3, 4)},
    **{parse(f"H{r}"): -10 for r in (5, 6, 7, 8, 9, 10)},
    parse("HJ"): -20,
    parse("HQ"): -30,
    parse("HK"): -40,
    parse("HA"): -50,
    PIG: -100,
    SHEEP: 100,
}

# Variants of the point table (game.md, variants people play).
POINTS_H4: dict[int, int] = {**POINTS, parse("H4"): -10}
POINTS_PIG_200: dict[int, int] = {**POINTS, PIG: -200}


def score(
    captured: Iterable[int],
    *,
    points: Mapping[int, int] | None = None,
    doubler: bool = True,
    lone_doubler: int = 50,
    all_hearts: int = 200,
    hearts_and_pig: int | None = None,
) -> int:
    """Points of one seat for the cards it captured; the defaults are the paper's rules (game.md, points).

    `all_hearts`: what the thirteen hearts count together once one seat has them all.
    `hearts_and_pig`: if given, what the thirteen hearts and the pig count together (variant: +300).
    `doubler=False`: C10 is a plain card, neither doubling nor worth anything.
    """
    table = POINTS if points is None else points
    pile = set(captured)
    scoring = pile & (HEARTS | {PIG, SHEEP, DOUBLER})
    if doubler and scoring == {DOUBLER}:
        return lone_doubler

    hearts = all_hearts if pile >= HEARTS else sum(table[c] for c in pile & HEARTS)
    pig = table[PIG] if PIG in pile else 0
    sheep = table[SHEEP] if SHEEP in pile else 0
    if hearts_and_pig is not None and pile >= HEARTS | {PIG}:
        hearts, pig = hearts_and_pig, 0
    total = hearts + pig + sheep
    return 2 * total if doubler and DOUBLER in pile else total


def hearts_scores(captured: Sequence[Iterable[int]]) -> list[int]:
    """The game of Hearts as negative points, each seat for itself: heart -1, SQ -13.

    Shooting the moon (one seat has all hearts and SQ): that seat 0, every other seat -26.
    """
    piles = [set(pile) for pile in captured]
    moon = HEARTS | {PIG}
    for shooter, pile in enumerate(piles):
        if pile >= moon:
            return [0 if seat == shooter else -26 for seat in range(len(piles))]
    return [-len(pile & HEARTS) - (13 if PIG in pile else 0) for pile in piles]


# -------------------------------------------------------------------------------------------------- play


def legal_cards(hand: Iterable[int], led: int | None) -> list[int]:
    """Cards that may be played from `hand`, sorted; `led` is the led suit, None when leading."""
    hand = sorted(hand)
    following = [c for c in hand if suit(c) == led]
    return following or hand


def winning_position(trick: Sequence[int]) -> int:
    """Position (0 = leader) of the highest card of the led suit."""
    return max((i for i, c in enumerate(trick) if suit(c) == suit(trick[0])), key=lambda i: trick[i])


class Game:
    """One deal, played card by card (game.md, cards and play)."""

    def __init__(self, hands: Sequence[Iterable[int]], leader: int) -> None:
        self.hands: list[list[int]] = [sorted(hand) for hand in hands]
        held = [c for hand in self.hands for c in hand]
        if len(self.hands) != SEATS or len(held) != len(set(held)) or not set(held) <= set(range(52)):
            raise ValueError("need four hands of different cards")
        if len({len(hand) for hand in self.hands}) != 1:
            raise ValueError("the four hands must be of the same size")
        if leader not in range(SEATS):
            raise ValueError(f"no seat {leader}")
        self.leader = leader
        self.table: list[int] = []
        self.tricks: list[tuple[int, list[int]]] = []
        self.captured: list[set[int]] = [set() for _ in range(SEATS)]
        self.ply = 0

    @property
    def mover(self) -> int:
        """Seat to play."""
        return (self.leader + len(self.table)) % SEATS

    @property
    def over(self) -> bool:
        """Nobody holds a card any more."""
        return not any(self.hands)

    def legal(self) -> list[int]:
        """Legal cards of the mover, sorted; empty when the deal is over."""
        return legal_cards(self.hands[self.mover], suit(self.table[0]) if self.table else None)

    def play(self, card: int) -> None:
        """Play `card` for the mover; the fourth card ends the trick and its winner leads next."""
        mover = self.mover
        if card not in self.hands[mover]:
            raise ValueError(f"ply {self.ply}: seat {mover} does not hold {card}")
        if card not in self.legal():
            raise ValueError(f"ply {self.ply}: seat {mover} must follow suit, not play {name(card)}")
        self.hands[mover].remove(card)
        self.table.append(card)
        self.ply += 1
        if len(self.table) == SEATS:
            winner = (self.leader + winning_position(self.table)) % SEATS
            self.captured[winner] |= set(self.table)
            self.tricks.append((self.leader, self.table))
            self.leader, self.table = winner, []

    def scores(self) -> list[int]:
        """Score of each seat for what it has captured so far."""
        return [score(pile) for pile in self.captured]

    def margin(self) -> int:
        """Team {0, 2} minus team {1, 3}."""
        s = self.scores()
        return s[0] + s[2] - s[1] - s[3]


def replay(record: Mapping[str, Any]) -> Game:
    """Replay a record (game.md, records); ValueError for an illegal play, a wrong leader or wrong scores."""
    game = Game([cards(hand) for hand in record["deal"]], record["leader"])
    for leader, *played in record["tricks"]:
        if game.table or game.leader != leader:
            raise ValueError(f"ply {game.ply}: seat {leader} does not lead this trick")
        for word in played:
            game.play(parse(word))
    if "scores" in record and list(record["scores"]) != game.scores():
        raise ValueError(f"ply {game.ply}: scores {record['scores']} but the play gives {game.scores()}")
    return game
