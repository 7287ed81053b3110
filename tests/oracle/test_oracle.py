"""Tests of the oracle itself: exact cases of the rules, world counts, recorded games and decisions."""

from __future__ import annotations

import json
import random
from collections import Counter
from fractions import Fraction
from math import factorial, sqrt
from pathlib import Path
from typing import Any

import pytest

from . import gongzhu as gz
from . import opponents as op
from . import worlds as wd
from .cases import EXACT_CASES, HEARTS

# ----------------------------------------------------------------------------------- rules (game.md)


def test_names() -> None:
    assert [gz.parse(w) for w in ("S2", "SQ", "H2", "DJ", "C10", "CA")] == [0, 10, 13, 35, 47, 51]
    assert [gz.parse(gz.name(c)) for c in range(52)] == list(range(52))
    assert gz.parse("ct") == gz.parse("cT") == gz.parse("c10") == gz.parse("C10") == 47
    for word in ("", "S", "S1", "X2", "S11", "SQQ", "S 2"):
        with pytest.raises(ValueError, match="not a card"):
            gz.parse(word)


@pytest.mark.parametrize(("captured", "points"), EXACT_CASES)
def test_exact_cases(captured: str, points: int) -> None:
    """game.md, exact cases; cards without a score in the pile change nothing."""
    pile = gz.cards(captured)
    plain = [c for c in range(52) if c not in gz.HEARTS | {gz.PIG, gz.SHEEP, gz.DOUBLER}]
    assert len(plain) == 36
    assert gz.score(pile) == points
    assert gz.score(pile + plain) == points


def test_point_table() -> None:
    assert sum(gz.POINTS[c] for c in gz.HEARTS) == -200
    assert sum(gz.POINTS.values()) == -200


def test_variants() -> None:
    """game.md, variants people play."""
    hearts = gz.cards(HEARTS)
    assert gz.score(gz.cards("H4 H5"), points=gz.POINTS_H4) == -20
    assert gz.score(gz.cards("SQ C10"), points=gz.POINTS_PIG_200) == -400
    assert gz.score([*hearts, gz.PIG], hearts_and_pig=300) == 300
    assert gz.score(hearts, hearts_and_pig=300) == 200
    # All sixteen = 800 follows from +300 for hearts with the pig, the sheep and the doubler.
    assert gz.score([*hearts, gz.PIG, gz.SHEEP, gz.DOUBLER], hearts_and_pig=300) == 800
    assert gz.score([gz.DOUBLER], doubler=False) == 0
    assert gz.score(gz.cards("SQ C10"), doubler=False) == -100
    assert gz.score([gz.DOUBLER], lone_doubler=0) == 0


def test_hearts_scores() -> None:
    hearts = gz.cards(HEARTS)
    assert gz.hearts_scores([set(hearts[:3]), {gz.PIG}, set(), set(hearts[3:])]) == [-3, -13, 0, -10]
    assert gz.hearts_scores([set(), {gz.PIG, *hearts}, set(), set()]) == [-26, 0, -26, -26]
    assert gz.hearts_scores([{gz.PIG}, set(hearts), set(), set()]) == [-13, -13, 0, 0]


def test_play() -> None:
    game = gz.Game([gz.cards(h) for h in ("S2 H5", "S3 HA", "C10 CA", "SK S4")], 3)
    assert game.mover == 3
    assert game.legal() == gz.cards("S4 SK")
    game.play(gz.parse("S4"))
    assert game.mover == 0
    assert game.legal() == gz.cards("S2")
    with pytest.raises(ValueError, match="follow"):
        game.play(gz.parse("H5"))
    with pytest.raises(ValueError, match="hold"):
        game.play(gz.parse("S3"))
    for word in ("S2", "S3", "CA"):  # the club ace does not win a trick of spades
        game.play(gz.parse(word))
    assert game.leader == game.mover == 3
    assert not game.table
    assert game.ply == 4
    assert game.tricks == [(3, gz.cards("S4 S2 S3 CA"))]
    for word in ("SK", "H5", "HA", "C10"):
        game.play(gz.parse(word))
    assert game.over
    assert game.legal() == []
    assert game.scores() == [0, 0, 0, -120]
    assert game.margin() == 120


