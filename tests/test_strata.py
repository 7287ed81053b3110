"""Stratified worlds against enumeration and exact counts."""

import collections
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, game, worlds
from gongzhu_jax.view import hand_sizes
from tests.conftest import at
from tests.endings import MIXED, NINE, ending, hidden_state
from tests.oracle import worlds as oracle

ERRORS = (
    5.5  # standard errors in the tests of means: false alarms at 4e-8 for each mean, were the keys not fixed
)


def expected_keys(view: gz.View) -> list[int]:
    """All key cards that are unseen, in order, as the source lists them."""
    unseen = set(np.flatnonzero(cards.to_bools(view.unseen)).tolist())
    ply = int(view.ply)
    if ply % 4:
        led = int(view.plays[ply - ply % 4]) // 13
        listed = ["SQ SA SK SJ S10", "HA HK HQ HJ H10", "DJ DA DK DQ D10", "C10 CA CK CQ CJ"][led]
    else:
        listed = "SQ SA SK " if cards.PIG in unseen else ""
        listed += "DJ DA DK DQ " if cards.SHEEP in unseen else ""
        listed += "HA HK HQ "
        listed += "C10 CA CK CQ CJ" if cards.DOUBLER in unseen else ""
    return [card for card in cards.parse(listed) if card in unseen]


def expected_strata(view: gz.View, num_keys: int) -> dict[tuple[int, ...], int]:
    """How many worlds there are for each possible placement of the key cards: seats 0..2 for seats 1..3."""
    keys = expected_keys(view)[:num_keys]
    unseen, needs, voids = hidden_state(view)
    rest = [card for card in unseen if card not in keys]
    found = {}
    for seats in itertools.product(range(3), repeat=len(keys)):
        left = [need - seats.count(seat) for seat, need in enumerate(needs)]
        if min(left) >= 0 and all(card // 13 not in voids[s] for card, s in zip(keys, seats, strict=True)):
            count = oracle.count_worlds(rest, left, voids)
            if count:
                found[seats] = count
    return found


def stack(views: list[gz.View]) -> gz.View:
    return jax.tree.map(lambda *x: jnp.stack(x), *views)


def test_key_cards(random_games: tuple[gz.State, gz.State]) -> None:
    """Over all plies, for seats to move and others."""
    states = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[::37], random_games[1])
    seats = jnp.arange(len(states.ply)) % 4
    views = jax.jit(jax.vmap(gz.view))(states, seats)
    three = np.asarray(jax.jit(jax.vmap(lambda view: worlds.key_cards(view, 3)))(views))
    two = np.asarray(jax.jit(jax.vmap(worlds.key_cards))(views))
    views = jax.tree.map(np.asarray, views)
    for i in range(len(three)):
        expected = (expected_keys(at(views, i)) + [-1] * 3)[:3]
        assert three[i].tolist() == expected
        assert two[i].tolist() == expected[:2]
    assert {len(set(row) - {-1}) for row in three.tolist()} == {0, 1, 2, 3}


@pytest.fixture(scope="module")
def endings(random_games: tuple[gz.State, gz.State]) -> list[gz.View]:
    """Endings with two, one and no key cards, with voids made up and played, led and followed."""
    made_up = [
        ending("SQ SA S2 HQ H2 H3 D2 C10 CA"),
        ending("SQ SA S2 HQ H2 H3 D2 C10 CA", {1: "S", 3: "H"}),
        ending("SQ SA S2 S3 H2 H3", {1: "H"}),
        ending("DJ D2 D3 D4 C2 C3 C4 C5 C6", {2: "D"}),
        ending("SQ DJ C10"),
        ending(MIXED, {1: "S", 2: "H"}),
        ending(NINE, {1: "C", 3: "C"}),
        ending(NINE, {1: "S", 2: "H", 3: "D"}),
    ]
    played = []
    for game_number in range(256):
        state = at(random_games[1], game_number, 36 + game_number % 9)
        view = gz.view(state, int(game.mover(state)))
        if np.asarray(view.void)[1:].any() and worlds.count_worlds(view) < 1_000 and expected_keys(view):
            played.append(view)
        if len(made_up) + len(played) == 20:
            return made_up + played
    raise AssertionError("too few endings")


