"""The last three tricks against plain-Python minimax."""

from collections.abc import Callable

import jax
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import endgame
from tests.conftest import at, truth_at
from tests.oracle.minimax import after, minimax

GAMES = 12


@pytest.fixture(scope="module")
def solve() -> Callable[[gz.State], jax.Array]:
    return jax.jit(jax.vmap(endgame.card_values))


@pytest.mark.parametrize(("ply", "games"), [(40, 6), (41, 6), (43, 6), (46, GAMES), (51, 4)])
def test_values_are_those_of_minimax(
    random_games: tuple[gz.State, gz.State], ply: int, games: int, solve: Callable[[gz.State], jax.Array]
) -> None:
    found = np.asarray(solve(at(random_games[1], slice(0, GAMES), ply)))
    for i in range(games):
        truth = truth_at(random_games[1], i, ply)
        values = {card: minimax(after(truth, card), truth.mover % 2) for card in truth.legal()}
        assert {int(c): int(found[i, c]) for c in np.flatnonzero(np.isfinite(found[i]))} == values