def test_random_games_end() -> None:
    rng = random.Random(1)
    for _ in range(50):
        deck = rng.sample(range(52), 52)
        game = gz.Game([deck[13 * s : 13 * s + 13] for s in range(4)], rng.randrange(4))
        while not game.over:
            game.play(op.mr_random(game.mover, game.hands[game.mover], [], [game.leader, *game.table], rng))
        assert game.ply == 52
        assert set().union(*game.captured) == set(range(52))


def test_arena_games(shared_data: Path) -> None:
    lines = (shared_data / "arena_games.jsonl").read_text().splitlines()
    assert len(lines) == 27
    for line in lines:
        assert gz.replay(json.loads(line)).over


def test_replay_refuses_a_changed_record(shared_data: Path) -> None:
    record = json.loads((shared_data / "arena_games.jsonl").read_text().splitlines()[0])
    with pytest.raises(ValueError, match="scores"):
        gz.replay({**record, "scores": [1, 0, 0, 0]})
    with pytest.raises(ValueError, match="lead"):
        gz.replay({**record, "leader": (record["leader"] + 1) % 4})


# ----------------------------------------------------------------------------- worlds (scrofazero.md 6.2)


def test_six_cards_no_voids() -> None:
    unseen, needs = gz.cards("S2 S3 S4 H2 H3 H4"), [2, 2, 2]
    all_worlds = list(wd.enumerate_worlds(unseen, needs, [set()] * 3))
    assert len(set(all_worlds)) == len(all_worlds) == 90
    one_spade_each = sum(all(sum(c < 13 for c in hand) == 1 for hand in w) for w in all_worlds)
    assert Fraction(one_spade_each, 90) == Fraction(36, 90)


def test_six_cards_with_voids() -> None:
    """Seats 1, 2, 3 hidden; seat 1 void in spades, seat 2 in hearts."""
    unseen, needs = gz.cards("S2 S3 H2 H3 D2 D3"), [2, 2, 2]
    voids: list[set[int]] = [{0}, {1}, set()]
    all_worlds = list(wd.enumerate_worlds(unseen, needs, voids))
    s2, d2 = gz.cards("S2 D2")
    assert len(set(all_worlds)) == len(all_worlds) == wd.count_worlds(unseen, needs, voids) == 19
    assert sum(s2 in w[1] for w in all_worlds) == 12
    assert sum(d2 in w[0] for w in all_worlds) == 7
    assert sum(d2 in w[2] for w in all_worlds) == 5


def test_counts_without_voids() -> None:
    for k, count in ((1, 6), (2, 90), (3, 1680), (4, 34650)):
        assert wd.count_worlds(range(20, 20 + 3 * k), [k] * 3, [set()] * 3) == count
        if k < 4:
            assert sum(1 for _ in wd.enumerate_worlds(range(20, 20 + 3 * k), [k] * 3, [set()] * 3)) == count
    assert wd.count_worlds(range(39), [13] * 3, [set()] * 3) == factorial(39) // factorial(13) ** 3


def small_ending(rng: random.Random) -> tuple[list[int], list[int], list[set[int]]]:
    """Unseen cards, needs and voids of a small ending; the voids may leave no world at all."""
    needs = [rng.randint(1, 3) for _ in range(3)]
    unseen = rng.sample(range(52), sum(needs))
    voids = [{s for s in range(4) if rng.random() < 0.25} for _ in range(3)]
    return unseen, needs, voids


