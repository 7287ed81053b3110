"""Sampled worlds against exhaustive enumeration, exact counts and exact marginals."""

import collections
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gongzhu_jax as gz
from gongzhu_jax import cards, game, worlds
from gongzhu_jax.view import hand_sizes
from tests.conftest import at, hands_of
from tests.endings import ENDINGS, MIXED, NINE, SIX, as_sets, ending, hidden_state
from tests.oracle import worlds as oracle

FALSE_ALARM = 1e-6  # of each chi-square test below, were its key not fixed


@pytest.mark.parametrize("case", ENDINGS)
def test_counts_and_samples_against_enumeration(case: str) -> None:
    """Chi-square over all worlds, each of equal probability."""
    unseen, voids, known = ENDINGS[case]
    view = ending(unseen, voids)
    every = list(oracle.enumerate_worlds(*hidden_state(view)))
    if known is not None:
        assert len(every) == known
    if not every:
        with pytest.raises(ValueError, match="seat 1 needs 3 cards and only C2 C3 are possible"):
            worlds.count_worlds(view)
        return
    assert worlds.count_worlds(view) == len(every) == oracle.count_worlds(*hidden_state(view))
    assert float(worlds.log_count(view)) == pytest.approx(np.log(len(every)), rel=1e-5)

    n = max(20 * len(every), 2_000)
    drawn = np.asarray(cards.to_bools(worlds.sample(jax.random.key(1), view, n)))
    found = collections.Counter(map(as_sets, drawn))
    assert set(found) <= set(every), "every world is consistent"
    counts = [found[world] for world in every]
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_exact_marginals_of_the_references() -> None:
    """P(one spade each) = 36/90; and 12/19, 7/19, 5/19 in the ending with two voids; at 5.5 standard errors."""
    n = 40_000

    def close(found: np.ndarray, p: float) -> bool:
        return abs(found.mean() - p) < 5.5 * np.sqrt(p * (1 - p) / n)

    drawn = np.asarray(cards.to_bools(worlds.sample(jax.random.key(2), ending(SIX), n)))
    assert close((drawn[:, :, :13].sum(axis=2) == 1).all(axis=1), 36 / 90)
    drawn = np.asarray(cards.to_bools(worlds.sample(jax.random.key(3), ending(MIXED, {1: "S", 2: "H"}), n)))
    s2, d2 = cards.parse("S2 D2")
    assert close(drawn[:, 1, s2], 12 / 19)
    assert close(drawn[:, 0, d2], 7 / 19)
    assert close(drawn[:, 2, d2], 5 / 19)


@pytest.mark.parametrize(("size", "count"), [(1, 6), (2, 90), (3, 1680), (4, 34650)])
def test_counts_without_voids(size: int, count: int) -> None:
    assert worlds.count_worlds(ending(cards.names(range(3 * size)))) == count


def test_the_first_view_of_a_deal_has_all_worlds() -> None:
    view = gz.view(gz.deal(jax.random.key(0)), 2)
    assert worlds.count_worlds(view) == 84478098072866400  # 39! / 13!^3
    assert float(worlds.log_count(view)) / np.log(2) == pytest.approx(56.2, abs=0.05)


def test_worlds_in_random_play_are_consistent_and_counted(random_games: tuple[gz.State, gz.State]) -> None:
    """Sizes, voids and unseen cards hold in every sample at every ply; the true world is always possible."""
    before = random_games[1]
    rng = random.Random(5)
    sample = jax.jit(jax.vmap(lambda key, state, seat: worlds.sample(key, gz.view(state, seat), 4)))
    for ply in range(0, 52, 3):
        states = at(before, slice(None), ply)
        seats = jnp.array([rng.randrange(4) for _ in range(256)])
        drawn = np.asarray(cards.to_bools(sample(jax.random.split(jax.random.key(ply), 256), states, seats)))
        views = jax.vmap(gz.view)(states, seats)
        assert jax.vmap(worlds.is_possible)(views).all()
        unseen = np.asarray(cards.to_bools(views.unseen))
        assert (drawn.sum(axis=2) == unseen[:, None]).all()
        assert (drawn.sum(axis=3) == np.asarray(jax.vmap(hand_sizes)(views))[:, None, 1:]).all()
        by_suit = drawn.reshape(256, 4, 3, 4, 13).any(axis=4)
        assert not (by_suit & np.asarray(views.void)[:, None, 1:]).any()
        one = at(views, 0)
        assert worlds.count_worlds(one) == oracle.count_worlds(*hidden_state(one))
        assert float(jnp.exp(worlds.log_count(one))) == pytest.approx(worlds.count_worlds(one), rel=1e-4)


def test_marginals_with_voids_late_in_play() -> None:
    """Card-by-seat frequencies against enumeration in real endings with shown voids (5.5 standard errors)."""
    keys = jax.random.split(jax.random.key(8), 64)
    _, before = jax.jit(jax.vmap(lambda key: game.play_random(key, gz.deal(key))))(keys)
    tested = 0
    for game_number in range(64):
        view = gz.view(at(before, game_number, 36), game_number % 4)
        if not np.asarray(view.void)[1:].any() or worlds.count_worlds(view) > 3000:
            continue
        every = np.stack(
            [
                np.array([[c in hand for c in range(52)] for hand in world])
                for world in oracle.enumerate_worlds(*hidden_state(view))
            ]
        )
        n = 4_000
        drawn = np.asarray(cards.to_bools(worlds.sample(jax.random.key(game_number), view, n)))
        exact = every.mean(axis=0)
        error = np.sqrt(np.maximum(exact * (1 - exact), 1e-9) / n)
        assert (np.abs(drawn.mean(axis=0) - exact) < 5.5 * error + 1e-6).all()
        tested += 1
    assert tested >= 10


def test_an_impossible_view_raises_outside_and_flags_inside_a_trace() -> None:
    view = ending(NINE, {1: "SHD"})
    with pytest.raises(
        ValueError, match="no hidden hands fit this view: seat 1 needs 3 cards and only C2 C3"
    ):
        worlds.sample(jax.random.key(0), view, 3)
    sample = jax.jit(worlds.sample, static_argnums=2)
    assert not bool(jax.jit(worlds.is_possible)(view))
    assert not sample(jax.random.key(0), view, 3).any()
    assert float(worlds.log_count(view)) == -np.inf
    with pytest.raises(ValueError, match="at least one world"):
        worlds.sample(jax.random.key(0), ending(SIX), 0)


def test_a_world_as_a_state(random_games: tuple[gz.State, gz.State]) -> None:
    """The true hidden hands put back give the true State, seats counted from the viewer."""
    state = at(random_games[1], 4, 27)
    view = gz.view(state, 3)
    hidden = cards.to_masks(jnp.array(hands_of(state)[[0, 1, 2]]))
    found = worlds.to_state(view, hidden)
    np.testing.assert_array_equal(hands_of(found), hands_of(state)[[3, 0, 1, 2]])
    assert (int(game.mover(found)) + 3) % 4 == int(game.mover(state))
    np.testing.assert_array_equal(gz.legal_cards(found), gz.legal_cards(state))
    np.testing.assert_array_equal(gz.view(found, 0).void, view.void)
    np.testing.assert_array_equal(gz.view(found, 1).void, gz.view(state, 0).void)
    card = int(jnp.argmax(gz.legal_cards(state)))
    assert (
        gz.scores(gz.step(found, card)).tolist()
        == gz.scores(gz.step(state, card))[jnp.array([3, 0, 1, 2])].tolist()
    )
