"""Expert iteration: what is learned, by its definition, and that learning moves the actor to what was searched."""

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import belief, features, game, models, networks, view_features
from gongzhu_jax.models import Model
from gongzhu_jax.players.deep import Explanation, Settings, from_model
from tests.conftest import SMALL_ACTOR, at
from train import distil, experience, logs, minibatches, policy_gradient

GAMES = 4
SETTINGS = Settings(simulations=6, proposals=2, belief="none", considered=3, horizon=52, solve=0)


@pytest.fixture(scope="module")
def params() -> dict:
    return networks.init(SMALL_ACTOR, jax.random.key(0))


@pytest.fixture(scope="module")
def played(params: dict) -> tuple[distil.Searched, gz.State]:
    player = from_model(Model(SMALL_ACTOR, params, {}), "deep", SETTINGS)
    keys = jax.random.split(jax.random.key(2), GAMES)
    return jax.device_get(jax.jit(lambda keys: distil.play_games(keys, player, 10.0, 10.0))(keys))


def test_what_is_learned_of_a_search() -> None:
    """The actor's odds times exp(gain · s² / (s² + error²) / temperature); a card without a gain keeps its odds."""
    policy = np.full((1, 52), -np.inf, np.float32)
    gain, error = policy.copy(), np.full((1, 52), np.nan, np.float32)
    policy[0, [3, 4, 9]] = np.log([0.5, 0.3, 0.2])
    gain[0, [3, 4]], error[0, [3, 4]] = [0, 20], [0, 5]
    why = Explanation(jnp.zeros((1, 52)), *map(jnp.asarray, (policy, gain, error)), jnp.zeros(()), _weights())
    found = np.asarray(distil.improved(why, 8.0, 10.0))
    odds = np.zeros(52)
    odds[[3, 4, 9]] = 0.5, 0.3 * np.exp(20 * 100 / (100 + 25) / 8), 0.2
    np.testing.assert_allclose(found[0], odds / odds.sum(), rtol=1e-5)


def _weights() -> belief.Weights:
    return belief.weigh(jnp.zeros(1), jnp.ones(1))


def test_games_are_legal_and_samples_are_of_their_positions(played: tuple[distil.Searched, gz.State]) -> None:
    samples, ended = played
    assert (ended.ply == 52).all()
    assert not ended.illegal.any()
    step = jax.jit(game.step)
    legal = experience.legal_of(samples.seen)
    np.testing.assert_allclose(samples.policy.sum(axis=1), 1, rtol=1e-4)
    assert (samples.policy[~legal] == 0).all()
    np.testing.assert_array_equal(samples.counts, legal.sum(axis=1) > 1)
    for i in (0, 3):
        one = at(jax.tree.map(jnp.asarray, ended), i)
        state, won = game.dealt(one), int(gz.margin(one))
        for ply, card in enumerate(np.asarray(one.plays)):
            row, mover = 52 * i + ply, int(game.mover(state))
            if ply % 7 == 0:
                np.testing.assert_array_equal(samples.seen[row], view_features.encode(gz.view(state, mover)))
                np.testing.assert_array_equal(samples.hands[row], features.encode(state))
            assert samples.policy[row, card] > 0
            ours = 1 if mover % 2 == 0 else -1
            assert samples.to_come[row] == pytest.approx(ours * (won - int(gz.margin(state))) / 100, abs=1e-5)
            state = step(state, jnp.int32(card))


def test_learning_brings_the_actor_to_what_was_searched(
    played: tuple[distil.Searched, gz.State], params: dict
) -> None:
    samples = jax.tree.map(jnp.asarray, played[0])
    transform = policy_gradient.optimizer(0.9, 0.999, 1e-7, 1.0)

    def find(params: dict, batch: distil.Searched) -> distil.Losses:
        return distil.loss(SMALL_ACTOR, params, batch, 0.1, 0.1)

    learned = jax.jit(
        lambda: minibatches.learn(
            jax.random.key(1),
            params,
            transform.init(params),
            samples,
            samples.counts,
            find,
            transform,
            3e-3,
            8,
            32,
        )[0]
    )()
    counted = jax.tree.map(lambda x: x[samples.counts], samples)
    before, after = find(params, counted), find(learned, counted)
    assert float(before.policy) > 0
    assert float(after.policy) < 0.8 * float(before.policy)
    assert float(after.own_value) < float(before.own_value)
    assert float(after.hands) < float(before.hands)


TINY = [
    *("--games", "2", "--minibatch", "32", "--buffer", "2", "--simulations", "4", "--proposals", "2"),
    *("--considered", "2", "--eval-every", "2", "--eval-deals", "2"),
]


def test_resumed_equals_uninterrupted(no_matches: None, small_actor: Path, tmp_path: Path) -> None:
    """A run that was killed after two batches and goes on ends as one that was not, bit for bit."""
    straight, twice = tmp_path / "straight", tmp_path / "twice"
    start = ["--start", str(small_actor)]
    assert distil.main([*TINY, *start, "--batches", "3", "--out", str(straight)]) == 0
    shutil.copytree(straight, twice)
    shutil.rmtree(twice / "checkpoints" / "3")
    (twice / "last.model").unlink()
    assert distil.main(["--batches", "3", "--out", str(twice), "--resume"]) == 0
    a, b, before = (models.load(x) for x in (straight / "last.model", twice / "last.model", small_actor))
    jax.tree.map(np.testing.assert_array_equal, a.params, b.params)
    assert any(
        (np.asarray(x) != np.asarray(y)).any()
        for x, y in zip(jax.tree.leaves(a.params), jax.tree.leaves(before.params), strict=True)
    )
    columns = ("loss", "loss_policy", "loss_value", "loss_hands", "learning_rate")
    rows = [[[row[c] for c in columns] for row in logs.read(f / logs.CSV)] for f in (straight, twice)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--temperature", "0"], "--temperature 0.0: must be greater than 0"),
        (["--buffer", "0"], "--buffer 0: must be at least 1"),
        (["--simulations", "2"], "--simulations must be at least 4, not 2"),
        (["--critic", ""], "--horizon 4: needs --critic"),
        (["--start", "nothing.model"], "--start nothing.model: nothing.model: cannot read a model"),
        (["--start", "scrofa-small-v1"], "--start scrofa-small-v1: "),
        (["--critic", "nothing.model"], "--critic nothing.model: nothing.model: cannot read a model"),
    ],
)
def test_flags_out_of_range(
    flags: list[str], told: str, small_actor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [*TINY, "--start", str(small_actor), *flags, "--out", str(tmp_path / "run")]
    assert distil.main(args) == 2
    assert told in capsys.readouterr().err
