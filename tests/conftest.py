"""Fixtures shared by all tests."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # before JAX is imported; worker processes find it set
    _programs = tempfile.TemporaryDirectory(prefix="gongzhu-jax-programs-")  # removed when the tests end
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _programs.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from eval.duplicate import Summary
from gongzhu_jax import cards, game, models, networks
from gongzhu_jax.models import Model
from tests.oracle import gongzhu as oracle
from train.evaluation import Evaluation

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


SMALL = networks.FullyConnected(widths=(32, 32, 16), blocks=1)
"""A network that reads open hands."""
SMALL_ACTOR = networks.FullyConnected(widths=(32, 32, 16), blocks=1, reads="view", hands=True)
"""One that reads what a seat sees."""


def save_fresh(path: Path, network: nn.Module) -> Path:
    """An untrained network as a model file."""
    models.save(path, Model(network, networks.init(network, jax.random.key(0)), {}))
    return path


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small untrained network that reads open hands."""
    return save_fresh(tmp_path_factory.mktemp("models") / "small.model", SMALL)


@pytest.fixture(scope="session")
def small_actor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small untrained network that reads what a seat sees."""
    return save_fresh(tmp_path_factory.mktemp("models") / "actor.model", SMALL_ACTOR)


@pytest.fixture
def no_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations of a run are made up."""

    def evaluate(self: Evaluation, *params: object) -> dict[str, Summary]:
        return {name: Summary(4, 1.0, 1.0, 0, 0, 4) for name in ("random", "if", "greed")}

    monkeypatch.setattr(Evaluation, "__call__", evaluate)
    monkeypatch.setattr(Evaluation, "levels", evaluate)


@pytest.fixture(scope="session")
def random_games() -> tuple[gz.State, gz.State]:
    """256 random games: the ended States ``[256]`` and the States before each ply ``[256, 52]``."""
    keys = jax.random.split(jax.random.key(7), 256)
    return jax.jit(jax.vmap(lambda key: game.play_random(key, gz.deal(key))))(keys)


def at(tree: gz.State, *index: int) -> gz.State:
    """One game of a batch."""
    return jax.tree.map(lambda x: x[index], tree)


def hands_of(state: gz.State) -> np.ndarray:
    """``bool[..., 4, 52]``, the cards still held."""
    return np.array(cards.to_bools(jnp.asarray(state.hands)))


def truth_at(before: gz.State, i: int, ply: int) -> oracle.Game:
    """Game i before a ply, by the plain-Python rules; before: ``[games, 52]``, as of ``game.play_random``."""
    start = at(before, i, 0)
    truth = oracle.Game([np.flatnonzero(h).tolist() for h in hands_of(start)], int(start.leaders[0]))
    for card in np.asarray(at(before, i, ply).plays)[:ply].tolist():
        truth.play(card)
    return truth
