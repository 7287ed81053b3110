"""The actor's input, block by block, against positions read off the oracle's game in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, game, view_features
from tests.conftest import ROOT, at, truth_at
from tests.oracle import gongzhu as oracle


def flags(ids: list[int]) -> list[bool]:
    return [card in ids for card in range(52)]


def expected(truth: oracle.Game, plays: list[tuple[int, int]]) -> np.ndarray:
    """The input written out from the table in docs/features.md; plays: (seat, card) in order."""
    me = truth.mover
    seats = [(me + i) % 4 for i in range(4)]
    running = plays[len(plays) - len(plays) % 4 :]
    tricks = [plays[i : i + 4] for i in range(0, len(plays), 4)]
    scoring = [oracle.parse(f"H{rank}") for rank in cards.RANKS] + [
        oracle.parse(c) for c in ("SQ", "DJ", "CT")
    ]
    off_suit = [
        (seat, card, trick[0][1] // 13)
        for trick in tricks
        for seat, card in trick
        if card // 13 != trick[0][1] // 13
    ]
    found: list[bool] = [
        *flags(list(truth.hands[me])),
        *flags(truth.legal()),
        *flags([card for seat in seats[1:] for card in truth.hands[seat]]),
    ]
    for seat in seats[1:]:
        found += flags([card for s, card in running if s == seat])
    for seat in seats:
        found += flags([card for s, card in plays if s == seat])
    for seat in seats[1:]:
        found += flags([card for s, card, _ in off_suit if s == seat])
    for seat in seats:
        found += [card in truth.captured[seat] for card in scoring]
    for seat in seats[1:]:
        found += [any(s == seat and suit == k for s, _, suit in off_suit) for k in range(4)]
    winner = running[oracle.winning_position([card for _, card in running])][0] if running else None
    found += [winner == seat for seat in seats]
    found += [len(plays) // 4 == k for k in range(1, 13)]
    return np.array(found)


@pytest.mark.parametrize("which", [3, 77, 201])
def test_the_input_by_hand(random_games: tuple[gz.State, gz.State], which: int) -> None:
    encode = jax.jit(lambda s: view_features.encode(gz.view(s, game.mover(s))))
    for ply in range(52):
        state = at(random_games[1], which, ply)
        played = np.asarray(state.plays)[:ply].tolist()
        leaders = np.asarray(state.leaders)
        plays = [((int(leaders[i // 4]) + i % 4) % 4, card) for i, card in enumerate(played)]
        found = encode(state)
        assert found.dtype == jnp.bool_
        np.testing.assert_array_equal(found, expected(truth_at(random_games[1], which, ply), plays))


def test_the_documented_table_is_the_code_s() -> None:
    assert view_features.SIZE == 768
    text = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
    for block in view_features.BLOCKS:
        assert f"| {block.start} … {block.start + block.size - 1} | {block.size} | {block.holds} |" in text
