"""A trained actor: one forward pass over what the seat knows."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

from gongzhu_jax import models, networks, view_features
from gongzhu_jax.models import Model
from gongzhu_jax.players.base import NO_VALUE, Player, best_card, legal, spec_of
from gongzhu_jax.view import View


def actor(model: str = models.ACTOR, temperature: float = 0.0) -> Player:
    """A policy network that reads one seat's View.

    Args:
      model: path or name of a model that reads what a seat sees.
      temperature: 0 plays the likeliest card; 1 draws a card from the policy; others from policy^(1/temperature).

    Raises:
      ValueError: the model cannot be read or reads open hands, or the temperature is out of range.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be a number, at least 0, not {temperature}")
    name = spec_of("actor", actor, {"model": model, "temperature": temperature})
    return dataclasses.replace(from_model(models.load(model), name, temperature), models=(model,))


def from_model(model: Model, name: str, temperature: float = 0.0) -> Player:
    """:func:`actor` for a model in memory."""
    networks.check_reads(model.network, "view")

    def choose(keys: jax.Array, views: View) -> jax.Array:
        numbers = policy_numbers(model, views)
        if temperature:
            drawn = jax.vmap(jax.random.categorical)(keys, numbers / temperature)
            return drawn.astype(jnp.int8)
        return jax.vmap(best_card)(keys, numbers)

    return Player(name, choose)


def policy_numbers(model: Model, views: View) -> jax.Array:
    """Logits of the legal cards, −inf for the others: ``float32[B, 52]``."""
    inputs = jax.vmap(view_features.encode)(views).astype(jnp.float32)
    numbers, _ = networks.apply(model.network, model.params, inputs)
    return jnp.where(legal(views), numbers, NO_VALUE)
