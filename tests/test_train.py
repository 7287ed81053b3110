"""Self-play samples and learning: targets by their definition, the loss by hand, progress on fixed samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import features, networks, search
from tests.oracle import gongzhu as oracle
from train import learner, rollouts

NETWORK = networks.FullyConnected(widths=(32, 32, 16), blocks=1)
SETTINGS = search.Settings(base=0, per_card=2, chunk=16)
GAMES = 16


@pytest.fixture(scope="module")
def params() -> dict:
    return networks.init(NETWORK, jax.random.key(0))


@pytest.fixture(scope="module")
def played(params: dict) -> tuple[rollouts.Samples, gz.State]:
    return jax.device_get(
        rollouts.play_games(jax.random.split(jax.random.key(1), GAMES), params, NETWORK, SETTINGS)
    )


def test_self_play_plays_whole_legal_games(played: tuple[rollouts.Samples, gz.State]) -> None:
    samples, ended = played
    assert (ended.ply == 52).all()
    assert not ended.illegal.any()
    assert samples.inputs.shape == (52 * GAMES, features.SIZE)
    assert samples.inputs.dtype == bool
    assert (np.sort(ended.plays, axis=1) == np.arange(52)).all()


def test_samples_are_those_of_the_positions(played: tuple[rollouts.Samples, gz.State]) -> None:
    """Inputs and legal cards of every ply, from the game replayed by the oracle."""
    samples, ended = played
    by_ply = jax.tree.map(lambda x: np.swapaxes(x.reshape(GAMES, 52, *x.shape[1:]), 0, 1), samples)
    for i in range(0, GAMES, 5):
        own = by_ply.inputs[0, i, :208].reshape(4, 52)  # at ply 0 the mover is the leader
        first = int(ended.leaders[i, 0])
        truth = oracle.Game([np.flatnonzero(own[(seat - first) % 4]).tolist() for seat in range(4)], first)
        for ply in range(52):
            assert np.flatnonzero(by_ply.legal[ply, i]).tolist() == truth.legal()
            assert np.flatnonzero(by_ply.inputs[ply, i, :52]).tolist() == truth.hands[truth.mover]
            truth.play(int(ended.plays[i, ply]))


def test_targets(played: tuple[rollouts.Samples, gz.State]) -> None:
    samples, ended = played
    np.testing.assert_allclose(samples.policy.sum(axis=1), 1, rtol=1e-5)
    assert (samples.policy[~samples.legal] == 0).all()
    # the card played has the best value, hence the largest target
    by_game = samples.policy.reshape(GAMES, 52, 52)
    chosen = np.take_along_axis(by_game, ended.plays[:, :, None].astype(int), axis=2)[:, :, 0]
    np.testing.assert_allclose(chosen, by_game.max(axis=2), rtol=1e-5)
    # the last card of a deal has one outcome: what is still to come is exact
    value = samples.value.reshape(GAMES, 52)[:, 51]
    for i in range(GAMES):
        state = rollouts_before_last(ended, i)
        made, final = (
            int(gz.margin(state)),
            int(gz.margin(jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), ended))),
        )
        sign = 1 if int(gz.game.mover(state)) % 2 == 0 else -1
        assert value[i] == pytest.approx(sign * (final - made))


def rollouts_before_last(ended: gz.State, i: int) -> gz.State:
    """Game i before its last card, dealt again and replayed."""
    plays, leaders = ended.plays[i], ended.leaders[i]
    hands = np.zeros((4, 52), bool)
    for ply, card in enumerate(plays):
        hands[(leaders[ply // 4] + ply % 4) % 4, card] = True
    start = gz.from_hands(hands, int(leaders[0]))
    return gz.play(start, jnp.where(jnp.arange(52) == 51, -1, plays))


def test_loss_by_hand(params: dict, played: tuple[rollouts.Samples, gz.State]) -> None:
    some = jax.tree.map(lambda x: x[100:164], played[0])
    found = learner.loss(NETWORK, params, some, value_weight=0.03)
    policy, value = (np.asarray(x, np.float64) for x in NETWORK.apply(params, some.inputs.astype(np.float32)))
    logits = policy * some.legal
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    target = some.policy.astype(np.float64)
    terms = np.where(target > 0, target * np.log(np.maximum(target, 1e-300) / probability), 0)
    assert float(found.policy) == pytest.approx(terms.sum(axis=1).mean(), rel=1e-4)
    error = np.sqrt(((value - some.value) ** 2).mean())
    assert float(found.value) == pytest.approx(error, rel=1e-4)
    assert float(found.total) == pytest.approx(terms.sum(axis=1).mean() + 0.03 * error, rel=1e-4)


def test_learning_lowers_the_loss_and_is_repeatable(played: tuple[rollouts.Samples, gz.State]) -> None:
    samples = played[0]
    transform = learner.optimizer(learning_rate=1e-3)

    def run() -> tuple[dict, learner.Losses]:
        params = networks.init(NETWORK, jax.random.key(0))
        return learner.learn(
            jax.random.key(5),
            params,
            transform.init(params),
            samples,
            len(samples.value),
            NETWORK,
            transform,
            epochs=8,
        )[::2]

    params = networks.init(NETWORK, jax.random.key(0))
    before = learner.loss(NETWORK, params, samples)
    (first, losses), (second, _) = run(), run()
    after = learner.loss(NETWORK, first, samples)
    assert float(after.total) < 0.8 * float(before.total)
    assert float(losses.total) < float(before.total)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_optimizer_is_adam_with_decay_in_the_gradient() -> None:
    """Two steps on one number against Adam written out."""
    transform = learner.optimizer(learning_rate=0.1, b1=0.3, b2=0.999, eps=1e-7, weight_decay=0.01)
    x, state = jnp.float32(2.0), transform.init(jnp.float32(2.0))
    m = v = 0.0
    truth = 2.0
    for t, gradient in enumerate((1.5, -0.5), start=1):
        updates, state = transform.update(jnp.float32(gradient), state, x)
        x = x + updates
        g = gradient + 0.01 * truth
        m, v = 0.3 * m + 0.7 * g, 0.999 * v + 0.001 * g * g
        truth -= 0.1 * (m / (1 - 0.3**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-7)
        assert float(x) == pytest.approx(truth, rel=1e-5)


def test_too_few_samples(params: dict, played: tuple[rollouts.Samples, gz.State]) -> None:
    few = jax.tree.map(lambda x: x[:10], played[0])
    transform = learner.optimizer()
    fresh = networks.init(NETWORK, jax.random.key(0))
    with pytest.raises(ValueError, match="10 samples are fewer than a minibatch of 64"):
        learner.learn(jax.random.key(0), fresh, transform.init(fresh), few, 10, NETWORK, transform)


def test_only_what_is_filled_is_learned(params: dict, played: tuple[rollouts.Samples, gz.State]) -> None:
    """Whatever stands behind the filled samples changes nothing; the count of steps is that of the filled ones."""
    samples = played[0]
    transform = learner.optimizer(learning_rate=1e-3)

    def run(samples: rollouts.Samples) -> tuple[dict, tuple]:
        fresh = networks.init(NETWORK, jax.random.key(0))
        key = jax.random.key(5)
        return learner.learn(key, fresh, transform.init(fresh), samples, 200, NETWORK, transform, epochs=2)[
            :2
        ]

    spoilt = samples._replace(value=np.where(np.arange(len(samples.value)) < 200, samples.value, np.nan))
    (first, state), (second, _) = run(samples), run(spoilt)
    assert int(state[1].count) == 2 * (200 // 64)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)


def test_a_game_depends_on_its_own_key_only(params: dict) -> None:
    keys = jax.random.split(jax.random.key(1), GAMES)
    samples, ended = rollouts.play_games(keys[:4], params, NETWORK, SETTINGS)
    again, same = rollouts.play_games(keys[jnp.array([2, 0, 3, 1])], params, NETWORK, SETTINGS)
    np.testing.assert_array_equal(same.plays, ended.plays[jnp.array([2, 0, 3, 1])])
    np.testing.assert_array_equal(again.inputs[:52], samples.inputs[104:156])
