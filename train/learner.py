"""Learning from self-play: the loss, the optimizer and epochs over samples (ScrofaZero, section 3.3)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from gongzhu_jax import networks
from train import devices
from train.rollouts import Samples


class Losses(NamedTuple):
    """Of one minibatch or the mean of many: ``float32[…]``.

    total: policy + λ · value.
    policy: KL(target ‖ network) in nats.
    value: root mean square error in points.
    """

    total: jax.Array
    policy: jax.Array
    value: jax.Array


def optimizer(
    learning_rate: float | optax.Schedule = 5e-5,
    b1: float = 0.3,
    b2: float = 0.999,
    eps: float = 1e-7,
    weight_decay: float = 1e-4,
) -> optax.GradientTransformation:
    """Adam with the paper's constants; the decay is added to the gradient, as in the authors' program."""
    return optax.chain(
        optax.add_decayed_weights(weight_decay),
        optax.scale_by_adam(b1=b1, b2=b2, eps=eps),
        optax.scale_by_learning_rate(learning_rate),
    )


def loss(network: nn.Module, params: Any, samples: Samples, value_weight: float = 0.03) -> Losses:
    """KL(target ‖ softmax(p · legal)) + λ · RMSE(value).

    The policy numbers are multiplied by the legal mask before the softmax, so illegal cards keep a logit of 0
    and a share of the probability: the network learns to lift the legal ones above it.
    """
    policy, value = networks.apply(network, params, samples.inputs.astype(jnp.float32))
    log_policy = jax.nn.log_softmax(policy * samples.legal)
    target = samples.policy
    entropy_terms = jnp.where(target > 0, target * jnp.log(jnp.where(target > 0, target, 1.0)), 0.0)
    divergence = jnp.mean(jnp.sum(entropy_terms - target * log_policy, axis=-1))
    # The square root has no slope at 0; the smallest step away from it does no harm.
    error = jnp.sqrt(jnp.mean(jnp.square(value - samples.value)) + 1e-12)
    return Losses(divergence + value_weight * error, divergence, error)


@functools.partial(
    jax.jit,
    static_argnames=("network", "transform", "epochs", "batch_size", "value_weight", "mesh"),
    donate_argnums=(1, 2),
)
def learn(
    key: jax.Array,
    params: Any,
    opt_state: optax.OptState,
    samples: Samples,
    filled: jax.Array,
    network: nn.Module,
    transform: optax.GradientTransformation,
    epochs: int = 3,
    batch_size: int = 64,
    value_weight: float = 0.03,
    mesh: Mesh | None = None,
) -> tuple[Any, optax.OptState, Losses]:
    """Some epochs over the samples, in a new random order each; what does not fill a minibatch is left out.

    Args:
      key: of the order.
      params, opt_state: given up (their memory is reused).
      samples: ``[N]``, N ≥ batch_size; whole on every device.
      filled: ``int32[]``, learn from the first so many samples only, at least batch_size.
      batch_size: of a minibatch, over all devices.
      mesh: the devices that share each minibatch.

    Returns:
      Parameters and optimizer state after them, and the mean losses of the last epoch.
    """
    num = samples.value.shape[0]
    if num < batch_size:
        raise ValueError(f"{num} samples are fewer than a minibatch of {batch_size}")
    steps = filled // batch_size

    def epoch(carry: tuple[Any, optax.OptState], key: jax.Array) -> tuple[tuple[Any, optax.OptState], Losses]:
        luck = jax.random.uniform(key, (num,))
        order = jnp.argsort(jnp.where(jnp.arange(num) < filled, luck, 2.0))

        def step(
            i: jax.Array, carry: tuple[Any, optax.OptState, Losses]
        ) -> tuple[Any, optax.OptState, Losses]:
            params, opt_state, sums = carry
            rows = jax.lax.dynamic_slice(order, (i * batch_size,), (batch_size,))
            rows = rows if mesh is None else devices.split(mesh, rows)
            batch = jax.tree.map(lambda x: x[rows], samples)

            def total(params: Any) -> tuple[jax.Array, Losses]:
                found = loss(network, params, batch, value_weight)
                return found.total, found

            gradient, losses = jax.grad(total, has_aux=True)(params)
            updates, opt_state = transform.update(gradient, opt_state, params)
            sums = jax.tree.map(jnp.add, sums, losses)
            return optax.apply_updates(params, updates), opt_state, sums

        nothing = Losses(*[jnp.float32(0)] * len(Losses._fields))
        params, opt_state, sums = jax.lax.fori_loop(0, steps, step, (*carry, nothing))
        return (params, opt_state), jax.tree.map(lambda x: x / steps, sums)

    (params, opt_state), losses = jax.lax.scan(epoch, (params, opt_state), jax.random.split(key, epochs))
    return params, opt_state, jax.tree.map(lambda x: x[-1], losses)
