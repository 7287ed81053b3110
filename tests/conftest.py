"""Fixtures shared by all tests."""

import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, game

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of standard deals and recorded decisions, which is not part of a user's clone."""
    folder = Path(os.environ.get("GONGZHU_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "standard_deals_1024.tsv").exists():
        pytest.skip(f"the shared data is not there: {folder} (set GONGZHU_DATA to its folder)")
    return folder


@pytest.fixture(scope="session")
def recorded_cases(shared_data: Path) -> dict[str, Any]:
    """Decisions of the original reference players, by player."""
    return json.loads((shared_data / "opponent_cases.json").read_text())


def play_random(key: jax.Array, state: gz.State, plies: int = 52) -> tuple[gz.State, gz.State]:
    """Random legal play of one game; the last State, and the States before each ply ``[plies, …]``."""

    def body(state: gz.State, key: jax.Array) -> tuple[gz.State, gz.State]:
        return gz.step(state, cards.random_card(key, game.legal_masks(state))), state

    return jax.lax.scan(body, state, jax.random.split(key, plies))


@pytest.fixture(scope="session")
def random_games() -> tuple[gz.State, gz.State]:
    """256 random games: the ended States ``[256]`` and the States before each ply ``[256, 52]``."""
    keys = jax.random.split(jax.random.key(7), 256)
    return jax.jit(jax.vmap(lambda key: play_random(key, gz.deal(key))))(keys)


def at(tree: gz.State, *index: int) -> gz.State:
    """One game of a batch."""
    return jax.tree.map(lambda x: x[index], tree)


def hands_of(state: gz.State) -> np.ndarray:
    """``bool[..., 4, 52]``, the cards still held."""
    return np.array(cards.to_bools(jnp.asarray(state.hands)))
