"""The actor's training: what games give to learn from, by its definition in plain Python, and that learning helps."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, features, game, models, networks, players, view_features
from gongzhu_jax.players import Player
from tests.conftest import at, hands_of
from train import actor, devices, experience, logs, policy_gradient
from train.actor_config import PRESETS
from train.experience import Experience

ACTOR = networks.FullyConnected(widths=(32, 16), blocks=1, reads="view", hands=True)
CRITIC = networks.FullyConnected(widths=(32, 16), blocks=1)
GAMES, LAM = 16, 0.8
WEIGHTS = policy_gradient.Weights(0.2, 1.0, 0.1, 0.1, jnp.float32(0.01))


@pytest.fixture(scope="module")
def params() -> dict:
    return {
        "actor": networks.init(ACTOR, jax.random.key(0)),
        "critic": networks.init(CRITIC, jax.random.key(1)),
    }


def play(params: dict, by_card: bool, all_cards: bool) -> tuple[Experience, gz.State]:
    keys = jax.random.split(jax.random.key(2), GAMES)
    run = jax.jit(
        lambda keys, params: experience.play_games(keys, ACTOR, CRITIC, params, LAM, by_card, all_cards)
    )
    return jax.device_get(run(keys, params))


@pytest.fixture(scope="module", params=["value", "action", "all"])
def played(request: pytest.FixtureRequest, params: dict) -> tuple[str, Experience, gz.State]:
    kind = request.param
    return kind, *play(params, kind != "value", kind == "all")


def states_of(ended: gz.State, i: int) -> list[gz.State]:
    """Game i before each ply and after the last, replayed card by card."""
    one = at(jax.tree.map(jnp.asarray, ended), i)
    step = jax.jit(game.step)
    found = [game.dealt(one)]
    for card in np.asarray(one.plays):
        found.append(step(found[-1], jnp.int32(card)))
    return found


def test_games_are_legal_and_inputs_are_of_their_positions(played: tuple[str, Experience, gz.State]) -> None:
    _, samples, ended = played
    assert (ended.ply == 52).all()
    assert not ended.illegal.any()
    assert samples.seen.shape == (52 * GAMES, view_features.SIZE)
    for i in (0, 7):
        states = states_of(ended, i)
        for ply in range(0, 52, 7):
            state, row = states[ply], 52 * i + ply
            np.testing.assert_array_equal(samples.hands[row], features.encode(state))
            np.testing.assert_array_equal(
                samples.seen[row], view_features.encode(gz.view(state, game.mover(state)))
            )
            assert samples.card[row] == ended.plays[i, ply]
            assert samples.counts[row] == (int(gz.legal_cards(state).sum()) > 1)


def test_returns_and_gains_by_their_definition(
    played: tuple[str, Experience, gz.State], params: dict
) -> None:
    """Forward, as sums of temporal differences: A_t = Σ_k λ^k δ_{t+k}; the mover's team counts for it."""
    kind, samples, ended = played
    for i in (1, 9):
        rows = slice(52 * i, 52 * (i + 1))
        probability = np.exp(samples.log_policy[rows].astype(float))
        np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-4)
        numbers, value = CRITIC.apply(params["critic"], jnp.asarray(samples.hands[rows], jnp.float32))
        q = np.asarray(value, float)[:, None] / 100 + (
            0 if kind == "value" else np.asarray(numbers, float) / 10
        )
        q = np.broadcast_to(q, (52, 52))
        mean = (probability * q).sum(axis=1)
        cards = samples.card[rows]
        of_played = q[np.arange(52), cards]
        states = states_of(ended, i)
        sign = np.array([1 if int(game.mover(s)) % 2 == 0 else -1 for s in states[:52]])
        points = np.array([int(gz.margin(s)) for s in states]) / 100
        won = np.diff(points)
        next_mean = np.append((sign * mean)[1:], 0)
        delta = won + next_mean - sign * of_played
        to_come = np.array(
            [
                sign[t] * (sign[t] * of_played[t] + sum(LAM**k * delta[t + k] for k in range(52 - t)))
                for t in range(52)
            ]
        )
        np.testing.assert_allclose(samples.to_come[rows], to_come, atol=2e-4)
        gain = np.zeros((52, 52))
        if kind == "all":
            gain = probability * (q - mean[:, None])
            gain[np.arange(52), cards] += to_come - of_played
        else:
            gain[np.arange(52), cards] = to_come - mean
        legal = experience.legal_of(samples.seen[rows])
        np.testing.assert_allclose(
            np.where(legal, samples.gain[rows], 0), np.where(legal, gain, 0), atol=2e-4
        )


