"""Tree search against mctx, a plain-Python tree, and exhaustive minimax."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from mctx._src import action_selection, seq_halving

import gongzhu_jax as gz
from gongzhu_jax import _tree, cards, features, game, search
from gongzhu_jax.search import Settings
from tests.conftest import at, truth_at
from tests.oracle import tree as oracle_tree
from tests.oracle.minimax import after, minimax
from tests.recorded import keys

C = 30.0
SHARPNESS = 0.2
EQUAL = {  # 26 simulations for every root
    "ucb": Settings(base=26, per_card=0, exploration=C),
    "puct": Settings(base=26, per_card=0, exploration=C, rule="puct"),
    "gumbel": Settings(base=26, per_card=0, exploration=C, rule="gumbel", sharpness=SHARPNESS, considered=6),
}


def leaf(states: gz.State) -> tuple[jax.Array, jax.Array]:
    """Some fixed functions of the position, linear in the network input: logits, and points."""
    inputs = jax.vmap(features.encode)(states)
    policy = jax.random.normal(jax.random.key(98), (features.SIZE, 52)) / math.sqrt(30)
    value = 40 * jax.random.normal(jax.random.key(99), (features.SIZE,)) / math.sqrt(60)
    return inputs @ policy, inputs @ value


def nothing(states: gz.State) -> tuple[jax.Array, jax.Array]:
    """No card is preferred, and no points are expected."""
    return jnp.zeros((*states.ply.shape, 52)), jnp.zeros(states.ply.shape)


run = jax.jit(search.search, static_argnums=(1, 2))


@pytest.fixture(scope="module")
def positions(random_games: tuple[gz.State, gz.State]) -> gz.State:
    """256 positions over all plies but the end."""
    rows = jnp.arange(256)
    return jax.tree.map(lambda x: x[rows, rows % 51], random_games[1])


@pytest.fixture(scope="module")
def legal(positions: gz.State) -> np.ndarray:
    return np.asarray(jax.vmap(gz.legal_cards)(positions))


# ----------------------------------------------------------------------------- mctx


def mctx_search(
    states: gz.State, simulations: int, rule: str, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same search by mctx: visits and mean values of the root's slots, from the mover's team.

    Slots are the legal cards in hand order. Values in mctx are seen by the mover of a node; a discount of +1 or −1
    passes them up. mctx's own code shares the root's simulations out for "gumbel".
    """

    def slots(state: gz.State) -> jax.Array:
        legal = game.legal_masks(state)
        return jnp.where(
            jnp.arange(13) < cards.count(legal), jax.vmap(cards.nth, (None, 0))(legal, jnp.arange(13)), -1
        )

    def evaluate(state: gz.State) -> tuple[jax.Array, jax.Array]:
        made = gz.margin(state).astype(jnp.float32)
        mine = jnp.where(game.mover(state) % 2 == 0, made, -made)
        policy, future = jax.tree.map(lambda x: x[0], leaf(jax.tree.map(lambda x: x[None], state)))
        some = slots(state)
        logits = jnp.where(some >= 0, policy[some], jnp.where(gz.is_over(state), 0.0, -jnp.inf))
        return logits, mine + jnp.where(gz.is_over(state), 0.0, future)

    def recurrent(params: None, key: jax.Array, action: jax.Array, state: gz.State):
        del params, key

        def one(state: gz.State, action: jax.Array):
            over = gz.is_over(state)
            after = gz.step(state, jnp.where(over, -1, slots(state)[action]))
            after = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)
            same = game.mover(after) % 2 == game.mover(state) % 2
            discount = jnp.where(same | over, 1.0, -1.0)
            return (jnp.float32(0), discount, *evaluate(after)), after

        (reward, discount, logits, values), after = jax.vmap(one)(state, action)
        return mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=values
        ), after

    def choose(key: jax.Array, tree: mctx.Tree, node: jax.Array, depth: jax.Array) -> jax.Array:
        del key, depth
        visits = tree.children_visits[node]
        mean = tree.children_rewards[node] + tree.children_discounts[node] * tree.children_values[node]
        total = (jnp.sum(visits) + (node > 0)).astype(jnp.float32)
        num = cards.count(game.legal_masks(jax.tree.map(lambda x: x[node], tree.embeddings)))
        # at the end of the deal nothing is legal: go on along slot 0, which stays where it is
        some = jnp.arange(13) < jnp.maximum(num, 1)
        unvisited = some & (visits == 0)
        if rule == "ucb":
            first = -jnp.arange(13.0)
            score = mean + C * jnp.sqrt(jnp.log(total) / jnp.maximum(visits, 1))
            waiting = jnp.any(unvisited)
        else:
            first = jax.nn.softmax(tree.children_prior_logits[node])
            value = jnp.where(unvisited, tree.node_values[node], mean)
            score = value + C * first * jnp.sqrt(total) / (1 + visits)
            waiting = jnp.any(unvisited) & (node == 0)
        score = jnp.where(waiting, jnp.where(unvisited, first, -jnp.inf), score)
        return jnp.argmax(jnp.where(some, score, -jnp.inf))

    def root_choose(key: jax.Array, tree: mctx.Tree, node: jax.Array) -> jax.Array:
        if rule != "gumbel":
            return choose(key, tree, node, jnp.int32(0))
        return action_selection.gumbel_muzero_root_action_selection(
            key,
            tree,
            node,
            num_simulations=simulations,
            max_num_considered_actions=EQUAL["gumbel"].considered,
            qtransform=lambda tree, node: SHARPNESS * tree.qvalues(node),
        )

    def search_all(states: gz.State) -> mctx.Tree:
        logits, values = jax.vmap(evaluate)(states)
        some = jax.vmap(slots)(states)
        return mctx.search(
            params=None,
            rng_key=jax.random.key(0),
            root=mctx.RootFnOutput(prior_logits=logits, value=values, embedding=states),
            recurrent_fn=recurrent,
            root_action_selection_fn=root_choose,
            interior_action_selection_fn=choose,
            num_simulations=simulations,
            invalid_actions=some < 0,
            extra_data=action_selection.GumbelMuZeroExtraData(
                root_gumbel=jnp.take_along_axis(jnp.asarray(noise), some, axis=1)
            ),
        )

    tree = jax.jit(search_all)(states)
    mean = tree.children_rewards[:, 0] + tree.children_discounts[:, 0] * tree.children_values[:, 0]
    return np.asarray(tree.children_visits[:, 0]), np.asarray(mean)


