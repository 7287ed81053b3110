"""Games that an actor plays against itself, and what a critic who sees all hands makes of them.

All four seats play by the same policy, each from its own View, unless there is an opponent. Points are counted in
hundreds here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

import gongzhu_jax as gz
from gongzhu_jax import features, game, networks, view_features
from gongzhu_jax.players import Player
from gongzhu_jax.rules import PAPER, Rules

UNIT = 100.0
"""Points."""
LEGAL = next(block for block in view_features.BLOCKS if block.holds == "my legal cards")
VOIDS = [block for block in view_features.BLOCKS if "shown a void" in block.holds]
OTHERS = [block for block in features.BLOCKS if "in hand" in block.holds][1:]
"""Where inputs say what is legal, who has shown a void, and who holds what."""


class Experience(NamedTuple):
    """What is learned from, ``[N]`` decisions, game by game.

    seen: ``bool[N, 768]``, the actor's input.
    hands: ``bool[N, 434]``, the critic's.
    card: ``int8[N]``, what was played.
    log_policy: ``float32[N, 52]``, the policy that played it; very low where illegal.
    gain: ``float32[N, 52]``, what the mover's team gains by each card over the policy's mean, times the weight of the
      card: its probability where the critic says so, 1 where it was played.
    to_come: ``float32[N]``, the return: what the mover's team is to win over the other from here on.
    counts: ``bool[N]``, whether there was a choice.
    """

    seen: jax.Array
    hands: jax.Array
    card: jax.Array
    log_policy: jax.Array
    gain: jax.Array
    to_come: jax.Array
    counts: jax.Array


class Judged(NamedTuple):
    """A critic's view of positions ``[...]``, from the mover's side, in units.

    mean: ``float32[...]``, of the policy that plays.
    of_cards: ``float32[..., 52]``, by card; the same for all where the critic values positions.
    """

    mean: jax.Array
    of_cards: jax.Array


def judge(by_card: bool, outputs: tuple[jax.Array, jax.Array], policy: jax.Array) -> Judged:
    """Read a critic's outputs (52 numbers and a value, see :mod:`gongzhu_jax.networks`).

    Args:
      by_card: whether the numbers are read too: Q(s, a) is the value plus the number of a, in tens of points.
      policy: ``float32[..., 52]``, probabilities.
    """
    numbers, value = outputs
    value = value[..., None] / UNIT
    if not by_card:
        return Judged(value[..., 0], jnp.broadcast_to(value, numbers.shape))
    of_cards = value + numbers * (networks.VALUE_SCALE / UNIT)
    return Judged(jnp.sum(policy * of_cards, axis=-1), of_cards)


def log_policy_of(numbers: jax.Array, legal: jax.Array) -> jax.Array:
    """Logarithms of an actor's probabilities: ``float32[..., 52]``, −1e9 where illegal."""
    return jax.nn.log_softmax(jnp.where(legal, numbers, -1e9))


def legal_of(seen: jax.Array) -> jax.Array:
    """The legal cards, from an actor's input: ``bool[..., 52]``."""
    return seen[..., LEGAL.start : LEGAL.start + LEGAL.size]


def holders_of(hands: jax.Array) -> jax.Array:
    """Who of the other seats holds each card, from a critic's input: ``bool[..., 3, 52]``."""
    return jnp.stack([hands[..., block.start : block.start + block.size] for block in OTHERS], axis=-2)


def may_hold(seen: jax.Array) -> jax.Array:
    """Who has not shown a void in each card's suit, from an actor's input: ``bool[..., 3, 52]``."""
    voids = jnp.stack([seen[..., block.start : block.start + block.size] for block in VOIDS], axis=-2)
    return ~jnp.repeat(voids, 13, axis=-1, total_repeat_length=52)