def test_an_opponent_sits_at_one_team(params: dict) -> None:
    """It plays its own cards there, nothing of it counts, and returns see its plies as they were played."""
    opponent = Player(
        "lowest", lambda keys, views: jax.vmap(lambda v: cards.nth(game.legal_masks(v), 0))(views)
    )
    keys = jax.random.split(jax.random.key(2), GAMES)
    run = jax.jit(lambda keys: experience.play_games(keys, ACTOR, CRITIC, params, LAM, True, True, opponent))
    samples, ended = jax.device_get(run(keys))
    seen_teams = set()
    for i in range(GAMES):
        rows = slice(52 * i, 52 * (i + 1))
        states = states_of(ended, i)
        team = np.array([int(game.mover(s)) % 2 for s in states[:52]])
        legal = experience.legal_of(samples.seen[rows])
        lowest = legal.argmax(axis=1) == samples.card[rows]
        theirs = next(t for t in (0, 1) if lowest[team == t].all())
        seen_teams.add(theirs)
        assert not lowest[team != theirs].all()
        np.testing.assert_array_equal(samples.counts[rows], (team != theirs) & (legal.sum(axis=1) > 1))
        numbers, value = CRITIC.apply(params["critic"], jnp.asarray(samples.hands[rows], jnp.float32))
        q = np.asarray(value, float)[:, None] / 100 + np.asarray(numbers, float) / 10
        of_played = q[np.arange(52), samples.card[rows]]
        mean = (np.exp(samples.log_policy[rows].astype(float)) * q).sum(axis=1)
        mean = np.where(team == theirs, of_played, mean)
        sign = 1 - 2 * team
        won = np.diff([int(gz.margin(s)) / 100 for s in states])
        later, expected = 0.0, np.zeros(52)
        for t in reversed(range(52)):
            after = sign[t + 1] * (mean[t + 1] - LAM * of_played[t + 1]) if t < 51 else 0.0
            later = won[t] + after + LAM * later
            expected[t] = sign[t] * later
        np.testing.assert_allclose(samples.to_come[rows], expected, atol=3e-4)
    assert seen_teams == {0, 1}


def test_cards_are_drawn_from_the_policy(params: dict) -> None:
    """The leader's first card over many games: as often as the policy says, within 4.4 standard errors (all 52 cards
    together: a false alarm in 2,000 runs)."""
    keys = jax.random.split(jax.random.key(5), 4096)
    run = jax.jit(lambda keys: experience.play_games(keys, ACTOR, CRITIC, params, LAM, False, False)[0])
    found = [jax.device_get(run(part)) for part in jnp.split(keys, 8)]
    first = [Experience(*(x[::52] for x in part)) for part in found]
    said = np.concatenate([np.exp(part.log_policy.astype(float)) for part in first])
    drawn = np.concatenate([np.arange(52) == part.card[:, None] for part in first])
    error = np.sqrt((said * (1 - said)).sum(axis=0))
    assert (np.abs((drawn - said).sum(axis=0)) < 4.4 * error + 1e-9).all()


