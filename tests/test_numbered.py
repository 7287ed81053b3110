"""Worlds by number against the oracle's enumeration."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, worlds
from tests.conftest import at
from tests.endings import ENDINGS, MIXED, NINE, SIX, ending, hidden_state
from tests.oracle import worlds as oracle

LIMIT = 34_650  # worlds of 12 cards without voids

nth_world = jax.jit(worlds.nth_world)
every_world = jax.jit(worlds.every_world, static_argnums=1)


def as_masks(world: tuple[frozenset[int], ...]) -> tuple[int, ...]:
    masks = [0] * 12
    for seat, hand in enumerate(world):
        for card in hand:
            masks[4 * seat + card // 13] |= 1 << card % 13
    return tuple(masks)


def check_every_world(view: gz.View) -> int:
    """The oracle's worlds, each once and before the rest, which are empty."""
    expected = set(map(as_masks, oracle.enumerate_worlds(*hidden_state(view))))
    found, used = map(np.asarray, worlds.every_world(view, LIMIT))
    count = len(expected)
    assert used[:count].all()
    assert not used[count:].any()
    assert not found[count:].any()
    assert set(map(tuple, found[:count].reshape(count, 12).tolist())) == expected
    return count


@pytest.mark.parametrize("case", [case for case, (_, _, count) in ENDINGS.items() if count != 0])
def test_every_world_of_an_ending(case: str) -> None:
    unseen, voids, known = ENDINGS[case]
    count = check_every_world(ending(unseen, voids))
    assert known is None or count == known


def test_every_world_of_twelve_cards_without_voids() -> None:
    assert check_every_world(ending("S2 S5 SQ SA H3 H9 HA D4 DJ C2 C10 CK")) == LIMIT


def test_every_world_in_random_play(random_games: tuple[gz.State, gz.State]) -> None:
    """At every ply of the last four tricks, with the voids shown by then and unequal hands within tricks."""
    counts = []
    for game_number in range(24):
        view = gz.view(at(random_games[1], game_number, 36 + game_number % 12), game_number // 6)
        if worlds.count_worlds(view) <= 2_000:
            counts.append(check_every_world(view))
    assert len(counts) >= 16
    assert len(set(counts)) >= 8


def test_a_limit_and_one_world_give_the_same_order() -> None:
    view = ending(MIXED, {1: "S", 2: "H"})
    every, _ = worlds.every_world(view, LIMIT)
    some, used = every_world(view, 5)
    np.testing.assert_array_equal(some, every[:5])
    assert used.tolist() == [True] * 5
    for i in (0, 7, 18):
        np.testing.assert_array_equal(nth_world(view, i), every[i])


def test_all_worlds_where_they_fit_in_and_else_random_ones(random_games: tuple[gz.State, gz.State]) -> None:
    """In one trace, for a batch of Views of all plies; the last View is impossible."""
    n = 20
    states = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[::23], random_games[1])
    views = jax.vmap(gz.view, (0, None))(states, 2)
    views = jax.tree.map(lambda x, last: jnp.append(x, last[None], axis=0), views, ending(NINE, {1: "SHD"}))
    keys = jax.random.split(jax.random.key(4), len(views.ply))

    @jax.jit
    @chex.assert_max_traces(n=1)
    def both(keys: jax.Array, views: gz.View) -> tuple[jax.Array, ...]:
        sampled = jax.vmap(worlds.sample, (0, 0, None))(keys, views, n)
        return sampled, *jax.vmap(worlds.sample_or_all, (0, 0, None))(keys, views, n)

    sampled, found, weights = map(np.asarray, both(keys, views))
    assert both(keys, views)[1].dtype == jnp.uint16
    assert not found[-1].any()
    assert not weights[-1].any()
    views, sampled, found, weights = jax.tree.map(lambda x: x[:-1], (views, sampled, found, weights))
    count = np.round(np.exp(np.asarray(jax.vmap(worlds.log_count)(views), np.float64)))
    few = (count <= n) & (np.asarray(jax.vmap(cards.count)(views.unseen)) <= 12)
    assert few.sum() > 30
    assert (~few).sum() > 30
    np.testing.assert_array_equal(found[~few], sampled[~few])
    assert (weights[~few] == np.float32(1 / n)).all()
    for i in np.flatnonzero(few):
        number = int(count[i])
        assert len(np.unique(found[i, :number].reshape(number, 12), axis=0)) == number
        assert (found[i, number:] == found[i, 0]).all(), "whatever weighs nothing is a world too"
        np.testing.assert_allclose(weights[i, :number], 1 / number, rtol=1e-6)
        assert not weights[i, number:].any()
    unseen = np.asarray(views.unseen)
    assert (np.bitwise_or.reduce(found, axis=2) == unseen[:, None]).all()


def test_errors_and_their_flags_in_a_trace() -> None:
    many, none, six = gz.view(gz.deal(jax.random.key(0)), 0), ending(NINE, {1: "SHD"}), ending(SIX)
    with pytest.raises(ValueError, match="at most 12 cards are unseen, not 39"):
        worlds.nth_world(many, 0)
    with pytest.raises(ValueError, match="at most 12 cards are unseen, not 39"):
        worlds.every_world(many, 5)
    with pytest.raises(ValueError, match="no hidden hands fit this view: seat 1 needs 3 cards"):
        worlds.nth_world(none, 0)
    with pytest.raises(ValueError, match="no hidden hands fit this view: seat 1 needs 3 cards"):
        worlds.sample_or_all(jax.random.key(0), none, 20)
    for i in (-1, 90):
        with pytest.raises(ValueError, match=f"no world {i}: there are 90"):
            worlds.nth_world(six, i)
    with pytest.raises(ValueError, match="at least one world, not 0"):
        worlds.every_world(six, 0)
    with pytest.raises(ValueError, match="at least one world, not 0"):
        worlds.sample_or_all(jax.random.key(0), six, 0)

    for view, i in ((many, 0), (none, 0), (six, -1), (six, 90)):
        assert not nth_world(view, i).any()
    for view in (many, none):
        assert not every_world(view, 5)[1].any()