@pytest.mark.parametrize(("weights", "n", "num_keys"), [("exact", 9, 3), ("equal", 9, 2)])
def test_strata_and_weighted_means_against_enumeration(
    endings: list[gz.View], weights: worlds.StrataWeights, n: int, num_keys: int
) -> None:
    """Strata and weights by their definition; weighted card-by-seat means hit their expectation."""
    repeats = 500
    views = stack([*endings, ending(NINE, {1: "SHD"})])
    keys = jax.random.split(jax.random.key(11), (len(endings) + 1, repeats))
    many = jax.vmap(worlds.sample_strata, (0, None, None, None, None))
    sample = jax.jit(jax.vmap(lambda keys, view: many(keys, view, n, weights, num_keys)))
    all_hidden, all_weights = sample(keys, views)
    assert not all_hidden[-1].any(), "nothing is possible in the last View"
    assert not all_weights[-1].any()
    with_few = 0
    for view, hidden, weight in zip(endings, all_hidden[:-1], np.asarray(all_weights)[:-1], strict=True):
        strata = expected_strata(view, num_keys)
        total = sum(strata.values())
        share = {s: (count / total if weights == "exact" else 1 / len(strata)) for s, count in strata.items()}
        key_ids = expected_keys(view)[:num_keys]
        drawn = np.asarray(cards.to_bools(hidden))  # [repeats, n, 3, 52]
        placed = np.argmax(drawn[..., key_ids], axis=2)  # [repeats, n, keys]
        np.testing.assert_allclose(weight.sum(axis=1), 1, rtol=1e-5)
        for which in range(0, repeats, 25):
            draws = collections.Counter(
                tuple(seats) for seats, w in zip(placed[which].tolist(), weight[which], strict=True) if w
            )
            assert set(draws) <= set(strata)
            if n >= len(strata):
                assert set(draws) == set(strata), "every possible stratum is drawn"
                expected = [share[tuple(s)] / draws[tuple(s)] for s in placed[which].tolist()]
                used = weight[which] > 0
                np.testing.assert_allclose(weight[which][used], np.array(expected)[used], rtol=1e-5)
                if total > n:
                    assert max(draws.values()) - min(draws.values()) <= 1
            else:
                np.testing.assert_allclose(weight[which], 1 / n, rtol=1e-6)

        every = list(oracle.enumerate_worlds(*hidden_state(view)))
        held = np.array([[[card in hand for card in range(52)] for hand in world] for world in every])
        stratum = [tuple(row) for row in np.argmax(held[:, :, key_ids], axis=1).tolist()]
        assert collections.Counter(stratum) == strata
        exact = np.average(held, axis=0, weights=[share[s] / strata[s] for s in stratum])
        means = np.einsum("rn,rnsc->rsc", weight, drawn)
        error = means.std(axis=0) / np.sqrt(repeats)
        assert (np.abs(means.mean(axis=0) - exact) < ERRORS * error + 1e-5).all()
        if total <= n:
            with_few += 1
            assert (np.abs(means - exact) < 1e-5).all(), "all worlds are taken: nothing is left to chance"
    assert with_few >= 1


def test_strata_in_random_play(random_games: tuple[gz.State, gz.State]) -> None:
    """Sizes, voids and unseen cards at all plies in one trace; number and weights of strata by exact counts."""

    @jax.jit
    @chex.assert_max_traces(n=1)
    def sample(keys: jax.Array, views: gz.View) -> tuple[jax.Array, jax.Array]:
        return jax.vmap(lambda key, view: worlds.sample_strata(key, view, 9))(keys, views)

    for ply in (0, 5, 18, 27, 38, 51):
        states = at(random_games[1], slice(None), ply)
        views = jax.vmap(gz.view)(states, jax.vmap(game.mover)(states))
        hidden, weights = sample(jax.random.split(jax.random.key(ply), 256), views)
        drawn, weights = np.asarray(cards.to_bools(hidden)), np.asarray(weights)
        assert (drawn.sum(axis=2) == np.asarray(cards.to_bools(views.unseen))[:, None]).all()
        assert (drawn.sum(axis=3) == np.asarray(jax.vmap(hand_sizes)(views))[:, None, 1:]).all()
        by_suit = drawn.reshape(256, 9, 3, 4, 13).any(axis=4)
        assert not (by_suit & np.asarray(views.void)[:, None, 1:]).any()
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
        for i in range(0, 256, 128):
            view = at(views, i)
            strata, key_ids = expected_strata(view, 2), expected_keys(view)[:2]
            found: dict[tuple[int, ...], float] = collections.defaultdict(float)
            for world, weight in zip(drawn[i], weights[i], strict=True):
                if weight:
                    found[tuple(np.argmax(world[:, key_ids], axis=0).tolist())] += float(weight)
            assert found == pytest.approx({s: c / sum(strata.values()) for s, c in strata.items()}, rel=1e-4)


def test_errors() -> None:
    key, view, none = jax.random.key(0), ending(MIXED), ending(NINE, {1: "SHD"})
    with pytest.raises(ValueError, match="at least one world, not 0"):
        worlds.sample_strata(key, view, 0)
    with pytest.raises(ValueError, match="weights must be one of exact, equal, not 'even'"):
        worlds.sample_strata(key, view, 9, "even")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_keys must be 0, 1, 2 or 3, not 4"):
        worlds.sample_strata(key, view, 9, num_keys=4)
    with pytest.raises(ValueError, match="no hidden hands fit this view: seat 1 needs 3 cards"):
        worlds.sample_strata(key, none, 9)
