"""How likely a world is: what the other seats played, judged by a policy that knows what each of them knew.

A world says which hand every seat held at every earlier ply. A policy that would not have played the card from that
hand speaks against the world (ScrofaZero, section 4.3: importance, equations 4 to 15). The policy sees each past
position as that seat saw it, the others' hands averaged, so that nothing is assumed known that was not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from gongzhu_jax import cards, features, game
from gongzhu_jax.view import View, players, rewind

PolicyFunction = Callable[[jax.Array], jax.Array]
"""Network inputs ``float32[C, F]`` to policy numbers ``float32[C, 52]``."""

Rule = Literal["none", "iec", "iec-line", "naive-bayes", "likelihood"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """How worlds are scored; hashable, so that it can be a static argument.

    With q the policy numbers of the legal cards of a past hand and a the card that was played from it, a world's
    score is the product over important plays of

    * "iec" (integral over card similarity, equation 15): γ(a) = exp(−β · (max q − q_a));
    * "iec-line", as the authors' program has it: max(1 − β · regret, ``floor``), the regret taken within the suit
      of a;
    * "naive-bayes" (equation 13): γ(a) / Σ γ over the legal cards;
    * "likelihood": softmax(q)_a, the policy's own probability;
    * "none": 1.

    Attributes:
      rule: one of these.
      beta: β per policy logit; the authors' 0.015 a point, with 0.2 logits a point.
      floor: of "iec-line".
      above: only plays of a rank above this one count (2 … 10, 11 J, 12 Q, 13 K; 1: all).
      led_suit_only: while the viewer follows suit, only plays of the suit led now count.
      least: effective worlds to keep, see :func:`weigh`.

    Raises:
      ValueError: a field is out of its range.
    """

    rule: Rule = "iec"
    beta: float = 0.015 / 0.2
    floor: float = 0.1
    above: int = 7
    led_suit_only: bool = True
    least: float = 2.0

    def __post_init__(self) -> None:
        checks = {
            "rule": (self.rule in get_args(Rule), f"one of {', '.join(get_args(Rule))}"),
            "beta": (0 <= self.beta < math.inf, "a number per logit, at least 0"),
            "floor": (0 < self.floor <= 1, "above 0 and at most 1"),
            "above": (1 <= self.above <= 13, "a rank, 1 to 13"),
            "least": (1 <= self.least < math.inf, "at least 1"),
        }
        for name, (fine, right) in checks.items():
            if not fine:
                raise ValueError(f"{name} must be {right}, not {getattr(self, name)!r}")


class Weights(NamedTuple):
    """Weights of worlds, ``[..., N]`` and ``[...]``.

    weights: ``float32[..., N]``, adding up to 1.
    effective: ``float32[...]``, the effective sample size 1 / Σ w².
    exponent: ``float32[...]``, what scores were raised to, 1 unless they were tempered.
    """

    weights: jax.Array
    effective: jax.Array
    exponent: jax.Array


def log_scores(
    views: View,
    hidden: jax.Array,
    policy: PolicyFunction,
    settings: Settings,
    chunk: int = 512,
    encode: Callable[[View], jax.Array] = features.encode_average,
) -> jax.Array:
    """The logarithm of every world's score.

    All past positions that count, of all views and worlds, go to the policy in chunks; where worlds agree on the
    hand of the seat that played, it is asked once.

    Args:
      views: ``[B]``.
      hidden: ``uint16[B, N, 3, 4]``, worlds of each.
      policy: such as that of a network.
      settings: static.
      chunk: positions in a call of the policy; static.
      encode: what the policy reads of the View of who played.

    Returns:
      ``float32[B, N]``, up to a constant for each View.
    """
    hidden = jnp.asarray(hidden)
    num, num_worlds = hidden.shape[:2]
    if settings.rule == "none":
        return jnp.zeros((num, num_worlds))
    counts = jax.vmap(lambda v: important(v, settings))(views)  # [B, 52]
    first = jax.vmap(_first_with_the_same_hand)(hidden)  # [B, N, 3]
    seat = jnp.clip(jax.vmap(players)(views).astype(jnp.int32) - 1, 0, 2)  # [B, 52]
    same = jnp.take_along_axis(first, jnp.broadcast_to(seat[:, None], (num, num_worlds, 52)), axis=2)
    own = jnp.arange(num_worlds)[:, None]
    asked = counts[:, None] & (same == own)  # [B, N, 52]

    total = asked.size
    num_chunks = -(-total // chunk)
    rows = jnp.nonzero(asked.reshape(-1), size=num_chunks * chunk, fill_value=total)[0]

    def one_chunk(i: jax.Array, factors: jax.Array) -> jax.Array:
        some = jax.lax.dynamic_slice(rows, (i * chunk,), (chunk,))
        row = jnp.minimum(some, total - 1)
        game_number, world, ply = row // (52 * num_worlds), row // 52 % num_worlds, row % 52
        seen = jax.tree.map(lambda x: x[game_number], views)
        past = jax.vmap(rewind)(seen, hidden[game_number, world], ply)
        numbers = policy(jax.vmap(encode)(past).astype(jnp.float32))
        legal = jax.vmap(game.legal_cards)(past)
        played = jnp.take_along_axis(seen.plays, ply[:, None], axis=1)[:, 0].astype(jnp.int32)
        found = jax.vmap(_log_factor, (0, 0, 0, None))(numbers, legal, played, settings)
        return factors.at[some].set(found, mode="drop")

    needed = (jnp.sum(asked, dtype=jnp.int32) + chunk - 1) // chunk
    factors = jax.lax.fori_loop(0, needed, one_chunk, jnp.zeros(total)).reshape(num, num_worlds, 52)
    return jnp.sum(jnp.where(counts[:, None], jnp.take_along_axis(factors, same, axis=1), 0.0), axis=2)


def important(view: View, settings: Settings) -> jax.Array:
    """The past plays that count: ``bool[52]``, none of the viewer's own."""
    suit, rank = cards.suit(view.plays), cards.rank(view.plays)
    number = jnp.arange(game.NUM_PLIES, dtype=jnp.int8)
    counted = (number < view.ply) & (players(view) != 0) & (rank >= settings.above - 1)
    led = cards.suit(game.table(view)[0])
    follows = (led >= 0) & (jnp.sum(jnp.where(jnp.arange(4) == led, view.hand, 0)) > 0)
    if settings.led_suit_only:
        counted &= ~follows | (suit == led)
    return counted