def test_the_first_step_is_the_policy_gradient(params: dict) -> None:
    """Where nothing has moved yet, the surrogate's gradient is that of Σ G · log π: no clipping, ratios of 1."""
    samples = jax.tree.map(jnp.asarray, play(params, True, False)[0])
    some = jax.tree.map(lambda x: x[:256], samples)
    nothing = policy_gradient.Weights(0.2, 0.0, 0.0, 0.0, jnp.float32(0))

    def surrogate(actor: dict) -> jax.Array:
        both = {"actor": actor, "critic": params["critic"]}
        return policy_gradient.loss(ACTOR, CRITIC, both, some, True, nothing).total

    def plain(actor: dict) -> jax.Array:
        numbers, _ = ACTOR.apply(actor, some.seen.astype(jnp.float32))
        log_policy = experience.log_policy_of(numbers, experience.legal_of(some.seen))
        return -jnp.mean(jnp.sum(jnp.where(some.gain != 0, some.gain * log_policy, 0), axis=-1))

    a, b = jax.grad(surrogate)(params["actor"]), jax.grad(plain)(params["actor"])
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)


def test_what_moved_too_far_gains_nothing(params: dict) -> None:
    """With the old policy shifted so that every ratio is far above 1 + ε, cards that gain have no gradient left."""
    samples = jax.tree.map(jnp.asarray, play(params, False, False)[0])
    some = jax.tree.map(lambda x: x[:256], samples)
    moved = some._replace(log_policy=some.log_policy - 1.0, gain=jnp.abs(some.gain))
    nothing = policy_gradient.Weights(0.2, 0.0, 0.0, 0.0, jnp.float32(0))

    def total(actor: dict) -> jax.Array:
        both = {"actor": actor, "critic": params["critic"]}
        return policy_gradient.loss(ACTOR, CRITIC, both, moved, False, nothing).total

    assert all(not np.asarray(x).any() for x in jax.tree.leaves(jax.grad(total)(params["actor"])))
    assert float(policy_gradient.loss(ACTOR, CRITIC, params, moved, False, nothing).moved) == 1


def test_learning_raises_what_gains_and_is_repeatable(params: dict) -> None:
    samples = policy_gradient.standardize(jax.tree.map(jnp.asarray, play(params, True, True)[0]))
    transform = policy_gradient.optimizer(0.9, 0.999, 1e-7, 1.0)

    @jax.jit
    def run() -> tuple[dict, policy_gradient.Losses]:
        return policy_gradient.learn(
            jax.random.key(3), params, transform.init(params), samples, ACTOR, CRITIC, transform,
            jnp.float32(1e-3), WEIGHTS, True, 4, 128,
        )[::2]  # fmt: skip

    (first, _), (second, _) = run(), run()
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)
    counted = jax.tree.map(lambda x: x[samples.counts], samples)
    before = policy_gradient.loss(ACTOR, CRITIC, params, counted, True, WEIGHTS)
    after = policy_gradient.loss(ACTOR, CRITIC, first, counted, True, WEIGHTS)
    assert float(after.policy) < float(before.policy) - 0.01
    assert float(after.critic) < float(before.critic)
    assert float(after.hands) < float(before.hands)


