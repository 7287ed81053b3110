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
from train import minibatches
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
    """Some epochs over the samples, as :func:`train.minibatches.learn` has them.

    Args:
      params, opt_state: given up (their memory is reused).
      filled: ``int32[]``, learn from the first so many samples only, at least batch_size.

    Returns:
      Parameters and optimizer state after them, and the mean losses of the last epoch.
    """
    counts = jnp.arange(samples.value.shape[0]) < filled

    def find(params: Any, batch: Samples) -> Losses:
        return loss(network, params, batch, value_weight)

    return minibatches.learn(
        key, params, opt_state, samples, counts, find, transform, 1.0, epochs, batch_size, mesh
    )
