"""Scores of worlds by their definition, asked once for what is the same, and weights that keep some worlds."""

import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import belief, cards, features, game, worlds
from gongzhu_jax.belief import Settings
from tests.conftest import at

PLIES = (1, 7, 18, 30, 43, 50)
NUM_WORLDS = 5


def policy(inputs: jax.Array) -> jax.Array:
    """Some fixed policy: linear in the input, a few logits apart."""
    return inputs @ (3 * jax.random.normal(jax.random.key(3), (features.SIZE, 52)) / math.sqrt(40))


@pytest.fixture(scope="module")
def positions(random_games: tuple[gz.State, gz.State]) -> tuple[gz.View, jax.Array, gz.State]:
    """Views at several plies of as many games, sampled worlds of each, and the games' ends."""
    states = jax.tree.map(lambda x: jnp.stack([x[i, ply] for i, ply in enumerate(PLIES)]), random_games[1])
    views = jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)
    keys = jax.random.split(jax.random.key(0), len(PLIES))
    hidden = jax.vmap(lambda k, v: worlds.sample(k, v, NUM_WORLDS))(keys, views)
    return views, hidden, at(random_games[0], slice(0, len(PLIES)))


def past_questions(
    view: gz.View, hidden: jax.Array, settings: Settings
) -> list[tuple[int, tuple, np.ndarray, int]]:
    """What is asked about one world, told again by replaying its deal: (ply, hand, input, card) of what counts."""
    plays = np.asarray(view.plays)[: int(view.ply)].tolist()
    who = [(int(view.leaders[ply // 4]) + ply % 4) % 4 for ply in range(len(plays))]
    hands = [np.asarray(cards.to_bools(h)) for h in (view.hand, *hidden)]
    start = np.stack(hands)
    for seat, card in zip(who, plays, strict=True):
        start[seat, card] = True
    state = gz.from_hands(start, int(view.leaders[0]))
    led_now = plays[-(len(plays) % 4)] // 13 if len(plays) % 4 else None
    follows = led_now is not None and any(c // 13 == led_now for c in np.flatnonzero(hands[0]))
    found = []
    for ply, (seat, card) in enumerate(zip(who, plays, strict=True)):
        high = card % 13 + 2 > settings.above
        if seat != 0 and high and (not (settings.led_suit_only and follows) or card // 13 == led_now):
            seen = gz.view(state, seat)
            legal = np.flatnonzero(gz.legal_cards(state))
            found.append((ply, tuple(legal), np.asarray(features.encode_average(seen)), card, seat))
        state = gz.step(state, card)
    return found


def factor(numbers: np.ndarray, legal: tuple, card: int, settings: Settings) -> float:
    q = {c: float(numbers[c]) for c in legal}
    gamma = {c: math.exp(-settings.beta * (max(q.values()) - q[c])) for c in legal}
    if settings.rule == "iec":
        return gamma[card]
    if settings.rule == "naive-bayes":
        return gamma[card] / sum(gamma.values())
    if settings.rule == "likelihood":
        return math.exp(q[card]) / sum(math.exp(v) for v in q.values())
    best = max(v for c, v in q.items() if c // 13 == card // 13)
    return max(1 - settings.beta * (best - q[card]), settings.floor)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings("iec", beta=0.5, above=1, led_suit_only=False),
        Settings("iec-line", beta=0.3),
        Settings("naive-bayes", beta=0.5, led_suit_only=False),
        Settings("likelihood", above=1),
    ],
    ids=lambda s: f"{s.rule}-{s.above}",
)
def test_scores_are_products_over_important_plays(
    positions: tuple[gz.View, jax.Array, gz.State], settings: Settings
) -> None:
    views, hidden, _ = positions
    found = jax.jit(lambda v, h: belief.log_scores(v, h, policy, settings, chunk=64))(views, hidden)
    counted = 0
    for i in range(len(PLIES)):
        for n in range(NUM_WORLDS):
            asked = past_questions(at(views, i), hidden[i, n], settings)
            counted += len(asked)
            inputs = np.stack([x for _, _, x, _, _ in asked]) if asked else np.zeros((0, features.SIZE))
            numbers = np.asarray(policy(jnp.asarray(inputs, jnp.float32)))
            expected = sum(
                math.log(factor(numbers[j], legal, card, settings))
                for j, (_, legal, _, card, _) in enumerate(asked)
            )
            assert float(found[i, n]) == pytest.approx(expected, abs=2e-3)
    assert counted > 20


def test_nothing_is_asked_twice(positions: tuple[gz.View, jax.Array, gz.State]) -> None:
    """One question for each ply and hand, however many worlds agree on it."""
    views, hidden, _ = positions
    calls = []

    def counting(inputs: jax.Array) -> jax.Array:
        jax.debug.callback(lambda x: calls.append(x), jnp.sum(inputs))
        return policy(inputs)

    late = at(views, slice(4, 6))
    jax.block_until_ready(belief.log_scores(late, hidden[4:6], counting, Settings(above=1), chunk=1))
    jax.effects_barrier()
    asked = set()
    for i in (4, 5):
        for n in range(NUM_WORLDS):
            for ply, _, x, _, _ in past_questions(at(views, i), hidden[i, n], Settings(above=1)):
                asked.add((i, ply, x.tobytes()))
    assert len(calls) == len(asked)
    assert len(asked) > 0


def test_no_belief_says_nothing(positions: tuple[gz.View, jax.Array, gz.State]) -> None:
    views, hidden, _ = positions
    assert not belief.log_scores(views, hidden, policy, Settings("none")).any()


def test_weights_by_hand() -> None:
    scores = jnp.log(jnp.array([1.0, 0.5, 0.25, 0.25]))
    found = belief.weigh(scores, jnp.array([0.25, 0.25, 0.25, 0.25]), least=1.0)
    np.testing.assert_allclose(found.weights, np.array([4, 2, 1, 1]) / 8, rtol=1e-5)
    assert float(found.effective) == pytest.approx(64 / 22)
    assert float(found.exponent) == 1
    none_of_the_last = belief.weigh(scores, jnp.array([0.5, 0.25, 0.25, 0.0]), least=1.0)
    np.testing.assert_allclose(none_of_the_last.weights, np.array([8, 2, 1, 0]) / 11, rtol=1e-5)


def test_weights_that_collapse_are_tempered_just_enough() -> None:
    scores = jnp.array([0.0, -40.0, -80.0, -90.0])
    uniform = jnp.full(4, 0.25)
    found = belief.weigh(scores, uniform, least=1.5)
    alpha = float(found.exponent)
    assert float(found.effective) >= 1.5

    def effective(alpha: float) -> float:
        w = np.exp(alpha * np.asarray(scores))
        return w.sum() ** 2 / (w**2).sum()

    assert effective(alpha) == pytest.approx(float(found.effective), rel=1e-4)
    assert effective(2 * alpha) < 1.5
    hopeless = belief.weigh(1e6 * scores, uniform, least=3.0)
    np.testing.assert_allclose(hopeless.weights, uniform)
    only_one = belief.weigh(scores, jnp.array([0.0, 1.0, 0.0, 0.0]), least=2.0)
    np.testing.assert_allclose(only_one.weights, [0, 1, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"rule": "bayes"}, "rule must be one of none, iec"),
        ({"beta": -1.0}, "beta must be a number per logit"),
        ({"floor": 0.0}, "floor must be above 0"),
        ({"above": 14}, "above must be a rank"),
        ({"least": 0.5}, "least must be at least 1"),
    ],
)
def test_settings_out_of_range(fields: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Settings(**fields)


def test_one_trace(positions: tuple[gz.View, jax.Array, gz.State]) -> None:
    views, hidden, _ = positions

    @jax.jit
    @chex.assert_max_traces(n=1)
    def run(views: gz.View, hidden: jax.Array) -> jax.Array:
        return belief.log_scores(views, hidden, policy, Settings())

    run(views, hidden)
    run(at(views, jnp.array([5, 4, 3, 2, 1, 0])), hidden)