def _first_with_the_same_hand(hidden: jax.Array) -> jax.Array:
    """For worlds ``uint16[N, 3, 4]``: the first world that gives a seat the same hand, ``int32[N, 3]``."""
    same = jnp.all(hidden[:, None] == hidden[None], axis=3)  # [N, N, 3]
    return jnp.argmax(same, axis=1).astype(jnp.int32)


def _log_factor(numbers: jax.Array, legal: jax.Array, played: jax.Array, settings: Settings) -> jax.Array:
    """What one play says of the hand it came from, ``float32[]``: see :class:`Settings`."""
    q = jnp.where(legal, numbers, -jnp.inf)
    if settings.rule == "likelihood":
        return jax.nn.log_softmax(q)[played]
    if settings.rule == "iec-line":
        suit = jnp.arange(52) // 13 == played // 13
        regret = jnp.max(jnp.where(suit, q, -jnp.inf)) - q[played]
        return jnp.log(jnp.maximum(1 - settings.beta * regret, settings.floor))
    log_gamma = -settings.beta * (jnp.max(q) - q)
    if settings.rule == "naive-bayes":
        return log_gamma[played] - jax.nn.logsumexp(jnp.where(legal, log_gamma, -jnp.inf))
    return log_gamma[played]


def weigh(scores: jax.Array, proposal: jax.Array, least: float = 2.0) -> Weights:
    """Weights of worlds from their scores.

    Weights are ∝ proposal · exp(α · score). The exponent α is the largest of 1, ½, ¼, … 1/64, 0 that keeps ``least``
    effective worlds, or what the proposal has if that is fewer: scores that would leave one world speak louder than
    a few samples can answer.

    Args:
      scores: ``float32[..., N]``, logarithms, as of :func:`log_scores`.
      proposal: ``float32[..., N]``, weights of the worlds before any score, adding up to 1; 0 for worlds that do
        not count.
    """
    exponents = jnp.array([*(0.5**i for i in range(7)), 0.0])
    log_proposal = jnp.where(proposal > 0, jnp.log(jnp.where(proposal > 0, proposal, 1.0)), -jnp.inf)
    tempered = jax.nn.softmax(log_proposal[..., None, :] + exponents[:, None] * scores[..., None, :], axis=-1)
    effective = 1 / jnp.sum(tempered**2, axis=-1)
    enough = effective >= jnp.minimum(least, effective[..., -1:]) * (1 - 1e-5)
    chosen = jnp.argmax(enough, axis=-1)
    return Weights(
        weights=jnp.take_along_axis(tempered, chosen[..., None, None], axis=-2)[..., 0, :],
        effective=jnp.take_along_axis(effective, chosen[..., None], axis=-1)[..., 0],
        exponent=exponents[chosen],
    )
