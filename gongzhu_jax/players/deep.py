"""A trained actor that thinks ahead: cards are played out by the actor itself in worlds that fit what was played.

Every seat of a playout decides from its own View, so that a continuation knows no more than a player would: the search
cannot peek, as searches of open worlds do (strategy fusion; Frank and Basin 1998). Worlds are drawn by what the actor
believes of single cards, by how likely it would have played what the others played, or by both.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from gongzhu_jax import belief as beliefs
from gongzhu_jax import cards, endgame, game, models, networks, view_features, worlds
from gongzhu_jax.belief import Weights
from gongzhu_jax.models import Model
from gongzhu_jax.players.actor import policy_numbers
from gongzhu_jax.players.base import NO_VALUE, Player, best_card, spec_of
from gongzhu_jax.view import View, view
from gongzhu_jax.worlds._sampling import pick

Belief = Literal["none", "likelihood", "hands", "both"]
LIKELIHOOD = beliefs.Settings("likelihood", above=1, led_suit_only=False)
CHUNK = 256
"""Playouts in lockstep."""
SOLVE_CHUNK = 8
"""Views whose endings are solved at a time."""


class Explanation(NamedTuple):
    """Why a card was played, ``[B]`` decisions.

    values: ``float32[B, 52]``, points of the deal for the viewer's team by card, the mean over worlds; −inf for cards
      that were not looked into.
    policy: ``float32[B, 52]``, logits of the actor; −inf where illegal.
    gain, error: ``float32[B, 52]``, points over the actor's card in the same worlds, with the standard error.
    hidden: ``uint16[B, P, 3, 4]``, worlds: hands of seats 1..3 counted from the viewer.
    weights: ``float32[B, P]`` and how they came about.
    """

    values: jax.Array
    policy: jax.Array
    gain: jax.Array
    error: jax.Array
    hidden: jax.Array
    weights: Weights


@dataclasses.dataclass(frozen=True)
class Settings:
    """How much is looked into, and when it is believed.

    Attributes:
      simulations: playouts for a decision, shared evenly by the cards that are looked into.
      proposals: random worlds that are weighed.
      belief: how likely a world is: "likelihood": by what the actor would have played with the hands of those who
        played; "hands": by what it says of single cards; "both": drawn by the latter and weighed by the former;
        "none": all alike.
      temper: the exponent of the likelihood of what was played; small, as actors are surer of their cards than others
        who play as well: at 1 a few worlds would outweigh all others.
      considered: at most so many cards are looked into, those that the actor likes best.
      horizon: plies that are played out before a critic values the position; 52: to the end, without a critic.
      deviate: a card is played instead of the actor's own if it gains more than so many standard errors.
      solve: worlds in which the last three tricks are solved instead; 0: never.

    Raises:
      ValueError: a field is out of its range.
    """

    simulations: int = 64
    proposals: int = 64
    belief: Belief = "hands"
    temper: float = 0.1
    considered: int = 6
    horizon: int = 4
    deviate: float = 1.0
    solve: int = 32

    def __post_init__(self) -> None:
        checks = {
            "simulations": (self.simulations >= 4, "at least 4"),
            "proposals": (self.proposals >= 1, "at least 1"),
            "belief": (self.belief in get_args(Belief), f"one of {', '.join(get_args(Belief))}"),
            "temper": (0 <= self.temper < math.inf, "a number, at least 0"),
            "considered": (2 <= self.considered <= 13, "from 2 to 13"),
            "horizon": (0 <= self.horizon <= game.NUM_PLIES, f"from 0 to {game.NUM_PLIES}"),
            "deviate": (0 <= self.deviate < math.inf, "a number of standard errors, at least 0"),
            "solve": (self.solve >= 0, "at least 0"),
        }
        for name, (fine, right) in checks.items():
            if not fine:
                raise ValueError(f"{name} must be {right}, not {getattr(self, name)}")


DEFAULT = Settings()


def deep(
    model: str = models.ACTOR,
    critic: str = models.CRITIC,
    simulations: int = DEFAULT.simulations,
    proposals: int = DEFAULT.proposals,
    belief: str = DEFAULT.belief,
    temper: float = DEFAULT.temper,
    considered: int = DEFAULT.considered,
    horizon: int = DEFAULT.horizon,
    deviate: float = DEFAULT.deviate,
    solve: int = DEFAULT.solve,
) -> Player:
    """An actor that plays out its cards in likely worlds.

    Args:
      model: path or name of an actor's model.
      critic: of its critic's, such as ``best-critic.model`` of a run; values playouts that stop at ``horizon``.
      simulations: playouts for a decision; time grows with it.
      proposals: worlds that are weighed.
      belief: none, likelihood, hands or both.
      temper: exponent of the likelihood.
      considered: cards that are looked into, at most.
      horizon: plies of a playout before the critic's value; 52: to the end of the deal, without the critic.
      deviate: standard errors by which another card must gain over the actor's.
      solve: worlds in which the last three tricks are solved; 0: never.

    Raises:
      ValueError: a model cannot be read or is of another kind, or a parameter is out of range.
    """
    name = spec_of("deep", deep, locals())
    settings = Settings(
        simulations,
        proposals,
        belief,  # type: ignore[arg-type]  # checked there
        temper,
        considered,
        horizon,
        deviate,
        solve,
    )
    ends_early = horizon < game.NUM_PLIES
    player = from_model(models.load(model), name, settings, models.load(critic) if ends_early else None)
    return dataclasses.replace(player, models=(model, critic) if ends_early else (model,))


def from_model(model: Model, name: str, settings: Settings = DEFAULT, critic: Model | None = None) -> Player:
    """:func:`deep` for models in memory; the critic is needed where playouts end early."""
    networks.check_reads(model.network, "view")
    if critic is None and settings.horizon < game.NUM_PLIES:
        raise ValueError(f"horizon {settings.horizon} needs a critic")
    if settings.belief in ("hands", "both") and not getattr(model.network, "hands", False):
        raise ValueError(f"belief {settings.belief}: the model says nothing about hands")
    if critic is not None:
        networks.check_reads(critic.network, "open")
    model = model._replace(params=networks.rounded(model.network, model.params))

    def explain(keys: jax.Array, views: View) -> Explanation:
        return _explain(model, critic, settings, jax.vmap(jax.random.split)(keys)[:, 0], views)

    def values(keys: jax.Array, views: View) -> jax.Array:
        return explain(keys, views).values

    def choose(keys: jax.Array, views: View) -> jax.Array:
        both = jax.vmap(jax.random.split)(keys)
        why = _explain(model, critic, settings, both[:, 0], views)
        clear = why.gain > settings.deviate * why.error
        solved = views.ply[:, None] >= endgame.FIRST_PLY if settings.solve else False
        best = jnp.where(clear | solved, why.gain, NO_VALUE)
        own = jax.nn.one_hot(jnp.argmax(why.policy, axis=1), 52, dtype=jnp.bool_)
        best = jnp.where(own, jnp.maximum(best, 0.0), best)  # and on a tie, the actor's card
        best = jnp.where(own & (best >= jnp.max(best, axis=1, keepdims=True)), jnp.inf, best)
        return jax.vmap(best_card)(both[:, 1], best)

    return Player(name, choose, values, chunk=64, explain=explain)


def _explain(
    model: Model, critic: Model | None, settings: Settings, keys: jax.Array, views: View
) -> Explanation:
    policy = policy_numbers(model, views)
    of_worlds, of_draw = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    hidden, weights = _believe(model, settings, of_worlds, views)
    points = jax.vmap(jax.random.uniform)(of_draw)

    looked = _candidates(policy, settings.considered)
    solved = (views.ply >= endgame.FIRST_PLY) & (settings.solve > 0)
    number = jnp.sum(looked, axis=1, dtype=jnp.int32)
    num_worlds = jnp.where(solved | (number < 2), 0, settings.simulations // jnp.maximum(number, 1))
    found = _play_out_all(model, critic, settings, views, policy, hidden, weights, points, looked, num_worlds)
    if settings.solve:
        drawn = jax.vmap(lambda w, u: _draw(w, u, jnp.int32(settings.solve), settings.solve))(
            weights.weights, points
        )
        ends = _solve_all(views, hidden, drawn, solved)
        found = jax.tree.map(
            lambda x, y: jnp.where(solved.reshape(-1, *[1] * (x.ndim - 1)), x, y),
            _compare(ends, policy, jnp.full(number.shape, settings.solve)),
            found,
        )
    return Explanation(*found[:1], policy, *found[1:], hidden, weights)


def _believe(model: Model, settings: Settings, keys: jax.Array, views: View) -> tuple[jax.Array, Weights]:
    """Worlds ``uint16[B, P, 3, 4]`` and their weights."""
    n = settings.proposals
    if settings.belief in ("hands", "both"):
        inputs = jax.vmap(view_features.encode)(views).astype(jnp.float32)
        odds = networks.apply_with_hands(model.network, model.params, inputs)[2]
        drawn = jax.vmap(lambda key, v, o: worlds.sample_weighted(key, v, o, n))(keys, views, odds)
        hidden, proposal = drawn.hidden, jnp.full(drawn.log_probability.shape, 1 / n)
        correction = -drawn.log_probability
    else:
        hidden, proposal = jax.vmap(lambda key, v: worlds.sample_or_all(key, v, n))(keys, views)
        correction = jnp.zeros(proposal.shape)
    if settings.belief in ("none", "hands"):
        return hidden, beliefs.weigh(jnp.zeros(proposal.shape), proposal)

    def policy(inputs: jax.Array) -> jax.Array:
        return networks.apply(model.network, model.params, inputs)[0]

    scores = beliefs.log_scores(views, hidden, policy, LIKELIHOOD, encode=view_features.encode)
    return hidden, beliefs.weigh(settings.temper * scores + correction, proposal, LIKELIHOOD.least)


def _candidates(policy: jax.Array, most: int) -> jax.Array:
    """The legal cards that an actor likes best: ``bool[B, 52]``."""
    least = jax.lax.top_k(policy, most)[0][:, -1:]
    return jnp.isfinite(policy) & (policy >= least)


def _draw(weights: jax.Array, point: jax.Array, num: jax.Array, most: int) -> jax.Array:
    """Systematic resampling: ``num`` worlds in proportion to their weights, ``int32[most]``; the rest mean nothing."""
    at = (point + jnp.arange(most)) / jnp.maximum(num, 1)
    return jax.vmap(pick, (0, None))(at, weights)


def _play_out_all(
    model: Model,
    critic: Model | None,
    settings: Settings,
    views: View,
    policy: jax.Array,
    hidden: jax.Array,
    weights: Weights,
    points: jax.Array,
    looked: jax.Array,
    num_worlds: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Play out every candidate in the same worlds: values, gains over the actor's card and their errors."""
    num, most = len(points), settings.simulations // 2
    drawn = jax.vmap(lambda w, u, n: _draw(w, u, n, most))(weights.weights, points, num_worlds)
    masks = jax.vmap(cards.to_masks)(looked)
    slots = settings.considered
    card = jax.vmap(lambda m: jax.vmap(cards.nth, (None, 0))(m, jnp.arange(slots)))(masks)  # [B, S]
    exists = jnp.arange(slots) < jnp.sum(looked, axis=1, keepdims=True)
    asked = (jnp.arange(most) < num_worlds[:, None])[:, :, None] & exists[:, None]  # [B, K, S]

    total, at_most = asked.size, num * settings.simulations
    num_chunks = -(-at_most // CHUNK)
    rows = jnp.nonzero(asked.reshape(-1), size=num_chunks * CHUNK, fill_value=total)[0]

    def one_chunk(i: jax.Array, values: jax.Array) -> jax.Array:
        some = jax.lax.dynamic_slice(rows, (i * CHUNK,), (CHUNK,))
        row = jnp.minimum(some, total - 1)
        which, world, slot = row // (most * slots), row // slots % most, row % slots
        seen = jax.tree.map(lambda x: x[which], views)
        states = jax.vmap(worlds.to_state)(seen, hidden[which, drawn[which, world]])
        found = _play_out(model, critic, settings.horizon, states, card[which, slot])
        return values.at[some].set(found, mode="drop")

    needed = (jnp.sum(asked, dtype=jnp.int32) + CHUNK - 1) // CHUNK
    values = jax.lax.fori_loop(0, needed, one_chunk, jnp.zeros(total)).reshape(num, most, slots)
    by_card = jnp.where(asked, values, 0.0)
    spread = jax.nn.one_hot(jnp.where(exists, card, -1), 52)  # [B, S, 52]
    by_card = jnp.einsum("bks,bsc->bkc", by_card, spread, precision="highest")
    by_card = jnp.where(
        looked[:, None] & (jnp.arange(most) < num_worlds[:, None])[:, :, None], by_card, jnp.nan
    )
    return _compare(by_card, policy, num_worlds)


def _compare(
    by_card: jax.Array, policy: jax.Array, num_worlds: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Means over worlds, and what cards gain over the actor's in the same worlds.

    Args:
      by_card: ``float32[B, K, 52]``, points; NaN where nothing was found.

    Returns:
      ``float32[B, 52]`` values (−inf where unknown), gains (likewise) and standard errors.
    """
    first = jnp.argmax(policy, axis=1)
    known = jnp.isfinite(by_card)
    gains = by_card - jnp.take_along_axis(by_card, first[:, None, None], axis=2)
    count = jnp.maximum(num_worlds, 1)[:, None].astype(jnp.float32)

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(known, x, 0.0), axis=1) / count

    gain = mean(gains)
    variance = mean(jnp.square(gains - gain[:, None])) * count / jnp.maximum(count - 1, 1)
    found = jnp.any(known, axis=1)
    return (
        jnp.where(found, mean(by_card), NO_VALUE),
        jnp.where(found, gain, NO_VALUE),
        jnp.sqrt(variance / count),
    )


def _play_out(
    model: Model, critic: Model | None, horizon: int, states: game.State, card: jax.Array
) -> jax.Array:
    """Points of team 0 after cards ``int8[C]`` and the actor's best from then on: ``float32[C]``."""

    def decide(states: game.State) -> jax.Array:
        seen = jax.vmap(lambda s: view(s, game.mover(s)))(states)
        return jnp.argmax(policy_numbers(model, seen), axis=1).astype(jnp.int8)

    Carry = tuple[game.State, jax.Array, jax.Array]

    def goes_on(carry: Carry) -> jax.Array:
        states, _, plies = carry
        return (plies < horizon) & ~jnp.all(jax.vmap(game.is_over)(states))

    def ply(carry: Carry) -> Carry:
        states, card, plies = carry
        states = jax.vmap(game.step)(states, card)
        return states, decide(states), plies + 1

    states, card, _ = jax.lax.while_loop(goes_on, ply, (states, card, jnp.int32(0)))
    points = jax.vmap(game.margin)(states).astype(jnp.float32)
    if critic is None:
        return points
    numbers, value = networks.leaf_function(critic.network, critic.params)(states)
    chosen = jnp.take_along_axis(numbers, card[:, None].astype(jnp.int32), axis=1)[:, 0]
    by_card = critic.info.get("config", {}).get("critic") != "value"
    to_come = value + networks.VALUE_SCALE * chosen if by_card else value
    to_come = jnp.where(jax.vmap(game.mover_team)(states) == 0, to_come, -to_come)
    return points + jnp.where(jax.vmap(game.is_over)(states), 0.0, to_come)


def _solve_all(views: View, hidden: jax.Array, drawn: jax.Array, solved: jax.Array) -> jax.Array:
    """Exact values in drawn worlds of the last three tricks ``float32[B, K, 52]``, NaN for other Views and cards."""
    num, size = len(solved), min(SOLVE_CHUNK, len(solved))
    num_chunks = -(-num // size)
    rows = jnp.nonzero(solved, size=num_chunks * size, fill_value=num)[0]

    def one_chunk(i: jax.Array, values: jax.Array) -> jax.Array:
        some = jax.lax.dynamic_slice(rows, (i * size,), (size,))
        row = jnp.minimum(some, num - 1)
        late = jax.tree.map(lambda x: x[row], views)
        chosen = jnp.take_along_axis(hidden[row], drawn[row][:, :, None, None], axis=1)
        states = jax.vmap(jax.vmap(worlds.to_state, (None, 0)))(late, chosen)
        found = jax.vmap(jax.vmap(endgame.card_values))(states)
        return values.at[some].set(jnp.where(jnp.isfinite(found), found, jnp.nan), mode="drop")

    needed = (jnp.sum(solved, dtype=jnp.int32) + size - 1) // size
    return jax.lax.fori_loop(0, needed, one_chunk, jnp.full((num, drawn.shape[1], 52), jnp.nan))