def play_games(
    keys: jax.Array,
    actor: nn.Module,
    critic: nn.Module,
    params: dict[str, Any],
    lam: float,
    by_card: bool,
    all_cards: bool,
    opponent: Player | None = None,
    rules: Rules = PAPER,
) -> tuple[Experience, gz.State]:
    """Deal and play games to the end, cards drawn from the policy.

    Args:
      keys: ``[G]``, one a game: its deal and its luck depend on nothing else.
      params: of "actor" and "critic".
      lam: λ of the returns.
      by_card: the critic values cards and not only positions.
      all_cards: gains of every card and not only of the one played; needs ``by_card``.
      opponent: sits at the seats of one team, each team in half of the games; its decisions do not count. Without
        one, the actor sits at all seats.

    Returns:
      Experience ``[52 · G]`` and the States at the end ``[G]``.
    """
    deal_keys, luck = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    states = jax.vmap(lambda k: gz.deal(k, rules))(deal_keys)
    our_team = jax.vmap(lambda key: jax.random.bernoulli(jax.random.fold_in(key, game.NUM_PLIES)))(luck)
    actor_params = networks.rounded(actor, params["actor"])
    critic_params = networks.rounded(critic, params["critic"])

    def ply(states: gz.State, number: jax.Array) -> tuple[gz.State, Any]:
        views = jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)
        seen = jax.vmap(view_features.encode)(views)
        numbers, _ = networks.apply(actor, actor_params, seen.astype(jnp.float32))
        log_policy = log_policy_of(numbers, legal_of(seen))
        draw = jax.vmap(jax.random.fold_in, (0, None))(luck, number)
        card = jax.vmap(jax.random.categorical)(draw, log_policy).astype(jnp.int8)
        team = jax.vmap(game.mover_team)(states)
        mine = jnp.ones(len(keys), jnp.bool_)
        if opponent is not None:
            mine = team == our_team
            card = jnp.where(mine, card, opponent.choose(draw, views))
        hands = jax.vmap(features.encode)(states)
        judged = judge(by_card, networks.apply(critic, critic_params, hands), jnp.exp(log_policy))
        after = jax.vmap(gz.step)(states, card)
        ours = jnp.where(team == 0, 1, -1)
        won = (jax.vmap(game.margin)(after) - jax.vmap(game.margin)(states)) / UNIT
        return after, (seen, hands.astype(jnp.bool_), card, log_policy, judged, ours, won, mine)

    ended, found = jax.lax.scan(ply, states, jnp.arange(game.NUM_PLIES))
    seen, hands, card, log_policy, judged, ours, won, mine = found
    played = jax.nn.one_hot(card, 52)
    of_played = jnp.sum(judged.of_cards * played, axis=-1)
    mean = jnp.where(mine, judged.mean, of_played)  # what another player would play instead is not known
    to_come = ours * returns(won, ours * mean, ours * of_played, lam)
    if all_cards:
        by_critic = jnp.exp(log_policy) * (judged.of_cards - judged.mean[..., None])
        gain = by_critic + played * (to_come - of_played)[..., None]
    else:
        gain = played * (to_come - judged.mean)[..., None]
    counts = mine & (jnp.sum(legal_of(seen), axis=-1) > 1)
    experience = Experience(seen, hands, card, log_policy, gain, to_come, counts)
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]), experience), ended


def returns(won: jax.Array, mean: jax.Array, of_played: jax.Array, lam: float) -> jax.Array:
    """Expected SARSA(λ): what team 0 is to win from every ply on, all in its favour.

    R_t = w_t + V_{t+1} + λ (R_{t+1} − Q_{t+1}), with V the mean over the policy and Q of the card played; where a
    critic values positions only, Q = V and these are the λ-returns of generalised advantage estimation.

    Args:
      won: ``float32[T, G]``, between this ply and the next.
      mean, of_played: ``float32[T, G]``, V and Q; 0 after the end.
    """

    def back(later: tuple[jax.Array, jax.Array, jax.Array], now: Any) -> Any:
        won, mean, of_played = now
        after, mean_after, of_played_after = later
        found = won + mean_after + lam * (after - of_played_after)
        return (found, mean, of_played), found

    nothing = jnp.zeros(won.shape[1:])
    _, found = jax.lax.scan(back, (nothing, nothing, nothing), (won, mean, of_played), reverse=True)
    return found
