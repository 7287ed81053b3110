"""Model files, and the raw network as a player."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, features, game, models, networks, players, worlds
from gongzhu_jax.players.raw import from_model
from tests.conftest import at

NETWORK = networks.FullyConnected(widths=(24, 24, 16), blocks=1)


@pytest.fixture(scope="module")
def model() -> models.Model:
    params = networks.init(NETWORK, jax.random.key(3))
    return models.Model(NETWORK, params, {"steps": 7, "machine": "a test"})


def test_models_are_read_back(tmp_path: Path, model: models.Model) -> None:
    path = tmp_path / "m.model"
    models.save(path, model)
    found = models.load(path)
    assert found.network == model.network
    assert found.info == model.info
    for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(model.params), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(FileExistsError, match=r"m\.model"):
        models.save(path, model)
    models.save(path, model, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.model"]


def test_damaged_models_are_named(tmp_path: Path, model: models.Model) -> None:
    path = tmp_path / "m.model"
    models.save(path, model)
    whole = path.read_bytes()
    other = models.Model(networks.FullyConnected(widths=(24, 24, 16), blocks=2), model.params, {})
    cases = {
        "not a model file": b"PK" + whole,
        "damaged model file": whole.replace(b'"network"', b'"netwark"'),
        "no network class": whole.replace(b"FullyConnected", b"PartlyConnected"),
        "damaged parameters": whole[:-100],
        "has shape": whole.replace(b'"widths": [24, 24, 16]', b'"widths": [24, 25, 16]'),
    }
    for text, content in cases.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"m.model: .*{text}"):
            models.load(path)
    models.save(path, other, overwrite=True)
    with pytest.raises(ValueError, match=r"m\.model: damaged parameters"):
        models.load(path)


def views_of(states: gz.State) -> gz.View:
    return jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)


def test_one_step_values_by_hand(random_games: tuple[gz.State, gz.State], model: models.Model) -> None:
    """Each card: points made after it and the network's value there, signed, averaged over the same worlds."""
    rows = jnp.arange(0, 12)
    states = jax.tree.map(lambda x: x[rows, 4 * rows + rows % 4], random_games[1])
    views, keys = views_of(states), jax.random.split(jax.random.key(1), 12)
    player = from_model(model, "test", worlds=3)
    found = np.asarray(player.values(keys, views))
    world_keys = jax.vmap(jax.random.split)(keys)[:, 0]
    for i in range(12):
        view = at(views, i)
        totals: dict[int, list[float]] = {}
        for hidden in worlds.sample(world_keys[i], view, 3):
            state = worlds.to_state(view, hidden)
            for card in np.flatnonzero(gz.legal_cards(state)).tolist():
                after = gz.step(state, card)
                value = float(gz.margin(after))
                if not bool(gz.is_over(after)):
                    future = float(networks.apply(NETWORK, model.params, features.encode(after))[1])
                    value += future if int(game.mover(after)) % 2 == 0 else -future
                totals.setdefault(card, []).append(value)
        assert set(np.flatnonzero(np.isfinite(found[i]))) == set(totals)
        for card, values in totals.items():
            assert found[i, card] == pytest.approx(np.mean(values), abs=1e-3), cards.name(card)


def test_policy_mode_plays_the_highest_legal_number(
    random_games: tuple[gz.State, gz.State], model: models.Model
) -> None:
    states = jax.tree.map(lambda x: x[:64, 21], random_games[1])
    views = views_of(states)
    played = from_model(model, "test", mode="policy")(jax.random.split(jax.random.key(0), 64), views)
    policy, _ = networks.apply(NETWORK, model.params, jax.vmap(features.encode_average)(views))
    legal = np.asarray(jax.vmap(gz.legal_cards)(views))
    np.testing.assert_array_equal(played, np.where(legal, policy, -np.inf).argmax(axis=1))


def test_a_model_file_makes_a_player(tmp_path: Path, model: models.Model) -> None:
    models.save(tmp_path / "m.model", model)
    player = players.make(f"raw:model={tmp_path / 'm.model'},worlds=2")
    assert player.name == f"raw:model={tmp_path / 'm.model'},worlds=2"
    views = views_of(jax.vmap(gz.deal)(jax.random.split(jax.random.key(0), 8)))
    played = np.asarray(player(jax.random.split(jax.random.key(1), 8), views))
    assert np.asarray(jax.vmap(gz.legal_cards)(views))[np.arange(8), played].all()


def test_half_precision_rounds_the_parameters(tmp_path: Path, model: models.Model) -> None:
    path, half = tmp_path / "m.model", tmp_path / "half.model"
    models.save(path, model)
    models.save(half, model, half=True)
    assert half.stat().st_size < 0.6 * path.stat().st_size
    for a, b in zip(jax.tree.leaves(models.load(half).params), jax.tree.leaves(model.params), strict=True):
        assert a.dtype == jnp.float32
        np.testing.assert_array_equal(a, np.asarray(b, np.float16).astype(np.float32))


def test_models_that_come_with_the_package_are_loaded_by_name() -> None:
    for name, path in models.shipped().items():
        found = models.load(name)
        assert found.info["games"] > 0
        assert models.find(name) == path
    with pytest.raises(ValueError, match=r"nobody: cannot read a model: .*models that come with the package"):
        models.load("nobody")
