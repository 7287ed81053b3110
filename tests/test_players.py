"""The reference players against the recorded decisions of the original programs and the plain-Python oracle."""

import dataclasses
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gongzhu_jax as gz
from gongzhu_jax import cards, game, players, worlds
from tests import recorded
from tests.conftest import at, hands_of
from tests.oracle import opponents as oracle
from tests.recorded import history, keys

ALL_PLAYERS = ["random", "if", "greed", "greed:worlds=3"]


@pytest.fixture(scope="session")
def turns() -> tuple[gz.State, gz.View]:
    """1,024 positions of random play, all plies, with the View of the player to move."""
    _, before = jax.jit(jax.vmap(lambda key: game.play_random(key, gz.deal(key))))(keys(21, 1024))
    states = jax.tree.map(lambda x: x[jnp.arange(1024), jnp.arange(1024) % 52], before)
    return states, jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)


# ----------------------------------------------------------------------------- recorded decisions


def test_if_plays_the_recorded_cards(recorded_cases: dict[str, Any]) -> None:
    assert len(recorded_cases["mr_if"]) == 1200
    assert recorded.if_disagreements(recorded_cases["mr_if"]) == []


def test_greed_fourth_to_play_has_the_recorded_values_exactly(recorded_cases: dict[str, Any]) -> None:
    assert len(recorded.exact_cases(recorded_cases["greed"])) > 50
    assert recorded.exact_disagreements(recorded_cases["greed"]) == []


def test_greed_sampled_values_are_the_recorded_ones_within_their_error(
    recorded_cases: dict[str, Any],
) -> None:
    """Where no void is shown: all values within 4 standard errors, and the recorded top card is ours or tied.

    About 1,000 values: one beyond 4 standard errors has probability 0.06, were the keys not fixed. The records
    are means over a few hundred worlds, so two cards may change places in them; never by more than 3 of the
    standard errors of their difference, and in at most one case of 25.
    """
    found = recorded.sampled_comparison(recorded_cases["greed"])
    assert len(found.worst) > 100
    assert found.worst.max() <= 4
    assert found.gap_errors.max() <= 3
    assert (found.gap <= 1e-4).mean() >= 0.96


# ----------------------------------------------------------------------------- against the oracle


def test_greed_equals_the_oracle_in_the_same_worlds(turns: tuple[gz.State, gz.View]) -> None:
    """Exact values at every trick position, with and without voids: both are given the same sampled hands."""
    views, n = at(turns[1], slice(0, 416)), 6
    some_keys = keys(4, 416)
    found = np.asarray(jax.jit(players.make(f"greed:worlds={n}").values)(some_keys, views))
    world_keys = jax.vmap(jax.random.split)(some_keys)[:, 0]
    hidden = jax.jit(jax.vmap(lambda key, view: worlds.sample(key, view, n)))(world_keys, views)
    hidden = np.asarray(cards.to_bools(hidden))
    positions = set()
    for i in range(416):
        seat, hand, tricks, table = history(at(views, i))
        positions.add(len(table))
        sampled = [
            {(seat + j + 1) % 4: np.flatnonzero(world[j]).tolist() for j in range(3)} for world in hidden[i]
        ]
        truth = oracle.greed_values(seat, hand, tricks, table, sampled)
        assert set(np.flatnonzero(np.isfinite(found[i]))) == set(truth)
        for card, value in truth.items():
            assert found[i, card] == pytest.approx(value, abs=1e-4), (
                seat,
                hand,
                tricks,
                table,
                cards.name(card),
            )
    assert positions == {1, 2, 3, 4}


def test_if_has_the_oracle_s_distribution(turns: tuple[gz.State, gz.View]) -> None:
    """Certain cards exactly; random ones by chi-square over all positions, false alarm 1e-6 (keys fixed)."""
    views, draws = turns[1], 200
    mr_if = jax.jit(players.make("if"))
    drawn = np.stack([np.asarray(mr_if(keys(i, 1024), views)) for i in range(draws)])
    statistic, freedom = 0.0, 0
    for i in range(1024):
        expected = oracle.if_distribution(*history(at(views, i)))
        counts = np.bincount(drawn[:, i], minlength=52)
        assert set(np.flatnonzero(counts)) <= set(expected)
        likely = [(counts[c], float(p) * draws) for c, p in expected.items() if p * draws > 5]
        if len(likely) > 1 and sum(e for _, e in likely) > 0.999 * draws:
            statistic += sum((seen - e) ** 2 / e for seen, e in likely)
            freedom += len(likely) - 1
    assert freedom > 30
    assert stats.chi2.sf(statistic, freedom) > 1e-6


