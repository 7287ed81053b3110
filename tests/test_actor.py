"""Players that read Views: the actor and its playouts, against what they are said to compute."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from eval import duplicate
from gongzhu_jax import belief, cards, endgame, game, networks, players, view_features, worlds
from gongzhu_jax.models import Model
from gongzhu_jax.players.deep import LIKELIHOOD, Explanation, Settings, from_model
from tests.conftest import SMALL, SMALL_ACTOR, at

NUM = 20
KEYS = jax.random.split(jax.random.key(5), NUM)
SETTINGS = Settings(
    simulations=24, proposals=16, belief="likelihood", temper=1.0, considered=4, horizon=52, solve=8
)


@pytest.fixture(scope="module")
def states(random_games: tuple[gz.State, gz.State]) -> gz.State:
    """States of movers at plies of all trick positions, early and late: ``[20]``, the last 6 in the last tricks."""
    plies = [0, 3, 6, 9, 13, 16, 19, 22, 23, 26, 29, 32, 35, 38, 40, 41, 43, 46, 49, 51]
    return jax.tree.map(lambda x: jnp.stack([x[i, p] for i, p in enumerate(plies)]), random_games[1])


@pytest.fixture(scope="module")
def views(states: gz.State) -> gz.View:
    return jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)


@pytest.fixture(scope="module")
def actor() -> Model:
    return Model(SMALL_ACTOR, networks.init(SMALL_ACTOR, jax.random.key(0)), {})


step = jax.jit(lambda state, card: gz.step(state, card))


@jax.jit
def log_policy(params: dict, state: gz.State) -> jax.Array:
    """What the small actor thinks of the mover's cards, computed for one game."""
    seen = gz.view(state, game.mover(state))
    numbers, _ = SMALL_ACTOR.apply(params, view_features.encode(seen).astype(jnp.float32))
    return jax.nn.log_softmax(jnp.where(gz.legal_cards(state), numbers, -jnp.inf))


def favourite(actor: Model, state: gz.State) -> int:
    """The card that the actor likes best."""
    return int(np.argmax(log_policy(actor.params, state)))


def test_the_actor_plays_its_favourite(
    small_actor: Path, actor: Model, states: gz.State, views: gz.View
) -> None:
    played = players.make(f"actor:model={small_actor}")(KEYS, views)
    assert played.tolist() == [favourite(actor, at(states, i)) for i in range(NUM)]


def test_a_temperature_draws_from_the_policy(
    small_actor: Path, actor: Model, states: gz.State, views: gz.View
) -> None:
    """2,000 draws at one View: as often as the policy says, within 4 standard errors a card (13 cards: a false alarm
    in 1,200 sets of keys; these keys are fixed)."""
    player = players.make(f"actor:model={small_actor},temperature=0.5")
    many = jax.tree.map(lambda x: jnp.broadcast_to(x[2], (2000, *x.shape[1:])), views)
    played = np.asarray(player(jax.random.split(jax.random.key(1), 2000), many))
    said = np.asarray(jax.nn.softmax(2 * log_policy(actor.params, at(states, 2))), float)
    found = np.bincount(played, minlength=52) / 2000
    assert (np.abs(found - said) <= 4 * np.sqrt(said * (1 - said) / 2000) + 1e-12).all()
    assert np.count_nonzero(found) > 1


@pytest.fixture(scope="module")
def why(actor: Model, views: gz.View) -> Explanation:
    player = from_model(actor, "deep", SETTINGS)
    assert player.explain is not None
    return jax.device_get(jax.jit(player.explain)(KEYS, views))


def play_out(actor: Model, view: gz.View, hidden: np.ndarray, card: int, plies: int = 52) -> gz.State:
    """A card and the actor's favourites after it, one step at a time."""
    state = step(worlds.to_state(view, jnp.asarray(hidden)), card)
    while plies > 1 and int(state.ply) < game.NUM_PLIES:
        state = step(state, favourite(actor, state))
        plies -= 1
    return state


