"""The networks: sizes, shapes, and the reduced-precision mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gongzhu_jax import features, networks


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("fc24", 11_416_629, 11_416_629),
        ("fc16", 9_315_381, 9_315_381),
        ("fc-small", 900_000, 1_100_000),
        ("resnet18", 11_000_000, 11_400_000),
    ],
)
def test_parameter_counts(name: str, low: int, high: int) -> None:
    params = jax.eval_shape(lambda key: networks.init(networks.make(name), key), jax.random.key(0))
    assert low <= networks.count(params) <= high


def test_the_network_is_the_formula() -> None:
    """fc-small against the layers written out in NumPy."""
    network = networks.make("fc-small")
    params = networks.init(network, jax.random.key(1))
    x = np.random.default_rng(0).random((5, 434)).astype(np.float32)
    p = jax.tree.map(np.asarray, params["params"])

    def layer(name: str, x: np.ndarray) -> np.ndarray:
        return x @ p[name]["kernel"] + p[name]["bias"]

    h = x
    for i in range(3):
        h = np.maximum(layer(f"layer_{i}", h), 0)
    for i in range(3):
        h = h + np.maximum(layer(f"block_{i}_out", np.maximum(layer(f"block_{i}_in", h), 0)), 0)
    policy, value = network.apply(params, jnp.array(x))
    np.testing.assert_allclose(policy, layer("policy", h), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(value, 10 * layer("value", h)[:, 0], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["fc-small", "resnet18"])
def test_shapes_and_mixed_precision(name: str) -> None:
    params = networks.init(networks.make(name), jax.random.key(1))
    x = jax.random.uniform(jax.random.key(2), (2, 3, 434))
    policy, value = networks.make(name).apply(params, x)
    assert policy.shape == (2, 3, 52)
    assert value.shape == (2, 3)
    half_policy, half_value = networks.make(name, mixed=True).apply(params, x)
    assert half_policy.dtype == half_value.dtype == jnp.float32
    scale = float(jnp.abs(policy).max())
    np.testing.assert_allclose(half_policy, policy, atol=0.05 * scale)
    assert (half_policy != policy).any()


def test_unknown_presets_are_named() -> None:
    with pytest.raises(ValueError, match="no network 'fc25'; there are: fc24, fc16, fc-small, resnet18"):
        networks.make("fc25")


def test_gradients_in_mixed_precision_are_those_in_float32_within_rounding() -> None:
    x = jax.random.bernoulli(jax.random.key(1), 0.2, (64, features.SIZE)).astype(jnp.float32)
    target = jax.random.normal(jax.random.key(2), (64, 52))
    params = networks.init(networks.make("fc-small"), jax.random.key(0))

    def gradient(mixed: bool) -> dict:
        def loss(params: dict) -> jax.Array:
            policy, value = networks.apply(networks.make("fc-small", mixed), params, x)
            return jnp.mean((policy - target) ** 2) + jnp.mean(value**2)

        return jax.jit(jax.grad(loss))(params)

    for half, full in zip(jax.tree.leaves(gradient(True)), jax.tree.leaves(gradient(False)), strict=True):
        # rounding, and units that it turns on or off; a transpose or a sign gone wrong would be near 1
        assert float(jnp.linalg.norm(half - full)) < 0.1 * float(jnp.linalg.norm(full))
