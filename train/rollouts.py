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


@functools.partial(jax.jit, static_argnames=("network", "settings", "rules"))
def play_games(
    keys: jax.Array,
    params: Any,
    network: nn.Module,
    settings: search.Settings = search.DEFAULT,
    rules: Rules = PAPER,
) -> tuple[Samples, State]:
    """Deal and play games to the end, all four seats searching with the true hands.

    Each plays the card of its search, ``Result.card``: with the rules "ucb" and "puct" that of the best mean value,
    ties at random.

    Args:
      keys: ``[G]``, one a game: its deal and its luck (ties, the noise of "gumbel") depend on nothing else.
      settings: of the search, and what the policy target is; static.

    Returns:
      Samples ``[52 · G]``, game by game, and the States at the end ``[G]``.
    """
    deal_keys, luck = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    states = jax.vmap(lambda k: gz.deal(k, rules))(deal_keys)
    leaf = networks.leaf_function(network, params)

    def ply(states: State, number: jax.Array) -> tuple[State, Samples]:
        found = search.search(states, leaf, settings, jax.vmap(jax.random.fold_in, (0, None))(luck, number))
        made = jax.vmap(game.margin)(states).astype(jnp.float32)
        made = jnp.where(jax.vmap(game.mover_team)(states) == 0, made, -made)
        samples = Samples(
            inputs=jax.vmap(features.encode)(states).astype(jnp.bool_),
            policy=found.policy,
            value=found.value - made,
            legal=jax.vmap(gz.legal_cards)(states),
        )
        return jax.vmap(gz.step)(states, found.card), samples

    ended, samples = jax.lax.scan(ply, states, jnp.arange(game.NUM_PLIES))
    by_game = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]), samples)
    return by_game, ended