def test_hands_are_judged_by_who_holds_them(params: dict, played: tuple[str, Experience, gz.State]) -> None:
    """The mean over hidden cards of the log share of the true holder among those who may hold it."""
    _, samples, ended = played
    rows = np.array([3, 60, 130, 52 * 7 + 41])
    some = Experience(*(jnp.asarray(x[rows]) for x in samples))
    odds = jax.random.normal(jax.random.key(8), (len(rows), 3, 52))
    found = policy_gradient.hands_error(odds, some.seen, some.hands)
    for i, row in enumerate(rows):
        state = states_of(ended, row // 52)[row % 52]
        view = gz.view(state, game.mover(state))
        mover, void, total, count = int(game.mover(state)), np.asarray(view.void), 0.0, 0
        for card in range(52):
            holder = next((j for j in (1, 2, 3) if hands_of(state)[(mover + j) % 4, card]), None)
            if holder is not None:
                share = {j: np.exp(float(odds[i, j - 1, card])) for j in (1, 2, 3) if not void[j, card // 13]}
                total -= np.log(share[holder] / sum(share.values()))
                count += 1
        assert float(found[i]) == pytest.approx(total / count, rel=1e-4)


def test_gains_are_counted_in_their_own_deviations(params: dict) -> None:
    samples = policy_gradient.standardize(jax.tree.map(jnp.asarray, play(params, False, False)[0]))
    played = np.take_along_axis(np.asarray(samples.gain), np.asarray(samples.card, int)[:, None], axis=1)
    counts = np.asarray(samples.counts)
    assert np.sqrt(np.mean(played[counts] ** 2)) == pytest.approx(1, rel=1e-3)


def test_more_samples_than_there_are(params: dict) -> None:
    samples = jax.tree.map(jnp.asarray, play(params, True, True)[0])
    transform = policy_gradient.optimizer(0.9, 0.999, 1e-7, 1.0)
    with pytest.raises(ValueError, match="832 samples are fewer than a minibatch of 1000"):
        policy_gradient.learn(
            jax.random.key(3), params, transform.init(params), samples, ACTOR, CRITIC, transform,
            jnp.float32(1e-3), WEIGHTS, True, 1, 1000,
        )  # fmt: skip


TINY = [
    *("--preset", "quick", "--games", "8", "--epochs", "1", "--minibatch", "32"),
    *("--eval-every", "2", "--eval-deals", "2", "--no-mixed"),
]


def test_resumed_equals_uninterrupted(no_matches: None, tmp_path: Path) -> None:
    """Two batches and two more are the same four batches, bit for bit, in all that a run leaves."""
    straight, twice = tmp_path / "straight", tmp_path / "twice"
    assert actor.main([*TINY, "--batches", "4", "--out", str(straight)]) == 0
    assert actor.main([*TINY, "--batches", "2", "--out", str(twice)]) == 0
    assert actor.main(["--batches", "4", "--out", str(twice), "--resume"]) == 0
    for name in ("last.model", "last-critic.model"):
        a, b = (models.load(folder / name) for folder in (straight, twice))
        assert a.network.mixed is False
        for x, y in zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True):
            np.testing.assert_array_equal(x, y)
    columns = ("loss", "loss_policy", "loss_value", "entropy", "learning_rate")
    rows = [[[row[c] for c in columns] for row in logs.read(f / logs.CSV)] for f in (straight, twice)]
    assert rows[0] == rows[1]
    player = players.make(f"deep:model={twice / 'best.model'},critic={twice / 'best-critic.model'},horizon=4")
    assert player.explain is not None


def test_a_run_starts_from_the_models_of_another(tmp_path: Path) -> None:
    config = dataclasses.replace(
        PRESETS["quick"], start=str(tmp_path / "a.model"), start_critic=str(tmp_path / "c.model")
    )
    saved = {}
    for name, file, kind in (
        ("actor", config.start, config.network),
        ("critic", config.start_critic, config.critic_network),
    ):
        network = networks.make(kind, not config.mixed)  # multiplies otherwise, which is no matter
        saved[name] = networks.init(network, jax.random.key(5))
        models.save(file, models.Model(network, saved[name], {}))
    assert config.problem() is None
    state = actor.ActorCritic(config, devices.all_devices()).init()
    jax.tree.map(np.testing.assert_array_equal, state.params, saved)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--lam", "1.5"], "--lam 1.5: must be from 0 to 1"),
        (["--clip", "0"], "--clip 0.0: must be greater than 0"),
        (["--critic", "value"], "--advantage all: needs --critic action"),
        (["--entropy", "-1"], "--entropy -1.0: must be at least 0"),
        (["--minibatch", "100000"], "--minibatch"),
        (["--opponent", "greedy"], "--opponent: no player 'greedy' (did you mean greed?)"),
        (["--start", "nothing.model"], "--start: nothing.model: cannot read a model"),
        (["--start", "scrofa-small-v1"], "--start scrofa-small-v1: its network is not --network actor-small"),
        (["--start-critic", "nothing.model"], "--start-critic: nothing.model: cannot read a model"),
        (
            ["--start-critic", "scrofa-small-v1"],
            "--start-critic scrofa-small-v1: its network is not --critic-network critic-small",
        ),
    ],
)
def test_flags_out_of_range(
    flags: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert actor.main([*TINY, *flags, "--out", str(tmp_path / "run")]) == 2
    assert told in capsys.readouterr().err
