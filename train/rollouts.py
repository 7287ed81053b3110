"""Self-play with open hands: every ply is searched, played, and becomes a sample (ScrofaZero, section 3.3)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

import gongzhu_jax as gz
from gongzhu_jax import features, game, networks, search
from gongzhu_jax.game import State
from gongzhu_jax.rules import PAPER, Rules


class Samples(NamedTuple):
    """What the network learns from, ``[N]`` positions.

    inputs: ``bool[N, 434]``, open hands, for the player to move.
    policy: ``float32[N, 52]``, a distribution over the legal cards.
    value: ``float32[N]``, points that the mover's team is expected to win over the other's from here on.
    legal: ``bool[N, 52]``.
    """

    inputs: jax.Array
    policy: jax.Array
    value: jax.Array
    legal: jax.Array


@functools.partial(jax.jit, static_argnames=("network", "games", "settings", "rules"))
def play_games(
    key: jax.Array,
    params: Any,
    network: nn.Module,
    games: int,
    settings: search.Settings = search.DEFAULT,
    rules: Rules = PAPER,
) -> tuple[Samples, State]:
    """Deal and play some games to the end, all four seats searching with the true hands.

    Each plays the card of its search, ``Result.card``: with the rules "ucb" and "puct" that of the best mean value,
    ties at random.

    Args:
      key: of the deals, of ties and of the noise of "gumbel".
      games: how many; static.
      settings: of the search, and what the policy target is; static.

    Returns:
      Samples ``[52 · games]``, ply by ply, and the States at the end ``[games]``.
    """
    key_deal, key_play = jax.random.split(key)
    states = jax.vmap(lambda k: gz.deal(k, rules))(jax.random.split(key_deal, games))
    leaf = networks.leaf_function(network, params)

    def ply(states: State, key: jax.Array) -> tuple[State, Samples]:
        found = search.search(states, leaf, settings, jax.random.split(key, games))
        made = jax.vmap(game.margin)(states).astype(jnp.float32)
        made = jnp.where(jax.vmap(game.mover_team)(states) == 0, made, -made)
        samples = Samples(
            inputs=jax.vmap(features.encode)(states).astype(jnp.bool_),
            policy=found.policy,
            value=found.value - made,
            legal=jax.vmap(gz.legal_cards)(states),
        )
        return jax.vmap(gz.step)(states, found.card), samples

    ended, samples = jax.lax.scan(ply, states, jax.random.split(key_play, game.NUM_PLIES))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples), ended
