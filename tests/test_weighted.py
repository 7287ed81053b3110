"""Worlds drawn by a belief about cards, against the product of odds over all worlds."""

import collections
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gongzhu_jax as gz
from gongzhu_jax import cards, game, worlds
from gongzhu_jax.view import hand_sizes
from tests.conftest import at
from tests.endings import ENDINGS, as_sets, ending, hidden_state
from tests.oracle import worlds as oracle

FALSE_ALARM = 1e-6  # of each chi-square test, were its key not fixed
ODDS = np.random.default_rng(3).normal(0, 1.5, (3, 52)).astype(np.float32)


def log_weight(world: tuple[frozenset[int], ...]) -> float:
    return sum(float(ODDS[seat, card]) for seat, hand in enumerate(world) for card in hand)


@pytest.mark.parametrize("case", [case for case in ENDINGS if case != "one seat almost known"])
def test_frequencies_and_probabilities_are_those_of_the_product(case: str) -> None:
    """Chi-square over all worlds that are expected five times or more, the others together."""
    unseen, voids, _ = ENDINGS[case]
    view = ending(unseen, voids)
    every = list(oracle.enumerate_worlds(*hidden_state(view)))
    total = math.log(sum(math.exp(log_weight(w)) for w in every))
    n = 20_000
    drawn = worlds.sample_weighted(jax.random.key(1), view, jnp.asarray(ODDS), n)
    sets = [as_sets(world) for world in np.asarray(cards.to_bools(drawn.hidden))]
    known = {world: log_weight(world) - total for world in every}
    np.testing.assert_allclose(drawn.log_probability, [known[world] for world in sets], atol=1e-3)
    found = collections.Counter(sets)
    expected = {world: n * math.exp(known[world]) for world in every}
    often = [world for world in every if expected[world] >= 5]
    seen = [found[world] for world in often] + [n - sum(found[world] for world in often)]
    wanted = [expected[world] for world in often] + [n - sum(expected[world] for world in often)]
    if wanted[-1] < 5:
        seen, wanted = seen[:-1], wanted[:-1]
        wanted = [w * sum(seen) / sum(wanted) for w in wanted]
    assert stats.chisquare(seen, wanted).pvalue > FALSE_ALARM


def test_equal_odds_are_uniform_worlds(random_games: tuple[gz.State, gz.State]) -> None:
    """The probability of every world is one over their number, from the first trick to the last."""
    for ply in (0, 13, 26, 39, 50):
        state = at(random_games[1], 2, ply)
        view = gz.view(state, game.mover(state))
        drawn = worlds.sample_weighted(jax.random.key(0), view, jnp.zeros((3, 52)), 3)
        np.testing.assert_allclose(drawn.log_probability, -math.log(worlds.count_worlds(view)), atol=2e-3)


def test_worlds_fit_their_view_whatever_the_odds(random_games: tuple[gz.State, gz.State]) -> None:
    """Sizes, voids and unseen cards hold, with odds that would put every card into one hand."""
    greedy = jnp.zeros((3, 52)).at[1].set(1e4)
    states = at(random_games[1], slice(0, 64), 30)
    views = jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)
    keys = jax.random.split(jax.random.key(4), 64)
    drawn = jax.jit(jax.vmap(lambda k, v: worlds.sample_weighted(k, v, greedy, 4)))(keys, views)
    hands = np.asarray(cards.to_bools(drawn.hidden))
    assert (hands.sum(axis=2) == np.asarray(cards.to_bools(views.unseen))[:, None]).all()
    sizes = np.asarray(jax.vmap(hand_sizes)(views))[:, None, 1:]
    assert (hands.sum(axis=3) == sizes).all()
    by_suit = hands.reshape(64, 4, 3, 4, 13).any(axis=4)
    assert not (by_suit & np.asarray(views.void)[:, None, 1:]).any()
    assert np.isfinite(drawn.log_probability).all()


def test_bad_input() -> None:
    unseen, voids, _ = ENDINGS["one seat almost known"]
    with pytest.raises(ValueError, match="seat 1 needs 3 cards and only C2 C3 are possible"):
        worlds.sample_weighted(jax.random.key(0), ending(unseen, voids), jnp.zeros((3, 52)), 2)
    with pytest.raises(ValueError, match="at least one world, not 0"):
        worlds.sample_weighted(jax.random.key(0), ending("S2 S3 S4"), jnp.zeros((3, 52)), 0)
    none = jax.jit(lambda view: worlds.sample_weighted(jax.random.key(0), view, jnp.zeros((3, 52)), 2))(
        ending(unseen, voids)
    )
    assert not none.hidden.any()
    assert np.isneginf(none.log_probability).all()