@pytest.mark.parametrize(
    ("rule", "simulations"), [("ucb", 14), ("ucb", 26), ("ucb", 60), ("puct", 26), ("gumbel", 26)]
)
def test_same_visits_and_values_as_mctx(
    positions: gz.State, legal: np.ndarray, rule: str, simulations: int
) -> None:
    settings = dataclasses.replace(EQUAL[rule], base=simulations)
    some_keys = keys(3, 256) if rule == "gumbel" else None
    found = run(positions, leaf, settings, some_keys)
    visits, q = mctx_search(positions, simulations, rule, gumbel_noise(keys(3, 256)))
    for i in range(256):
        n = legal[i].sum()
        np.testing.assert_array_equal(np.asarray(found.visits)[i][legal[i]], visits[i, :n])
        visited = visits[i, :n] > 0
        np.testing.assert_allclose(np.asarray(found.q)[i][legal[i]][visited], q[i, :n][visited], atol=1e-3)
    assert (np.asarray(found.visits).sum(axis=1) == simulations).all()


def gumbel_noise(some_keys: jax.Array) -> np.ndarray:
    """g by card, as the documentation of the search says."""
    return np.asarray(jax.vmap(lambda key: jax.random.gumbel(key, (52,)))(some_keys))


def test_halving_is_mctx_s() -> None:
    for considered in range(14):
        for simulations in range(1, 200):
            theirs = seq_halving.get_sequence_of_considered_visits(considered, simulations)
            assert tuple(_tree.halving(considered, simulations)) == theirs


