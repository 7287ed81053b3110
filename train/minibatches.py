"""Epochs of minibatches over samples, for every algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from train import devices


class Totalled(Protocol):
    """Losses of a minibatch, a NamedTuple of numbers."""

    @property
    def total(self) -> jax.Array:
        """What is minimised."""


L = TypeVar("L", bound=Totalled)


def learn(
    key: jax.Array,
    params: Any,
    opt_state: optax.OptState,
    samples: Any,
    counts: jax.Array,
    loss: Callable[[Any, Any], L],
    transform: optax.GradientTransformation,
    rate: float | jax.Array,
    epochs: int,
    batch_size: int,
    mesh: Mesh | None = None,
) -> tuple[Any, optax.OptState, L]:
    """Some epochs over the samples that count, in a new random order each.

    What does not fill a minibatch is left out, unless there would be none: then samples that do not count fill it.

    Args:
      key: of the order.
      samples: a pytree of arrays ``[N, …]``, N ≥ batch_size; whole on every device.
      counts: ``bool[N]``.
      loss: from parameters and a minibatch of samples.
      rate: what the optimizer's steps are multiplied by.
      batch_size: of a minibatch, over all devices.
      mesh: the devices that share each minibatch.

    Returns:
      Parameters and optimizer state after them, and the mean losses of the last epoch.

    Raises:
      ValueError: there are fewer samples than a minibatch has.
    """
    num = counts.shape[0]
    if num < batch_size:
        raise ValueError(f"{num} samples are fewer than a minibatch of {batch_size}")
    steps = jnp.maximum(jnp.sum(counts, dtype=jnp.int32) // batch_size, 1)

    def gradient(params: Any, batch: Any) -> tuple[Any, L]:
        def total(params: Any) -> tuple[jax.Array, L]:
            found = loss(params, batch)
            return found.total, found

        return jax.grad(total, has_aux=True)(params)

    def epoch(carry: tuple[Any, optax.OptState], key: jax.Array) -> tuple[tuple[Any, optax.OptState], L]:
        luck = jax.random.uniform(key, (num,))
        order = jnp.argsort(jnp.where(counts, luck, 2.0))

        def step(i: jax.Array, carry: tuple[Any, optax.OptState, L]) -> tuple[Any, optax.OptState, L]:
            params, opt_state, sums = carry
            rows = jax.lax.dynamic_slice(order, (i * batch_size,), (batch_size,))
            rows = rows if mesh is None else devices.split(mesh, rows)
            found, losses = gradient(params, jax.tree.map(lambda x: x[rows], samples))
            updates, opt_state = transform.update(found, opt_state, params)
            params = jax.tree.map(lambda p, u: p + rate * u, params, updates)
            return params, opt_state, jax.tree.map(jnp.add, sums, losses)

        few = jax.tree.map(lambda x: x[:batch_size], samples)
        kinds = jax.eval_shape(lambda: gradient(carry[0], few)[1])
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), kinds)
        params, opt_state, sums = jax.lax.fori_loop(0, steps, step, (*carry, nothing))
        return (params, opt_state), jax.tree.map(lambda x: x / steps, sums)

    (params, opt_state), losses = jax.lax.scan(epoch, (params, opt_state), jax.random.split(key, epochs))
    return params, opt_state, jax.tree.map(lambda x: x[-1], losses)