def test_worlds_weigh_what_the_actor_would_have_played(
    actor: Model, views: gz.View, why: Explanation
) -> None:
    """The likelihood again, by replaying each world's deal from its start."""
    for i in (4, 9, 13):
        view, plies = at(views, i), int(views.ply[i])
        scores = []
        for hidden in why.hidden[i]:
            now = worlds.to_state(view, jnp.asarray(hidden))
            who = [(int(view.leaders[p // 4]) + p % 4) % 4 for p in range(plies)]
            start = np.array(cards.to_bools(now.hands))
            for p in range(plies):
                start[who[p], int(view.plays[p])] = True
            state, total = gz.from_hands(start, int(view.leaders[0])), 0.0
            for p in range(plies):
                card = int(view.plays[p])
                if who[p] != 0:
                    total += float(log_policy(actor.params, state)[card])
                state = step(state, card)
            scores.append(total)
        expected = belief.weigh(jnp.array(scores), jnp.full(16, 1 / 16), LIKELIHOOD.least)
        np.testing.assert_allclose(why.weights.weights[i], expected.weights, atol=2e-3)


def test_cards_are_played_out_in_the_same_worlds(actor: Model, views: gz.View, why: Explanation) -> None:
    """The values of one decision, by playing every line one card at a time."""
    for i in (6, 11):
        view = at(views, i)
        looked = np.flatnonzero(np.isfinite(why.values[i]))
        assert len(looked) == min(4, int(gz.legal_cards(view).sum()))
        assert set(looked) <= set(np.argsort(-why.policy[i])[:4])
        margins = {}
        for n, hidden in enumerate(why.hidden[i]):
            for card in looked:
                margins[n, card] = int(gz.margin(play_out(actor, view, hidden, int(card))))
        # the drawn worlds are not told, but the means must be those of a draw in proportion to the weights
        count = 24 // len(looked)
        upto = np.cumsum(why.weights.weights[i].astype(float))
        matches = []
        for point in np.linspace(0, 1, 4001)[:-1]:
            drawn = np.searchsorted(upto[:-1], (point + np.arange(count)) / count, side="right")
            means = np.array([np.mean([margins[n, c] for n in drawn]) for c in looked])
            matches.append(np.abs(means - why.values[i][looked]).max())
        assert min(matches) < 1e-2
        first = int(np.argmax(why.policy[i]))
        np.testing.assert_allclose(
            why.gain[i][looked], why.values[i][looked] - why.values[i][first], atol=1e-2
        )
        assert why.error[i][first] == 0


def test_the_last_tricks_are_solved(views: gz.View, why: Explanation) -> None:
    """With 16 worlds or fewer left all are weighed, so the values are means of exact ones over drawn worlds."""
    solve = jax.jit(endgame.card_values)
    for i in (17, 18, 19):
        view = at(views, i)
        total = worlds.count_worlds(view)
        if total > 16:
            continue
        legal = np.asarray(gz.legal_cards(view))
        exact = np.array([solve(worlds.to_state(view, jnp.asarray(h))) for h in why.hidden[i][:total]])
        low, high = exact[:, legal].min(axis=0), exact[:, legal].max(axis=0)
        assert (low - 1e-3 <= why.values[i][legal]).all()
        assert (why.values[i][legal] <= high + 1e-3).all()


def test_a_critic_ends_a_playout(actor: Model, views: gz.View) -> None:
    """One world, two plies, then points so far and what the critic says of the next card."""
    critic = Model(SMALL, networks.init(SMALL, jax.random.key(2)), {})
    settings = Settings(simulations=24, proposals=1, belief="none", horizon=2, solve=0, considered=13)
    player = from_model(actor, "deep", settings, critic)
    assert player.explain is not None
    why = jax.device_get(jax.jit(player.explain)(KEYS, views))
    for i in (3, 7, 12):
        view = at(views, i)
        for card in np.flatnonzero(np.isfinite(why.values[i])):
            state = play_out(actor, view, why.hidden[i][0], int(card), plies=2)
            numbers, value = SMALL.apply(critic.params, gz.features.encode(state).astype(jnp.float32))
            to_come = float(value + networks.VALUE_SCALE * numbers[favourite(actor, state)])
            sign = 1 if int(game.mover(state)) % 2 == 0 else -1
            assert why.values[i][card] == pytest.approx(int(gz.margin(state)) + sign * to_come, abs=0.05)


@pytest.mark.parametrize("kind", ["hands", "both"])
def test_worlds_of_the_third_head(kind: str, actor: Model, views: gz.View) -> None:
    """Drawn by the odds it gives; "both" weighs them by likelihood over the probability of the draw."""
    settings = dataclasses.replace(SETTINGS, belief=kind, solve=0, horizon=0)
    critic = Model(SMALL, networks.init(SMALL, jax.random.key(2)), {})
    player = from_model(actor, "deep", settings, critic)
    assert player.explain is not None
    why = jax.device_get(jax.jit(player.explain)(KEYS, views))
    for i in (5, 12):
        view = at(views, i)
        x = view_features.encode(view).astype(jnp.float32)
        odds = np.asarray(networks.apply_with_hands(SMALL_ACTOR, actor.params, x)[2], float)
        hands = np.asarray(cards.to_bools(why.hidden[i]))
        np.testing.assert_array_equal(
            hands.sum(axis=1), np.asarray(cards.to_bools(view.unseen))[None].repeat(16, 0)
        )
        if kind == "hands":
            np.testing.assert_allclose(why.weights.weights[i], 1 / 16, rtol=1e-5)
            continue
        drawn = (hands * odds).sum(axis=(1, 2))  # up to a constant
        likely = belief.log_scores(
            jax.tree.map(lambda x, i=i: x[i : i + 1], views),
            why.hidden[i : i + 1],
            lambda x: SMALL_ACTOR.apply(actor.params, x)[0],
            LIKELIHOOD,
            encode=view_features.encode,
        )[0]
        expected = belief.weigh(SETTINGS.temper * likely - drawn, jnp.full(16, 1 / 16), LIKELIHOOD.least)
        np.testing.assert_allclose(why.weights.weights[i], expected.weights, atol=5e-3)


def test_it_deviates_only_where_the_gain_is_clear(actor: Model, views: gz.View, why: Explanation) -> None:
    played = np.asarray(jax.jit(from_model(actor, "deep", SETTINGS).choose)(KEYS, views))
    own = np.argmax(why.policy, axis=1)
    for i in range(NUM):
        gain = why.gain[i].copy()
        if views.ply[i] < endgame.FIRST_PLY:
            gain[~(gain > SETTINGS.deviate * why.error[i])] = -np.inf
        best = gain.max()
        if best <= 0:
            assert played[i] == own[i]
        else:
            assert gain[played[i]] == best
    assert (played != own).any()


def test_plays_whole_legal_games(small_actor: Path) -> None:
    player = players.make(f"deep:model={small_actor},simulations=8,proposals=8,solve=4")
    tables = duplicate.play_pairs(player, players.make("if"), duplicate.random_deals(1, 6), seed=1)
    assert (tables.ends.ply == 52).all()


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("simulations=2", "simulations must be at least 4, not 2"),
        ("proposals=0", "proposals must be at least 1, not 0"),
        ("temper=-1", "temper must be a number, at least 0"),
        ("belief=iec", "belief must be one of none, likelihood, hands, both"),
        ("considered=1", "considered must be from 2 to 13"),
        ("horizon=60", "horizon must be from 0 to 52"),
        ("deviate=nan", "deviate must be a number of standard errors"),
        ("solve=-1", "solve must be at least 0"),
    ],
)
def test_parameters_out_of_range(parameters: str, told: str, small_actor: Path) -> None:
    with pytest.raises(ValueError, match=told):
        players.make(f"deep:model={small_actor},{parameters}")


def test_playouts_that_end_early_need_a_critic(actor: Model) -> None:
    with pytest.raises(ValueError, match="horizon 4 needs a critic"):
        from_model(actor, "deep", dataclasses.replace(SETTINGS, horizon=4))


def test_models_of_another_kind(small_model: Path, small_actor: Path) -> None:
    for spec in (f"actor:model={small_model}", f"deep:model={small_model}"):
        with pytest.raises(ValueError, match=r"reads open hands .* but one seat's View"):
            players.make(spec)
    with pytest.raises(ValueError, match=r"reads one seat's View .* but open hands"):
        players.make(f"raw:model={small_actor}")
    with pytest.raises(ValueError, match=r"reads one seat's View .* but open hands"):
        players.make(f"deep:model={small_actor},critic={small_actor}")
    with pytest.raises(ValueError, match="temperature must be a number"):
        players.make(f"actor:model={small_actor},temperature=-1")


def test_its_name_makes_it_again(small_actor: Path) -> None:
    spec = f"deep:model={small_actor},simulations=32,solve=0"
    assert players.make(spec).name == spec
