"""The reference players against the recorded decisions of the original programs and the plain-Python oracle."""

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gongzhu_jax as gz
from gongzhu_jax import cards, game, players, worlds
from tests.conftest import at, hands_of, play_random
from tests.oracle import opponents as oracle

ALL_PLAYERS = ["random", "if", "greed", "greed:worlds=3"]


def stack(views: list[gz.View]) -> gz.View:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *views)


def keys(seed: int, n: int) -> jax.Array:
    return jax.random.split(jax.random.key(seed), n)


@pytest.fixture(scope="session")
def turns() -> tuple[gz.State, gz.View]:
    """1,024 positions of random play, all plies, with the View of the player to move."""
    _, before = jax.jit(jax.vmap(lambda key: play_random(key, gz.deal(key))))(keys(21, 1024))
    states = jax.tree.map(lambda x: x[jnp.arange(1024), jnp.arange(1024) % 52], before)
    return states, jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)


def history(view: gz.View) -> tuple[int, list[int], list[list[int]], list[int]]:
    """What the oracle takes: seat, hand, completed tricks, running trick."""
    seat = int(view.seat)
    leaders = [(first + seat) % 4 for first in np.asarray(view.leaders).tolist()]
    plays, done = np.asarray(view.plays).tolist(), int(view.ply) // 4
    tricks = [[leaders[k], *plays[4 * k : 4 * k + 4]] for k in range(done)]
    hand = np.flatnonzero(cards.to_bools(view.hand)).tolist()
    return seat, hand, tricks, [leaders[done], *plays[4 * done : int(view.ply)]]


# ----------------------------------------------------------------------------- recorded decisions


@pytest.fixture(scope="session")
def cases(shared_data: Path) -> dict[str, Any]:
    return json.loads((shared_data / "opponent_cases.json").read_text())


def views_of(some: list[dict[str, Any]]) -> gz.View:
    return stack([gz.view_from(c["seat"], c["hand"], c["tricks"], c["table"]) for c in some])


def recorded_values(case: dict[str, Any]) -> np.ndarray:
    values = np.full(52, -np.inf)
    for name, value in case["values"].items():
        values[cards.parse(name)[0]] = value
    return values


def test_if_plays_the_recorded_cards(cases: dict[str, Any]) -> None:
    """Every card seen in 40 draws is one the original may play, and every recorded card is played.

    Where the original draws at random, the record may hold a part of its choices only; the oracle, which agrees
    with all records, tells the whole set.
    """
    some = cases["mr_if"]
    views = views_of(some)
    mr_if = jax.jit(players.make("if"))
    drawn = np.stack([np.asarray(mr_if(keys(i, len(some)), views)) for i in range(40)])
    for i, case in enumerate(some):
        recorded, mine = set(cards.parse(case["choices"])), set(drawn[:, i].tolist())
        possible = oracle.if_choices(*history(at(views, i)))
        assert recorded <= possible, case
        assert mine <= possible, case
        if len(possible) == 1:
            assert mine == recorded, case


def test_greed_fourth_to_play_has_the_recorded_values_exactly(cases: dict[str, Any]) -> None:
    some = [case for case in cases["greed"] if len(case["table"]) == 4]
    assert len(some) > 50
    values = jax.jit(players.make("greed").values)(keys(0, len(some)), views_of(some))
    for case, found in zip(some, np.asarray(values), strict=True):
        np.testing.assert_array_equal(found, recorded_values(case))


def test_greed_sampled_values_are_the_recorded_ones_within_their_error(cases: dict[str, Any]) -> None:
    """Where no void is shown: all values within 4 standard errors, and the recorded top card is ours or tied.

    About 1,000 values: one beyond 4 standard errors has probability 0.06, were the keys not fixed. The records
    are means over a few hundred worlds, so two cards may change places in them; never by more than 3 of the
    standard errors of their difference, and in at most one case of 25.
    """
    some = [case for case in cases["greed"] if len(case["table"]) < 4 and not case["void_shown"]]
    assert len(some) > 100
    views, repeats = views_of(some), 60
    values = jax.jit(players.make("greed").values)
    means = np.stack([np.asarray(values(keys(i, len(some)), views)) for i in range(repeats)])
    agreed = 0
    for i, case in enumerate(some):
        legal = np.isfinite(means[0, i])
        recorded = recorded_values(case)
        np.testing.assert_array_equal(legal, np.isfinite(recorded))
        mine, theirs = means[:, i, legal], recorded[legal]
        mean, one_world = mine.mean(axis=0), mine.std(axis=0, ddof=1) * np.sqrt(20)
        error = one_world * np.sqrt(1 / (20 * repeats) + 1 / case["samples"])
        assert (np.abs(mean - theirs) <= 4 * error + 1e-4).all(), (case, mean)
        gap = mine[:, mean.argmax()] - mine[:, theirs.argmax()]
        assert gap.mean() <= 3 * gap.std(ddof=1) * np.sqrt(20 / case["samples"]) + 1e-4
        agreed += bool(gap.mean() <= 1e-4)
    assert agreed / len(some) >= 0.96


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
            assert found[i, card] == pytest.approx(value, abs=1e-4), (seat, hand, tricks, table, cards.name(card))
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
    drawn = players.make("random")(keys(9, 13_000), jax.tree.map(lambda x: jnp.broadcast_to(x, (13_000, *x.shape)), view))
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
        ("gred", r"no player 'gred' \(did you mean greed\?\); there are: random, if, greed"),
        ("", "no player ''"),
        ("greed:world=3", r"no parameter 'world' \(did you mean worlds\?\); it takes: worlds"),
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
