"""The raw network as a player: one step looked ahead in sampled worlds, or the policy alone (ScrofaZero, 5.2)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from gongzhu_jax import features, game, models, networks, search, worlds
from gongzhu_jax.models import Model
from gongzhu_jax.players.base import NO_VALUE, Player, best_card, legal, spec_of
from gongzhu_jax.view import View

MODES = ("search", "average", "policy")
ONE_STEP = search.Settings(base=0, per_card=1, chunk=1024)  # small trees, and networks like large batches


def raw(model: str = models.SCROFA, worlds: int = 9, mode: str = "search") -> Player:
    """A trained network without tree search.

    Args:
      model: path or name of a model that reads open hands.
      worlds: sampled worlds per decision, for mode "search".
      mode: "search" values every card by the network one step later, averaged over worlds with equal weights;
        "average" does so with the hidden hands averaged in the input instead of sampled; "policy" plays the card of
        the highest policy number, in one pass over averaged hands.

    Raises:
      ValueError: the model cannot be read, or a parameter is out of range.
    """
    if worlds < 1:
        raise ValueError(f"worlds must be at least 1, not {worlds}")
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    name = spec_of("raw", raw, {"model": model, "worlds": worlds, "mode": mode})
    return dataclasses.replace(from_model(models.load(model), name, worlds, mode), models=(model,))


def from_model(model: Model, name: str, worlds: int = 9, mode: str = "search") -> Player:
    """:func:`raw` for a model in memory."""
    networks.check_reads(model.network, "open")
    values = {
        "search": functools.partial(_one_step, model, worlds, features.encode),
        "average": functools.partial(_one_step, model, 1, features.encode_seen),
        "policy": functools.partial(_policy, model),
    }[mode]

    def choose(keys: jax.Array, views: View) -> jax.Array:
        both = jax.vmap(jax.random.split)(keys)
        return jax.vmap(best_card)(both[:, 1], values(both[:, 0], views))

    def in_points(keys: jax.Array, views: View) -> jax.Array:
        return values(jax.vmap(jax.random.split)(keys)[:, 0], views)

    return Player(name, choose, None if mode == "policy" else in_points, chunk=64)


def _one_step(
    model: Model,
    num_worlds: int,
    encode: Callable[[game.State], jax.Array],
    keys: jax.Array,
    views: View,
) -> jax.Array:
    """The mean over worlds of every card's value one step later, all points of the deal: ``float32[B, 52]``."""

    def states(key: jax.Array, view: View) -> game.State:
        hidden = worlds.sample(key, view, num_worlds)
        return jax.vmap(worlds.to_state, (None, 0))(view, hidden)

    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), jax.vmap(states)(keys, views))
    leaf = networks.leaf_function(model.network, model.params, encode)
    q = search.search(flat, leaf, ONE_STEP).q
    return jnp.mean(q.reshape(-1, num_worlds, 52), axis=1)


def _policy(model: Model, keys: jax.Array, views: View) -> jax.Array:
    """The policy numbers of the legal cards: ``float32[B, 52]``."""
    del keys
    policy, _ = networks.apply(model.network, model.params, jax.vmap(features.encode_average)(views))
    return jnp.where(legal(views), policy, NO_VALUE)
