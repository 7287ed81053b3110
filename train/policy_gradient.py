"""Learning from an actor's games: proximal policy optimisation (Schulman et al. 2017) over the cards of a decision."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from gongzhu_jax import networks
from train import experience, minibatches
from train.experience import UNIT, Experience


class Weights(NamedTuple):
    """Of the loss's parts; the last may change from batch to batch."""

    clip: float
    critic: float
    own_value: float
    hands: float
    entropy: jax.Array


class Losses(NamedTuple):
    """Of a minibatch or the mean of many: ``float32[…]``.

    total: what is minimised.
    policy: minus the surrogate, in standard deviations of what a decision gains.
    critic: root mean square error of the critic, in points.
    own_value: of the actor's own value.
    hands: of what the actor believes of hidden hands, nats a card.
    entropy: of the policy, in nats.
    moved: the share of decisions whose card's probability has left the clip range.
    """

    total: jax.Array
    policy: jax.Array
    critic: jax.Array
    own_value: jax.Array
    hands: jax.Array
    entropy: jax.Array
    moved: jax.Array


def loss(
    actor: nn.Module,
    critic: nn.Module,
    params: dict[str, Any],
    samples: Experience,
    by_card: bool,
    weights: Weights,
) -> Losses:
    """The clipped surrogate over all cards, errors of the critic and of what else the actor says, and the entropy.

    − Σ_a min(r_a G_a, clip(r_a) G_a), with r_a the probability of a card now over that when it was played and G_a its
    weighted gain (:class:`Experience`). With gains of the played card only this is PPO's loss.
    """
    numbers, own_value, odds = networks.apply_with_hands(
        actor, params["actor"], samples.seen.astype(jnp.float32)
    )
    legal = experience.legal_of(samples.seen)
    log_policy = experience.log_policy_of(numbers, legal)
    ratio = jnp.exp(jnp.where(legal, log_policy - samples.log_policy, 0.0))
    clipped = jnp.clip(ratio, 1 - weights.clip, 1 + weights.clip)
    surrogate = jnp.sum(jnp.minimum(ratio * samples.gain, clipped * samples.gain), axis=-1)
    policy = jnp.exp(log_policy)
    entropy = -jnp.mean(jnp.sum(jnp.where(legal, policy * log_policy, 0.0), axis=-1))
    outputs = networks.apply(critic, params["critic"], samples.hands.astype(jnp.float32))
    played = jax.nn.one_hot(samples.card, 52)
    of_played = jnp.sum(experience.judge(by_card, outputs, played).of_cards * played, axis=-1)
    critic_error = jnp.mean(jnp.square(of_played - samples.to_come))
    own_error = jnp.mean(jnp.square(own_value / UNIT - samples.to_come))
    hands = jnp.mean(hands_error(odds, samples.seen, samples.hands))
    total = (
        -jnp.mean(surrogate)
        + weights.hands * hands
        + weights.critic * critic_error
        + weights.own_value * own_error
        - weights.entropy * entropy
    )
    ratio_of_played = jnp.sum(ratio * played, axis=-1)
    return Losses(
        total=total,
        policy=-jnp.mean(surrogate),
        critic=UNIT * jnp.sqrt(critic_error),
        own_value=UNIT * jnp.sqrt(own_error),
        hands=hands,
        entropy=entropy,
        moved=jnp.mean(jnp.abs(ratio_of_played - 1) > weights.clip),
    )


def hands_error(odds: jax.Array, seen: jax.Array, hands: jax.Array) -> jax.Array:
    """Minus the log probability of who holds a hidden card, the mean over hidden cards: ``float32[...]``, nats.

    Args:
      odds: ``float32[..., 3, 52]``, as of :func:`gongzhu_jax.networks.apply_with_hands`.
      seen: ``bool[..., 768]``, what the actor reads.
      hands: ``bool[..., 434]``, what a critic reads.
    """
    holders = experience.holders_of(hands)
    log_share = jax.nn.log_softmax(jnp.where(experience.may_hold(seen), odds, -1e9), axis=-2)
    total = jnp.sum(jnp.where(holders, log_share, 0.0), axis=(-2, -1))
    return -total / jnp.maximum(jnp.sum(holders, axis=(-2, -1)), 1)


def optimizer(b1: float, b2: float, eps: float, max_norm: float) -> optax.GradientTransformation:
    """Adam on gradients of bounded length; its steps are still to be multiplied by the learning rate."""
    return optax.chain(
        optax.clip_by_global_norm(max_norm), optax.scale_by_adam(b1=b1, b2=b2, eps=eps), optax.scale(-1.0)
    )


def standardize(samples: Experience) -> Experience:
    """Gains in standard deviations of what the played cards gained, over the decisions that count."""
    played = jax.nn.one_hot(samples.card, 52)
    size = jnp.sum(samples.gain * played, axis=-1)
    counted = jnp.where(samples.counts, jnp.square(size), 0.0)
    deviation = jnp.sqrt(jnp.sum(counted) / jnp.maximum(jnp.sum(samples.counts), 1))
    return samples._replace(gain=samples.gain / (deviation + 1e-8))


def learn(
    key: jax.Array,
    params: dict[str, Any],
    opt_state: optax.OptState,
    samples: Experience,
    actor: nn.Module,
    critic: nn.Module,
    transform: optax.GradientTransformation,
    rate: jax.Array,
    weights: Weights,
    by_card: bool,
    epochs: int,
    batch_size: int,
    mesh: Mesh | None = None,
) -> tuple[dict[str, Any], optax.OptState, Losses]:
    """Some epochs over the decisions that count, as :func:`train.minibatches.learn` has them.

    Args:
      samples: ``[N]``, gains standardised.
      transform: of :func:`optimizer`.
      rate: ``float32[]``, the learning rate.

    Returns:
      Parameters and optimizer state after them, and the mean losses of the last epoch.
    """
    find = functools.partial(loss, actor, critic, by_card=by_card, weights=weights)
    return minibatches.learn(
        key, params, opt_state, samples, samples.counts, find, transform, rate, epochs, batch_size, mesh
    )