# ----------------------------------------------------------------------------- a plain-Python tree

WEIGHTS = np.random.default_rng(5).normal(size=(2, 52)) * [[1.5], [20.0]]
POLICY, VALUE = np.round(WEIGHTS[0]), WEIGHTS[1]  # the policy with equal numbers, for ties


def hands_leaf(states: gz.State) -> tuple[jax.Array, jax.Array]:
    """A card has a policy number wherever it is, and a worth in points for the team that holds it."""

    def value(state: gz.State) -> jax.Array:
        held = cards.to_bools(state.hands) @ jnp.asarray(VALUE, jnp.float32)
        return jnp.sum(jnp.where(jnp.arange(4) % 2 == game.mover(state) % 2, held, -held))

    policy = jnp.broadcast_to(jnp.asarray(POLICY, jnp.float32), (*states.ply.shape, 52))
    return policy, jax.vmap(value)(states)


def oracle_leaf(deal: oracle_tree.Deal) -> tuple[dict[int, float], float]:
    """The same."""
    held = [sum(VALUE[card] for card in hand) for hand in deal.game.hands]
    margin = held[0] + held[2] - held[1] - held[3]
    return dict(enumerate(POLICY)), margin if deal.team == 0 else -margin


@pytest.mark.parametrize("rule", ["ucb", "puct"])
def test_same_visits_and_values_as_a_plain_tree(
    random_games: tuple[gz.State, gz.State], rule: search.Rule
) -> None:
    """64 positions of the last seven tricks, with a budget of several times what the last ones can use."""
    rows = jnp.arange(64)
    plies = 24 + rows % 28
    states = jax.tree.map(lambda x: x[rows, plies], random_games[1])
    settings = Settings(base=20, per_card=4, exploration=C, rule=rule)
    found = jax.device_get(run(states, hands_leaf, settings))
    for i in range(64):
        truth = truth_at(random_games[1], i, int(plies[i]))
        simulations = 20 + 4 * len(truth.legal())
        root = oracle_tree.search(oracle_tree.Deal(truth), simulations, rule, C, oracle_leaf)
        assert {card: node.visits for card, node in root.children.items()} == {
            card: found.visits[i, card] for card in truth.legal()
        }
        for card, node in root.children.items():
            assert found.q[i, card] == pytest.approx(node.mean, abs=1e-3)


class Bandit(NamedTuple):
    """Cards of known outcome, as a Position."""

    outcomes: dict[int, float]
    margin: float = 0.0
    team: int = 0

    @property
    def over(self) -> bool:
        return not self.outcomes

    def legal(self) -> list[int]:
        return list(self.outcomes)

    def after(self, card: int) -> "Bandit":
        return Bandit({}, self.outcomes[card])


@pytest.mark.parametrize(
    ("rule", "visits"),
    [
        # after one visit each: 10 + 30 sqrt(ln 3 / 2) = 32.2 beats 31.4, then 10 + 30 sqrt(ln 4 / 3) = 30.4 not 35.3
        ("ucb", [(1, 1), (2, 1), (3, 1), (3, 2)]),
        # P = 1/3, 2/3: 10 + 10 sqrt(2) / 2 = 17.1 beats 14.1, then 10 + 10 sqrt(3) / 3 = 15.8 not 17.3
        ("puct", [(1, 1), (2, 1), (2, 2), (3, 2)]),
    ],
)
def test_the_plain_tree_by_hand(rule: str, visits: list[tuple[int, int]]) -> None:
    def evaluate(position: oracle_tree.Position) -> tuple[dict[int, float], float]:
        return {7: 0.0, 8: math.log(2)}, 0.0

    for simulations, expected in enumerate(visits, start=2):
        root = oracle_tree.search(Bandit({7: 10.0, 8: 0.0}), simulations, rule, 30.0, evaluate)
        assert (root.children[7].visits, root.children[8].visits) == expected


# ----------------------------------------------------------------------------- budgets


