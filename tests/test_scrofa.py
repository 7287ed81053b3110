"""ScrofaZero's player: its values are what it says they are, it cannot peek, and bad input is named."""

import dataclasses
import random
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from eval import duplicate
from gongzhu_jax import belief, cards, game, models, networks, players, search, worlds
from gongzhu_jax.models import Model
from gongzhu_jax.players.scrofa import SEARCH, Settings
from tests.conftest import SMALL, at, hands_of


@pytest.fixture(scope="module")
def views(random_games: tuple[gz.State, gz.State]) -> gz.View:
    """Views of movers at plies of all trick positions, early and late: ``[24]``."""
    states = jax.tree.map(lambda x: jnp.stack([x[i, 2 * i + i % 2] for i in range(24)]), random_games[1])
    return jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)


KEYS = jax.random.split(jax.random.key(5), 24)


def test_plays_whole_legal_games(small_model: Path) -> None:
    player = players.make(f"scrofa:model={small_model},worlds=3,b=2,k=1")
    tables = duplicate.play_pairs(player, players.make("if"), duplicate.random_deals(1, 6), seed=1)
    assert (tables.ends.ply == 52).all()


def test_an_explanation_adds_up(small_model: Path, views: gz.View) -> None:
    player = players.make(f"scrofa:model={small_model},worlds=4,belief=likelihood")
    played, why = jax.jit(player, static_argnames="explain")(KEYS, views, explain=True)
    legal = np.asarray(jax.vmap(gz.legal_cards)(views))
    np.testing.assert_allclose(why.weights.weights.sum(axis=1), 1, rtol=1e-5)
    assert (why.weights.effective >= 1 - 1e-4).all()
    assert (why.weights.effective <= 4 + 1e-4).all()
    weighted = (np.where(np.isfinite(why.q), why.q, 0) * why.weights.weights[:, :, None]).sum(axis=1)
    np.testing.assert_allclose(np.asarray(why.values)[legal], weighted[legal], atol=1e-3)
    assert np.isneginf(np.asarray(why.values)[~legal]).all()
    assert legal[np.arange(24), np.asarray(played)].all()
    # every world is a possible one, searched as one State
    leaf = networks.leaf_function(SMALL, networks.init(SMALL, jax.random.key(0)))
    in_one_world = jax.jit(lambda states: search.search(states, leaf, SEARCH))
    for i in range(0, 24, 5):
        view = at(views, i)
        for hidden in why.hidden[i]:
            union = np.asarray(cards.to_bools(hidden))
            np.testing.assert_array_equal(union.sum(axis=0), np.asarray(cards.to_bools(view.unseen)))
        states = jax.vmap(worlds.to_state, (None, 0))(view, why.hidden[i])
        alone = in_one_world(states)
        np.testing.assert_array_equal(alone.visits, why.visits[i])
        np.testing.assert_allclose(
            np.asarray(alone.q)[:, legal[i]], np.asarray(why.q[i])[:, legal[i]], atol=1e-2
        )


def test_the_only_card_is_played_without_search(small_model: Path, views: gz.View) -> None:
    player = players.make(f"scrofa:model={small_model},worlds=2,b=1,k=1")
    played = np.asarray(jax.jit(player)(KEYS, views))
    legal = np.asarray(jax.vmap(gz.legal_cards)(views))
    forced = legal.sum(axis=1) == 1
    assert forced.any()
    np.testing.assert_array_equal(played[forced], legal[forced].argmax(axis=1))


@pytest.mark.parametrize(
    "spec",
    [
        "random",
        "if",
        "greed:worlds=5",
        "raw:model={},worlds=3",
        "raw:model={},mode=policy",
        "scrofa:model={},worlds=3,sampling=uniform,belief=none,b=2,k=1",
        "scrofa:model={},worlds=3,b=2,k=1",
        "actor:model={actor}",
        "deep:model={actor},simulations=8,proposals=8,solve=4",
    ],
)
def test_permuting_hidden_cards_changes_no_decision(
    spec: str, small_model: Path, small_actor: Path, random_games: tuple[gz.State, gz.State]
) -> None:
    """The same keys, the true deal and another one that the mover cannot tell from it: the same cards."""
    player = players.make(spec.format(small_model, actor=small_actor))
    rng = random.Random(7)
    states = [at(random_games[1], 30 + i, 2 * i + 1) for i in range(24)]
    other = []
    for state in states:
        hands, mover = hands_of(state), int(game.mover(state))
        hidden = [c for s in range(4) if s != mover for c in np.flatnonzero(hands[s])]
        rng.shuffle(hidden)
        for s in set(range(4)) - {mover}:
            size = hands[s].sum()
            hands[s] = np.isin(np.arange(52), hidden[:size])
            hidden = hidden[size:]
        other.append(dataclasses.replace(state, hands=cards.to_masks(jnp.array(hands))))

    @jax.jit
    def decide(batch: gz.State) -> jax.Array:
        return player(KEYS, jax.vmap(lambda s: gz.view(s, game.mover(s)))(batch))

    states, other = (jax.tree.map(lambda *x: jnp.stack(x), *some) for some in (states, other))
    np.testing.assert_array_equal(decide(states), decide(other))


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("worlds=0", "worlds must be at least 1, not 0"),
        ("sampling=random", "sampling must be one of uniform, strata, strata-equal, not 'random'"),
        ("belief=bayes", "rule must be one of none, iec"),
        ("b=-1", "base must be at least 0, not -1"),
        ("beta=-0.5", "beta must be a number per logit"),
    ],
)
def test_parameters_out_of_range(parameters: str, told: str, small_model: Path) -> None:
    with pytest.raises(ValueError, match=told):
        players.make(f"scrofa:model={small_model},{parameters}")


def test_its_name_makes_it_again(small_model: Path) -> None:
    assert players.make(f"scrofa:model={small_model}").name == f"scrofa:model={small_model}"
    spec = f"scrofa:model={small_model},worlds=3,belief=none"
    assert players.make(spec).name == spec


def test_a_network_of_another_input(tmp_path: Path) -> None:
    path = tmp_path / "other.model"
    params = SMALL.init(jax.random.key(0), jnp.zeros((1, 100)))
    models.save(path, Model(SMALL, params, {}))
    with pytest.raises(ValueError, match=r"has shape \(100, 32\), its network needs \(434, 32\)"):
        players.make(f"scrofa:model={path}")


def test_views_that_nobody_can_play_from(views: gz.View, random_games: tuple[gz.State, gz.State]) -> None:
    player = players.make("if")
    state = at(random_games[1], 3, 9)
    wrong = gz.view(state, (int(game.mover(state)) + 1) % 4)
    some = jax.tree.map(lambda x, y: x.at[2].set(y), views, wrong)
    with pytest.raises(ValueError, match=r"views\[2\]: it is not the viewer's turn \(seat"):
        player(KEYS, some)
    contradictory = dataclasses.replace(views, void=views.void.at[4, 1:].set(True))
    with pytest.raises(ValueError, match=r"views\[4\]: no hidden hands fit this view"):
        player(KEYS, contradictory)
    with pytest.raises(ValueError, match="does not explain"):
        player(KEYS, views, explain=True)


def test_the_settings_of_the_paper() -> None:
    settings = Settings()
    assert (settings.worlds, settings.search.base, settings.search.per_card) == (9, 10, 2)
    assert settings.belief == belief.Settings("iec", beta=0.075, above=7, led_suit_only=True)
