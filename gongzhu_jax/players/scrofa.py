"""ScrofaZero: sampled worlds, weights by what was played, a tree search in each world (paper section 4)."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from gongzhu_jax import belief as beliefs
from gongzhu_jax import cards, game, models, networks, search, worlds
from gongzhu_jax.belief import Weights
from gongzhu_jax.models import Model
from gongzhu_jax.players.base import NO_VALUE, Player, best_card, legal, spec_of
from gongzhu_jax.view import View

Sampling = Literal["uniform", "strata", "strata-equal"]
IEC = beliefs.Settings()
SEARCH = search.Settings(base=10, per_card=2, chunk=192)


class Explanation(NamedTuple):
    """Why a card was played, ``[B]`` decisions over N worlds.

    values: ``float32[B, 52]``, the weighted mean of q, points of the deal for the viewer's team; −inf where illegal.
    hidden: ``uint16[B, N, 3, 4]``, the worlds: hands of seats 1..3 counted from the viewer.
    weights: ``float32[B, N]`` and how they came about.
    q: ``float32[B, N, 52]``, the search's mean values in each world.
    visits: ``int32[B, N, 52]``.
    """

    values: jax.Array
    hidden: jax.Array
    weights: Weights
    q: jax.Array
    visits: jax.Array


@dataclasses.dataclass(frozen=True)
class Settings:
    """How ScrofaZero plays.

    Attributes:
      worlds: N, sampled for each decision; where there are no more than N, all of them are taken.
      sampling: "uniform", "strata" with exact weights of strata, or "strata-equal", the paper's zeroth order.
      belief: how worlds are weighed.
      search: the search in each world.

    Raises:
      ValueError: a field is out of its range.
    """

    worlds: int = 9
    sampling: Sampling = "strata"
    belief: beliefs.Settings = IEC
    search: search.Settings = SEARCH

    def __post_init__(self) -> None:
        if self.worlds < 1:
            raise ValueError(f"worlds must be at least 1, not {self.worlds}")
        if self.sampling not in get_args(Sampling):
            raise ValueError(
                f"sampling must be one of {', '.join(get_args(Sampling))}, not {self.sampling!r}"
            )


def scrofa(
    model: str = models.SCROFA,
    worlds: int = 9,
    sampling: str = "strata",
    belief: str = "iec",
    b: int = SEARCH.base,
    k: int = SEARCH.per_card,
    c: float = SEARCH.exploration,
    beta: float = IEC.beta,
    above: int = IEC.above,
) -> Player:
    """ScrofaZero with a trained network.

    Args:
      model: path or name of a model that reads open hands.
      worlds: sampled for each decision.
      sampling: uniform, strata or strata-equal.
      belief: none, iec, iec-line, naive-bayes or likelihood.
      b, k: of the search budget T = b + k · L.
      c: exploration in points.
      beta: of the belief, per policy logit.
      above: plays of a rank above this one count for the belief.

    Raises:
      ValueError: the model cannot be read, or a parameter is out of range.
    """
    name = spec_of("scrofa", scrofa, locals())
    settings = Settings(
        worlds,
        sampling,  # type: ignore[arg-type]  # checked there
        dataclasses.replace(IEC, rule=belief, beta=beta, above=above),  # type: ignore[arg-type]
        dataclasses.replace(SEARCH, base=b, per_card=k, exploration=c),
    )
    return dataclasses.replace(from_model(models.load(model), name, settings), models=(model,))


def from_model(model: Model, name: str, settings: Settings) -> Player:
    """:func:`scrofa` for a model in memory."""
    networks.check_reads(model.network, "open")

    def explain(keys: jax.Array, views: View) -> Explanation:
        return _explain(model, settings, keys, views)

    def values(keys: jax.Array, views: View) -> jax.Array:
        return explain(jax.vmap(jax.random.split)(keys)[:, 0], views).values

    def choose(keys: jax.Array, views: View) -> jax.Array:
        both = jax.vmap(jax.random.split)(keys)
        only = jax.vmap(cards.count)(jax.vmap(game.legal_masks)(views)) == 1
        forced = jnp.where(legal(views), 0.0, NO_VALUE)
        found = _explain(model, settings, both[:, 0], views, idle=only).values
        return jax.vmap(best_card)(both[:, 1], jnp.where(only[:, None], forced, found))

    return Player(name, choose, values, chunk=64, explain=explain)


def _explain(
    model: Model, settings: Settings, keys: jax.Array, views: View, idle: jax.Array | None = None
) -> Explanation:
    """Decide; nothing is searched where ``idle``."""
    hidden, proposal = jax.vmap(lambda key, view: _sample(key, view, settings))(keys, views)

    def policy(inputs: jax.Array) -> jax.Array:
        return networks.apply(model.network, model.params, inputs)[0]

    scores = beliefs.log_scores(views, hidden, policy, settings.belief)
    weights = beliefs.weigh(scores, proposal, settings.belief.least)
    states = jax.vmap(jax.vmap(worlds.to_state, (None, 0)))(views, hidden)
    if idle is not None:
        over = jnp.where(idle, jnp.int8(game.NUM_PLIES), views.ply)
        states = dataclasses.replace(states, ply=jnp.broadcast_to(over[:, None], states.ply.shape))
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), states)
    found = search.search(flat, networks.leaf_function(model.network, model.params), settings.search)
    q, visits = (x.reshape(*hidden.shape[:2], 52) for x in (found.q, found.visits))
    counted = jnp.where(jnp.isfinite(q), q, 0.0) * weights.weights[:, :, None]
    values = jnp.where(legal(views), jnp.sum(counted, axis=1), NO_VALUE)
    return Explanation(values, hidden, weights, q, visits)


def _sample(key: jax.Array, view: View, settings: Settings) -> tuple[jax.Array, jax.Array]:
    """Worlds ``uint16[N, 3, 4]`` and their weights before any belief ``float32[N]``."""
    if settings.sampling == "uniform":
        return worlds.sample_or_all(key, view, settings.worlds)
    weights: worlds.StrataWeights = "exact" if settings.sampling == "strata" else "equal"
    return worlds.sample_strata(key, view, settings.worlds, weights)