def test_budgets_are_per_root_and_every_legal_card_is_visited(positions: gz.State, legal: np.ndarray) -> None:
    for base, per_card in ((0, 2), (10, 2), (0, 1), (1, 0)):
        found = run(positions, leaf, Settings(base=base, per_card=per_card, chunk=64))
        visits = np.asarray(found.visits)
        n = legal.sum(axis=1)
        np.testing.assert_array_equal(visits.sum(axis=1), np.maximum(base + per_card * n, n))
        assert (visits[legal] >= 1).all()
        assert (visits[~legal] == 0).all()
        np.testing.assert_array_equal(np.isfinite(found.q), legal)
        np.testing.assert_array_equal(found.value, np.asarray(found.q).max(axis=1))


def test_results_do_not_depend_on_batch_or_chunk(positions: gz.State) -> None:
    settings = Settings(base=3, per_card=2, chunk=256)
    whole = run(positions, leaf, settings)
    for chunk in (100, 16):
        other = run(positions, leaf, dataclasses.replace(settings, chunk=chunk))
        np.testing.assert_array_equal(other.visits, whole.visits)
        np.testing.assert_allclose(other.q, whole.q, atol=1e-3)
    alone = run(at(positions, slice(7, 8)), leaf, settings)
    np.testing.assert_array_equal(alone.visits[0], whole.visits[7])


