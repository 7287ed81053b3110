"""Tree search against mctx, a plain-Python tree, and exhaustive minimax."""

import copy
import math

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, features, game, search
from tests.conftest import at, hands_of
from tests.oracle import gongzhu as oracle

C = 30.0


def weights() -> jax.Array:
    return 40 * jax.random.normal(jax.random.key(99), (features.SIZE,)) / math.sqrt(60)


def leaf(states: gz.State) -> jax.Array:
    """Some fixed function of the position, in points: linear in the network input."""
    return jax.vmap(features.encode)(states) @ weights()


@pytest.fixture(scope="module")
def positions(random_games: tuple[gz.State, gz.State]) -> gz.State:
    """256 positions over all plies but the end."""
    rows = jnp.arange(256)
    return jax.tree.map(lambda x: x[rows, rows % 51], random_games[1])


# ----------------------------------------------------------------------------- mctx


def mctx_search(states: gz.State, simulations: int) -> tuple[np.ndarray, np.ndarray]:
    """The same search by mctx: visits and mean values of the root's slots, from the mover's team.

    Values in mctx are seen by the mover of a node; a discount of +1 or −1 passes them up.
    """

    def slots(state: gz.State) -> jax.Array:
        legal = game.legal_masks(state)
        return jnp.where(
            jnp.arange(13) < cards.count(legal), jax.vmap(cards.nth, (None, 0))(legal, jnp.arange(13)), -1
        )

    def value(state: gz.State) -> jax.Array:
        made = gz.margin(state).astype(jnp.float32)
        mine = jnp.where(game.mover(state) % 2 == 0, made, -made)
        future = leaf(jax.tree.map(lambda x: x[None], state))[0]
        return mine + jnp.where(gz.is_over(state), 0.0, future)

    def recurrent(params: None, key: jax.Array, action: jax.Array, state: gz.State):
        del params, key

        def one(state: gz.State, action: jax.Array):
            over = gz.is_over(state)
            after = gz.step(state, jnp.where(over, -1, slots(state)[action]))
            after = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)
            same = game.mover(after) % 2 == game.mover(state) % 2
            discount = jnp.where(same | over, 1.0, -1.0)
            return (jnp.float32(0), discount, jnp.zeros(13), value(after)), after

        (reward, discount, logits, values), after = jax.vmap(one)(state, action)
        return mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=values
        ), after

    def choose(key: jax.Array, tree: mctx.Tree, node: jax.Array, depth: jax.Array) -> jax.Array:
        del key, depth
        visits = tree.children_visits[node]
        mean = tree.children_rewards[node] + tree.children_discounts[node] * tree.children_values[node]
        total = jnp.sum(visits) + (node > 0)
        state = jax.tree.map(lambda x: x[node], tree.embeddings)
        num = cards.count(game.legal_masks(state))
        bonus = C * jnp.sqrt(jnp.log(total.astype(jnp.float32)) / jnp.maximum(visits, 1))
        score = jnp.where(visits == 0, 1e9 - jnp.arange(13), mean + bonus)
        # at the end of the deal nothing is legal: go on along slot 0, which stays where it is
        return jnp.argmax(jnp.where(jnp.arange(13) < jnp.maximum(num, 1), score, -jnp.inf))

    def run(states: gz.State) -> mctx.Tree:
        root = mctx.RootFnOutput(
            prior_logits=jnp.zeros((states.ply.shape[0], 13)), value=jax.vmap(value)(states), embedding=states
        )
        return mctx.search(
            params=None,
            rng_key=jax.random.key(0),
            root=root,
            recurrent_fn=recurrent,
            root_action_selection_fn=lambda key, tree, node: choose(key, tree, node, jnp.int32(0)),
            interior_action_selection_fn=choose,
            num_simulations=simulations,
        )

    tree = jax.jit(run)(states)
    mean = tree.children_rewards[:, 0] + tree.children_discounts[:, 0] * tree.children_values[:, 0]
    return np.asarray(tree.children_visits[:, 0]), np.asarray(mean)


@pytest.mark.parametrize("simulations", [14, 26, 60])
def test_same_visits_and_values_as_mctx(positions: gz.State, simulations: int) -> None:
    found = jax.jit(lambda s: search.search(s, leaf, base=simulations, per_card=0, exploration=C))(positions)
    visits, q = mctx_search(positions, simulations)
    legal = np.asarray(jax.vmap(gz.legal_cards)(positions))
    for i in range(256):
        n = legal[i].sum()
        np.testing.assert_array_equal(np.asarray(found.visits)[i][legal[i]], visits[i, :n])
        np.testing.assert_allclose(np.asarray(found.q)[i][legal[i]], q[i, :n], atol=1e-3)
    assert (np.asarray(found.visits).sum(axis=1) == simulations).all()