def test_random_is_uniform_over_legal_cards(turns: tuple[gz.State, gz.View]) -> None:
    view = at(turns[1], 0)
    drawn = players.make("random")(
        keys(9, 13_000), jax.tree.map(lambda x: jnp.broadcast_to(x, (13_000, *x.shape)), view)
    )
    counts = np.bincount(drawn, minlength=52)[np.asarray(gz.legal_cards(view))]
    assert stats.chisquare(counts).pvalue > 1e-6
    assert counts.sum() == 13_000


# ----------------------------------------------------------------------------- every player


@pytest.mark.parametrize("spec", ALL_PLAYERS)
def test_players_are_pure_legal_and_blind_to_hidden_cards(spec: str, turns: tuple[gz.State, gz.View]) -> None:
    states, views = turns
    player = jax.jit(players.make(spec))
    played = np.asarray(player(keys(1, 1024), views))
    assert played.dtype == np.int8
    legal = np.asarray(jax.vmap(gz.legal_cards)(views))
    assert legal[np.arange(1024), played].all()

    rng = random.Random(3)
    hands = hands_of(states)
    movers = np.asarray(jax.vmap(game.mover)(states))
    for i in range(1024):  # deal the hidden cards anew, keeping hand sizes
        others = [s for s in range(4) if s != movers[i]]
        hidden = [c for s in others for c in np.flatnonzero(hands[i, s])]
        rng.shuffle(hidden)
        for s in others:
            size = int(hands[i, s].sum())
            hands[i, s] = np.isin(np.arange(52), hidden[:size])
            hidden = hidden[size:]
    other_worlds = dataclasses.replace(states, hands=cards.to_masks(jnp.array(hands)))
    other_views = jax.vmap(lambda s: gz.view(s, game.mover(s)))(other_worlds)
    np.testing.assert_array_equal(player(keys(1, 1024), other_views), played)


@pytest.mark.parametrize("spec", ALL_PLAYERS)
def test_a_mixed_batch_plays_as_one_by_one(spec: str, turns: tuple[gz.State, gz.View]) -> None:
    player = jax.jit(players.make(spec))
    some_keys = keys(2, 1024)
    together = np.asarray(player(some_keys, turns[1]))
    for i in (0, 1, 2, 3, 17, 22, 35, 48, 1000):
        assert player(some_keys[i : i + 1], at(turns[1], slice(i, i + 1))).tolist() == [together[i]]


@pytest.mark.parametrize("spec", ["greed"])
def test_values_are_in_points_and_agree_with_the_choice(spec: str, turns: tuple[gz.State, gz.View]) -> None:
    player = players.make(spec)
    values = np.asarray(jax.jit(player.values)(keys(6, 1024), turns[1]))
    played = np.asarray(jax.jit(player)(keys(6, 1024), turns[1]))
    assert values.dtype == np.float32
    np.testing.assert_array_equal(np.isfinite(values), np.asarray(jax.vmap(gz.legal_cards)(turns[1])))
    np.testing.assert_array_equal(values[np.arange(1024), played], values.max(axis=1))


# ----------------------------------------------------------------------------- specs


def test_specs() -> None:
    assert players.make("greed:worlds=40").name == "greed:worlds=40"
    assert players.make(" greed ").name == "greed"
    assert players.make("greed") is players.make("greed")
    assert players.make("if").values is None


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("gred", r"no player 'gred' \(did you mean greed\?\); there are: random, if, greed, raw"),
        ("", "no player ''"),
        ("greed:world=3", r"no parameter 'world' \(did you mean worlds\?\); it takes: worlds"),
        ("raw:model=nowhere.model", "nowhere.model: cannot read a model: No such file"),
        ("raw:model=x,mode=tree", "mode must be one of search, average, policy, not 'tree'"),
        ("raw:model=x,worlds=0", "worlds must be at least 1"),
        ("random:x=1", "it takes: no parameters"),
        ("greed:worlds", "write worlds=VALUE"),
        ("greed:worlds=", "write worlds=VALUE"),
        ("greed:worlds=many", "worlds must be int, not 'many'"),
        ("greed:worlds=0", "worlds must be at least 1, not 0"),
        ("greed:worlds=2,worlds=3", "sets worlds twice"),
    ],
)
def test_specs_that_cannot_be_used(spec: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        players.make(spec)