@pytest.mark.parametrize("rule", ["ucb", "puct", "gumbel"])
def test_memory_of_a_tree_is_what_it_says(positions: gz.State, rule: search.Rule) -> None:
    def plant(states: gz.State) -> _tree.Tree:
        root = _tree.new_node(states, jnp.full(1, -1), jnp.zeros(1, jnp.int8))
        if rule != "ucb":
            root = _tree.by_prior(root, jnp.zeros((1, 52)), jnp.zeros(1))
        if rule == "gumbel":
            root = _tree.by_merit(root, jnp.zeros((1, 52)))
        return _tree.plant(root, 27)

    planted = jax.eval_shape(plant, at(positions, slice(0, 1)))
    assert search.bytes_per_root(Settings(base=0, per_card=2, rule=rule)) == game.state_bytes(planted)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ({"base": -1}, "base must be at least 0, not -1"),
        ({"per_card": -2}, "per_card must be at least 0, not -2"),
        ({"base": 0, "per_card": 0}, r"base \+ per_card must be at least 1, not 0 \+ 0"),
        ({"exploration": -0.5}, "exploration must be a number of points, at least 0, not -0.5"),
        ({"exploration": math.nan}, "exploration must be a number of points, at least 0, not nan"),
        ({"chunk": 0}, "chunk must be at least 1, not 0"),
        ({"rule": "uct"}, "rule must be one of ucb, puct, gumbel, not 'uct'"),
        ({"sharpness": 0.0}, "sharpness must be a number above 0, not 0.0"),
        ({"target": "counts"}, "target must be one of values, visits, not 'counts'"),
        ({"considered": 14}, "considered must be 1 to 13, not 14"),
    ],
)
def test_settings_out_of_range(field: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Settings(**field)


# ----------------------------------------------------------------------------- policies and cards


@pytest.mark.parametrize("rule", ["ucb", "puct", "gumbel"])
def test_policy_and_card_by_their_definitions(
    positions: gz.State, random_games: tuple[gz.State, gz.State], rule: str
) -> None:
    """Also with games that are over in the batch: those are not searched."""
    states = jax.tree.map(lambda x, ended: x.at[:4].set(ended[:4]), positions, random_games[0])
    some_keys = keys(3, 256) if rule == "gumbel" else None
    found = jax.device_get(run(states, leaf, EQUAL[rule], some_keys))
    assert not found.visits[:4].any()
    assert not found.policy[:4].any()
    assert (found.card[:4] == -1).all()

    noise = gumbel_noise(keys(3, 256))
    all_legal, logits, value = jax.device_get(jax.jit(facts)(states))
    for i in range(4, 256):
        legal = np.flatnonzero(all_legal[i])
        q, visits = found.q[i, legal].astype(float), found.visits[i, legal]
        visited = visits > 0
        merit = q
        if rule == "gumbel":
            assert visited.sum() == min(len(legal), 6)
            prior = softmax(logits[i, legal])
            mean = (prior[visited] * q[visited]).sum() / prior[visited].sum()
            q[~visited] = (value[i] + visits.sum() * mean) / (1 + visits.sum())
            expected = softmax(np.log(prior) + SHARPNESS * q)
            merit = noise[i, legal] + np.log(prior) + SHARPNESS * q
            merit[visits < visits.max()] = -np.inf
        else:
            assert visited.all()
            expected = softmax(SHARPNESS * q)
        np.testing.assert_allclose(found.policy[i, legal], expected, atol=1e-4)
        assert found.policy[i].sum() == pytest.approx(1, abs=1e-5)
        assert found.card[i] == legal[merit.argmax()]
        assert found.value[i] == pytest.approx(q[visited].max())


def facts(states: gz.State) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Legal cards, policy numbers, and the value of all points for the mover's team."""
    made = jax.vmap(gz.margin)(states) * jnp.where(jax.vmap(game.mover)(states) % 2 == 0, 1, -1)
    policy, future = leaf(states)
    return jax.vmap(gz.legal_cards)(states), policy, made + future


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def test_ties_and_shares_of_visits(random_games: tuple[gz.State, gz.State]) -> None:
    """At the start of a deal, where every card is worth nothing and visited once."""
    start = jax.tree.map(lambda x: jnp.broadcast_to(x[0, 0], (256, *x.shape[2:])), random_games[1])
    cards_held = np.flatnonzero(gz.legal_cards(at(start, 0)))
    settings = Settings(base=0, per_card=1, target="visits")
    for _ in range(2):  # without keys the same again and again
        found = run(start, nothing, settings)
        assert (found.card == cards_held[0]).all()
    expected = np.isin(np.arange(52), cards_held) / 13
    np.testing.assert_allclose(found.policy, np.broadcast_to(expected, (256, 52)), rtol=1e-6)
    drawn = np.bincount(run(start, nothing, settings, keys(8, 256)).card, minlength=52)
    assert set(np.flatnonzero(drawn)) == set(cards_held)  # missing one has probability 13 (12/13)^256 < 1e-7
    assert drawn.max() < 50


# ----------------------------------------------------------------------------- endings, exactly


def minimax_hits(before: gz.State, ply: int, chosen: np.ndarray) -> tuple[int, int]:
    """How many of the chosen cards are best by minimax, and in how many of the games cards differ."""
    hits = choices = 0
    for i, card in enumerate(chosen):
        truth = truth_at(before, i, ply)
        values = {card: minimax(after(truth, card), truth.mover % 2) for card in truth.legal()}
        choices += len(set(values.values())) > 1
        hits += values[int(card)] == max(values.values())
    return hits, choices


@pytest.mark.parametrize(
    ("ply", "endings", "settings", "right"),
    [
        (44, 48, Settings(base=400, per_card=0, exploration=200.0), 48),
        (44, 48, Settings(base=400, per_card=0, exploration=200.0, rule="gumbel"), 48),
        (40, 12, Settings(base=3000, per_card=0, exploration=200.0), 11),
    ],
    ids=["two", "two-gumbel", "three"],
)
def test_exhausting_an_ending_finds_the_minimax_card(
    random_games: tuple[gz.State, gz.State], ply: int, endings: int, settings: Settings, right: int
) -> None:
    """A large budget on exact leaves: the best card by search is a best card by exhaustive minimax.

    With two cards in hand always. With three, mean values reach the minimax ones only slowly, and a refutation
    that hides behind a dozen bad averages may stay unseen: one ending of twelve may be missed.
    """
    states = at(random_games[1], slice(0, endings), ply)
    found = run(states, nothing, settings)
    np.testing.assert_array_equal(found.visits > 0, jax.vmap(gz.legal_cards)(states))
    hits, choices = minimax_hits(random_games[1], ply, np.asarray(found.card))
    assert hits >= right
    assert choices > endings // 3, "endings in which cards differ"