def test_count_is_enumeration() -> None:
    rng = random.Random(2)
    empty = 0
    for _ in range(150):
        unseen, needs, voids = small_ending(rng)
        all_worlds = list(wd.enumerate_worlds(unseen, needs, voids))
        assert len(set(all_worlds)) == len(all_worlds) == wd.count_worlds(unseen, needs, voids)
        for world in all_worlds:
            assert [len(hand) for hand in world] == needs
            assert frozenset().union(*world) == set(unseen)
            assert not any(c // 13 in void for hand, void in zip(world, voids, strict=True) for c in hand)
        if not all_worlds:
            empty += 1
            with pytest.raises(ValueError, match="no world"):
                wd.sample_world(rng, unseen, needs, voids)
    assert 0 < empty < 100


def chi_square(counts: Counter[Any], outcomes: int, draws: int) -> float:
    """Pearson's statistic against equal chances, as a z-score."""
    expected = draws / outcomes
    statistic = sum(n * n for n in counts.values()) / expected - draws
    return (statistic - (outcomes - 1)) / sqrt(2 * (outcomes - 1))


def test_sampling_is_uniform() -> None:
    rng = random.Random(3)
    voids: list[set[int]] = [{0}, {1}, set()]
    unseen = gz.cards("S2 S3 H2 H3 D2 D3")
    draws = Counter(wd.sample_world(rng, unseen, [2, 2, 2], voids) for _ in range(4000))
    assert len(draws) == 19
    assert abs(chi_square(draws, 19, 4000)) < 4
    # The needs of a seat that has already played to the trick are smaller, and a suit may be gone.
    unseen = gz.cards("S2 S3 SQ H2 C3 C10")
    needs, voids = [1, 3, 2], [set(), {3}, set()]
    outcomes = wd.count_worlds(unseen, needs, voids)
    draws = Counter(wd.sample_worlds(rng, 8000, unseen, needs, voids))
    assert len(draws) == outcomes
    assert abs(chi_square(draws, outcomes, 8000)) < 4


# ------------------------------------------------------------------------------ opponents (opponents.md)

N_SAMPLES = {1: 60, 2: 120, 3: 120}  # worlds of our own by length of `table`: leading costs the most

Position = tuple[int, list[int], list[list[int]], list[int]]


def position(case: dict[str, Any]) -> Position:
    def trick(words: list[Any]) -> list[int]:
        return [words[0], *map(gz.parse, words[1:])]

    hand = [gz.parse(word) for word in case["hand"]]
    return case["seat"], hand, [trick(t) for t in case["tricks"]], trick(case["table"])


def test_if_lead_probabilities() -> None:
    """Rule 1 without a safe suit: five draws, then any card of the hand."""
    hand = gz.cards("S2 SA HA D2 DJ CA")
    chances = op.if_distribution(0, hand, [], [0])
    assert sum(chances.values()) == 1
    fail = Fraction(4, 6) ** 5
    assert chances[gz.parse("SA")] == chances[gz.parse("CA")] == fail / 6
    assert chances[gz.parse("S2")] == chances[gz.parse("D2")] == fail / 6 + (1 - fail) / 2


@pytest.mark.parametrize(
    ("hand", "table", "expected"),
    [
        ("S2 S3 H2 D2 D3 CK", "", "H2"),  # hearts shortest and safe; clubs as short, but later
        ("S2 SQ SK SA D2 D3 CK", "", "D3"),  # clubs and spades unsafe
        ("S2 S3 D7 DA C10 CA", "H2", "C10"),  # void: first of the list
        ("S2 S3 D7 DA DJ C9", "H2", "C9"),  # void, nothing of the list: highest of the shortest
        ("S2 S3 D7 DA C8 C9", "H2", "S3"),  # ties S, H, D, C
        ("S2 SQ SA", "S3 SK", "SQ"),
        ("S2 SQ SA", "S3 S4 S5", "SA"),  # last, no pig on the table
        ("S2 SQ", "S3 S4 S5", "S2"),
        ("S2 SJ SA", "S3 SQ", "SJ"),  # m = SQ
        ("S2 SQ SA", "S3", "S2"),
        ("SK SA", "S3", "SA"),  # none below
        ("S2 SJ SK", "SA SQ S3", "SK"),
        ("C2 C10 CA", "C3 CJ", "C10"),
        ("C2 C10 CA", "C3 C4 C5", "CA"),
        ("C2 C9 CQ CA", "C3 CK", "CQ"),  # m = CK
        ("C2 C9 CQ", "C3", "C9"),  # m = C10
        ("D2 DJ DA", "D3 D4 D5", "DJ"),
        ("D2 DJ", "D3 D4 DK", "D2"),  # the highest is DJ: the second highest
        ("D2 D9 DJ", "D3", "D9"),
        ("D2 DJ DA", "D3 D4 DK", "DA"),
        ("H2 H9 HA", "H3 H10", "H9"),
        ("H9 HA", "H3 H4", "H9 HA"),  # none below: random
    ],
)
def test_if_rules(hand: str, table: str, expected: str) -> None:
    held, led = gz.cards(hand), gz.cards(table)
    leader = (0 - len(led)) % 4
    assert op.if_choices(0, held, [], [leader, *led]) == set(gz.cards(expected))
    assert op.mr_if(0, held, [], [leader, *led], random.Random(4)) in gz.cards(expected)


def test_if_recorded(recorded_cases: dict[str, Any]) -> None:
    cases = recorded_cases["mr_if"]
    assert len(cases) == 1200
    for case in cases:
        assert {gz.parse(word) for word in case["choices"]} <= op.if_choices(*position(case)), case


def test_whole_games() -> None:
    """Every player plays legal cards to the end; voids and hand sizes always allow the true hands."""
    rng = random.Random(7)
    for players in ((op.greed, op.mr_if) * 2, (op.mr_if, op.mr_random) * 2):
        deck = rng.sample(range(52), 52)
        game = gz.Game([deck[13 * s : 13 * s + 13] for s in range(4)], rng.randrange(4))
        while not game.over:
            seat = game.mover
            known = (
                seat,
                game.hands[seat],
                [[leader, *trick] for leader, trick in game.tricks],
                [game.leader, *game.table],
            )
            seats, unseen, needs, voids = op.hidden(*known)
            for s, need, void in zip(seats, needs, voids, strict=True):
                assert len(game.hands[s]) == need
                assert set(game.hands[s]) <= {c for c in unseen if gz.suit(c) not in void}
            game.play(players[seat](*known, rng))


def test_greed_by_hand() -> None:
    """Second to play, C10 led, every other hand known: 2g + raw + R by the winner, then relief."""
    tricks = [[0, *gz.cards("S2 S3 S4 DJ")]]  # seat 2 wins the sheep with S4
    hand, table = gz.cards("C2 CA"), [1, gz.parse("C10")]
    world = {3: gz.cards("C3 H5"), 0: gz.cards("C4 H6")}
    state = op.greed_state(2, tricks, table)
    assert state.raw == (0, 0, 100, 0)
    assert state.to_come == -75
    assert state.gone == {gz.SHEEP, gz.DOUBLER}
    # C2: seat 1 wins, T = -(0 + 0 - 75). CA: seat 2 wins, T = 0 + 100 - 75; relief of CA is its burden 11.
    assert op.greed_values(2, hand, tricks, table, [world]) == {gz.parse("C2"): 75, gz.parse("CA"): 25 + 11}


def test_lead_bonus() -> None:
    """binary64 and trunc take 1/N off towards zero in nine of the (own, others) pairs at N = 20."""
    short = set()
    for own in range(1, 14):
        for others in range(14 - own):
            exact = Fraction(30 * others, 3) - 30 * own
            bonus = op.lead_bonus(own, others, 20)
            assert abs(bonus - exact) in (0, Fraction(1, 20))
            assert abs(bonus) <= abs(exact)
            if bonus != exact:
                short.add((own, others))
    assert short == {(1, 4), (1, 8), (2, 5), (2, 8), (2, 11), (3, 7), (4, 5), (4, 7), (5, 5)}


def test_lead_bonus_recorded(recorded_cases: dict[str, Any]) -> None:
    """The last digit of recorded values shows the truncation where every T is a multiple of ten.

    That is so when the leader holds C10 but leads another card, or C10 has been captured.
    """
    seen = 0
    for case in recorded_cases["greed"]:
        seat, hand, tricks, table = position(case)
        captured = {c for _, *trick in tricks for c in trick}
        if len(table) > 1 or len(tricks) >= 3 or gz.DOUBLER not in captured | set(hand):
            continue
        n = case["samples"]
        offsets = op.greed_offsets(seat, hand, tricks, table, n)
        for word, value in case["values"].items():
            if word != "C10":
                seen += 1
                assert (round(n * value) - offsets[gz.parse(word)] * n) % 10 == 0, (case, word)
    assert seen > 50


def test_greed_fourth_recorded(recorded_cases: dict[str, Any]) -> None:
    """Fourth to play nothing is sampled: the recorded values are exact."""
    cases = [c for c in recorded_cases["greed"] if len(c["table"]) == 4]
    assert len(cases) == 86
    rng = random.Random(5)
    for case in cases:
        recorded = {gz.parse(word): value for word, value in case["values"].items()}
        assert op.greed_values(*position(case)) == recorded, case
        best = max(recorded.values())
        assert op.greed(*position(case), rng) == next(c for c in recorded if recorded[c] == best)


def test_greed_whole_world_sets_recorded(recorded_cases: dict[str, Any]) -> None:
    """With shown voids and few worlds, some records list every world once but still divide by `samples`.

    Those cases pin the values of seats that are not fourth exactly (to the three digits recorded).
    """
    exact = 0
    for case in recorded_cases["greed"]:
        seat, hand, tricks, table = position(case)
        seats, unseen, needs, voids = op.hidden(seat, hand, tricks, table)
        count = wd.count_worlds(unseen, needs, voids)
        if len(table) == 4 or count >= min(100, case["samples"]):
            continue
        dealt = [
            {s: sorted(held) for s, held in zip(seats, world, strict=True)}
            for world in wd.enumerate_worlds(unseen, needs, voids)
        ]
        values = op.greed_values(seat, hand, tricks, table, dealt)
        ratio = count / case["samples"]
        exact += all(abs(values[gz.parse(w)] * ratio - v) < 6e-4 for w, v in case["values"].items())
    assert exact == 14


def test_greed_sampled_recorded(recorded_cases: dict[str, Any]) -> None:
    """No shown void: the values differ from ours by sampling error only."""
    rng = random.Random(6)
    zs: list[float] = []
    same_best = cases = 0
    for case in recorded_cases["greed"]:
        seat, hand, tricks, table = position(case)
        if len(table) == 4 or case["void_shown"]:
            continue
        n = N_SAMPLES[len(table)]
        dealt = op.uniform_worlds(seat, hand, tricks, table, rng, n)
        rows = [op.greed_world_values(seat, hand, tricks, table, world) for world in dealt]
        offsets = op.greed_offsets(seat, hand, tricks, table, n)
        recorded = {gz.parse(word): value for word, value in case["values"].items()}
        means = {}
        for c, value in recorded.items():
            mean = sum(row[c] for row in rows) / n
            variance = sum((row[c] - mean) ** 2 for row in rows) / (n - 1)
            means[c] = mean + float(offsets[c])
            # A rare discard may be absent from our draws altogether; allow for one of -40 or so.
            variance = max(variance, 40**2 / n)
            zs.append((value - means[c]) / sqrt(variance * (1 / n + 1 / case["samples"])))
        cases += 1
        same_best += max(recorded, key=lambda c: recorded[c]) == max(means, key=lambda c: means[c])
    assert cases == 162
    # Few worlds underestimate the variance of rare discards, so the bounds are looser than for a normal.
    assert sqrt(sum(z * z for z in zs) / len(zs)) < 1.35
    assert sum(abs(z) > 3 for z in zs) < 0.04 * len(zs)
    assert same_best > 0.85 * cases