# ----------------------------------------------------------------------------- budgets


def test_budgets_are_per_root_and_every_legal_card_is_visited(positions: gz.State) -> None:
    run = jax.jit(search.search, static_argnums=1, static_argnames=("base", "per_card", "chunk"))
    legal = np.asarray(jax.vmap(gz.legal_cards)(positions))
    for base, per_card in ((0, 2), (10, 2), (0, 1), (1, 0)):
        found = run(positions, leaf, base=base, per_card=per_card, chunk=64)
        visits = np.asarray(found.visits)
        n = legal.sum(axis=1)
        np.testing.assert_array_equal(visits.sum(axis=1), np.maximum(base + per_card * n, n))
        assert (visits[legal] >= 1).all()
        assert (visits[~legal] == 0).all()
        np.testing.assert_array_equal(np.isfinite(found.q), legal)
        np.testing.assert_array_equal(found.value, np.asarray(found.q).max(axis=1))


def test_results_do_not_depend_on_batch_or_chunk(positions: gz.State) -> None:
    run = jax.jit(search.search, static_argnums=1, static_argnames=("base", "per_card", "chunk"))
    whole = run(positions, leaf, base=3, per_card=2, chunk=256)
    for chunk in (100, 16):
        other = run(positions, leaf, base=3, per_card=2, chunk=chunk)
        np.testing.assert_array_equal(other.visits, whole.visits)
        np.testing.assert_allclose(other.q, whole.q, atol=1e-3)
    alone = run(at(positions, slice(7, 8)), leaf, base=3, per_card=2)
    np.testing.assert_array_equal(alone.visits[0], whole.visits[7])


def test_ended_games_are_not_searched(random_games: tuple[gz.State, gz.State]) -> None:
    found = search.search(at(random_games[0], slice(0, 4)), leaf)
    assert not found.visits.any()


def test_memory_of_a_tree_is_what_it_says(positions: gz.State) -> None:
    planted = jax.eval_shape(lambda s: search._plant(s, 27), at(positions, slice(0, 1)))
    assert search.bytes_per_root(base=0, per_card=2) == game.state_bytes(planted)


def test_parameters_out_of_range(positions: gz.State) -> None:
    with pytest.raises(ValueError, match="not negative"):
        search.search(positions, leaf, base=0, per_card=0)


# ----------------------------------------------------------------------------- endings, exactly


def minimax(truth: oracle.Game, team: int) -> int:
    """The margin of a team at the end of the deal with best play by both, open hands."""
    if truth.over:
        return truth.margin() * (1 if team == 0 else -1)
    outcomes = [minimax(after(truth, card), team) for card in truth.legal()]
    return max(outcomes) if truth.mover % 2 == team else min(outcomes)


def after(truth: oracle.Game, card: int) -> oracle.Game:
    played = copy.deepcopy(truth)
    played.play(card)
    return played


@pytest.mark.parametrize(
    ("ply", "endings", "simulations", "right"), [(44, 48, 400, 48), (40, 12, 3000, 11)], ids=["two", "three"]
)
def test_exhausting_an_ending_finds_the_minimax_card(
    random_games: tuple[gz.State, gz.State], ply: int, endings: int, simulations: int, right: int
) -> None:
    """A large budget on exact leaves: the best card by search is a best card by exhaustive minimax.

    With two cards in hand always. With three, mean values reach the minimax ones only slowly, and a refutation
    that hides behind a dozen bad averages may stay unseen: one ending of twelve may be missed.
    """

    def nothing(states: gz.State) -> jax.Array:
        return jnp.zeros(states.ply.shape[0])

    before = at(random_games[1], slice(0, endings))
    run = jax.jit(lambda s: search.search(s, nothing, base=simulations, per_card=0, exploration=200.0))
    found = np.asarray(run(at(before, slice(None), ply)).q)
    hits = choices = 0
    for i in range(endings):
        start = at(before, i, 0)
        truth = oracle.Game([np.flatnonzero(h).tolist() for h in hands_of(start)], int(start.leaders[0]))
        for card in np.asarray(at(before, i, ply).plays)[:ply].tolist():
            truth.play(card)
        team = truth.mover % 2
        values = {card: minimax(after(truth, card), team) for card in truth.legal()}
        choices += len(set(values.values())) > 1
        hits += values[int(found[i].argmax())] == max(values.values())
    assert hits >= right
    assert choices > endings // 3, "endings in which cards differ"
