"""Batched tree search with open hands (ScrofaZero, section 3.2): mean values in points, one net value a leaf.

A tree searches one State; a batch of trees runs in lockstep, one simulation of each at a time, so that all their
leaves go to the network together. Trees whose budget is smaller do not pay for the largest one: roots are sorted by
budget and run in chunks, each only as long as its own largest budget.

``Settings.rule`` says which card a simulation follows. Below, q is the mean of the n simulations through a card, N
went through its node, s = +1 where the root's team moves and −1 elsewhere, and c is ``Settings.exploration``:

* "ucb", the paper's: the largest s · q + c · sqrt(ln N / n), unvisited cards first and in hand order. It needs no
  policy.
* "puct" (Silver et al. 2018, AlphaZero): the largest s · q + c · P · sqrt(N) / (1 + n), where P is the softmax of the
  policy numbers over the legal cards. Unvisited cards take the mean of their node as q; at the root they come
  first, so that every card gets a value.
* "gumbel" (Danihelka et al. 2022, "Policy improvement by planning with Gumbel"): at the root Sequential Halving
  among the cards of the best g + ln P, g being Gumbel noise, by g + ln P + ``sharpness`` · q; below it PUCT.

In all of them a node's cards are first visited in a fixed order: hand order, or falling P (unvisited cards have the
same q, so the largest P is next), or falling g + ln P. A node's children are therefore the first cards in that order,
and a tree is a list of nodes with parents: every step is arithmetic on ``[chunk, nodes]`` arrays, without scatters.
Memory of a tree: :func:`bytes_per_root`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import _tree, cards, game, rules
from gongzhu_jax._tree import Tree
from gongzhu_jax.game import State

LeafFunction = Callable[[State], tuple[jax.Array, jax.Array]]
"""States ``[C]`` to policy numbers ``float32[C, 52]`` and values ``float32[C]``: points that the mover's team will
still win over the other's, to the end. Policy numbers are finite logits; those of illegal cards do not matter."""

Rule = Literal["ucb", "puct", "gumbel"]
Target = Literal["values", "visits"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to search; hashable, so that it can be a static argument.

    A root of L legal cards gets T = ``base`` + ``per_card`` · L simulations, at least L.

    Attributes:
      base: simulations for every root, b.
      per_card: simulations for every legal card of a root, k. The paper trains with b = 0, k = 2 and plays with
        b = 10, k = 2.
      exploration: c in points. The paper's is 30; the authors' program has an effective 42.4 in UCB.
      chunk: roots in lockstep; leaves are evaluated in batches of this size.
      rule: how cards are chosen, see :mod:`gongzhu_jax.search`.
      sharpness: policy logits per point, for the policy target and for the root of "gumbel".
      target: what ``Result.policy`` is made of.
      considered: how many cards the root of "gumbel" visits, at most.

    Raises:
      ValueError: a field is out of its range.
    """

    base: int = 0
    per_card: int = 2
    exploration: float = 30.0
    chunk: int = 128
    rule: Rule = "ucb"
    sharpness: float = 0.2
    target: Target = "values"
    considered: int = rules.HAND_SIZE

    def __post_init__(self) -> None:
        checks = {
            "base": (self.base >= 0, "at least 0"),
            "per_card": (self.per_card >= 0, "at least 0"),
            "base + per_card": (self.base + self.per_card > 0, "at least 1"),
            "exploration": (0 <= self.exploration < math.inf, "a number of points, at least 0"),
            "chunk": (self.chunk >= 1, "at least 1"),
            "rule": (self.rule in get_args(Rule), f"one of {', '.join(get_args(Rule))}"),
            "sharpness": (0 < self.sharpness < math.inf, "a number above 0"),
            "target": (self.target in get_args(Target), f"one of {', '.join(get_args(Target))}"),
            "considered": (1 <= self.considered <= rules.HAND_SIZE, f"1 to {rules.HAND_SIZE}"),
        }
        for name, (fine, right) in checks.items():
            if not fine:
                found = " + ".join(repr(getattr(self, field)) for field in name.split(" + "))
                raise ValueError(f"{name} must be {right}, not {found}")

    def budgets(self) -> np.ndarray:
        """Simulations by the number of legal cards 0..13: ``int32[14]``; 0 where none is legal."""
        legal = np.arange(rules.HAND_SIZE + 1, dtype=np.int32)
        wanted = np.maximum(self.base + self.per_card * legal, legal)
        return np.where(legal > 0, wanted, 0).astype(np.int32)


DEFAULT = Settings()


class Result(NamedTuple):
    """What a search found, by card.

    q: ``float32[B, 52]``, mean value of a card in points, from the mover's team: all points of the deal, those
      already made included. −inf for cards that are not legal or were not visited.
    visits: ``int32[B, 52]``.
    policy: ``float32[B, 52]``, a policy to learn, adding up to 1; zeros where the deal is over. Target "values":
      p ∝ exp(sharpness · Q) over the visited cards, for "gumbel" p ∝ P · exp(sharpness · Q) over the legal cards,
      where unvisited ones take a mixture of the root's own value and the mean q weighted by P (Danihelka et al.,
      appendix D). Target "visits": the share of visits.
    value: ``float32[B]``, the largest q.
    card: ``int8[B]``, the card to play: the one of the largest q; for "gumbel" that of the largest g + ln P +
      sharpness · q among the most visited. −1 where the deal is over.
    """

    q: jax.Array
    visits: jax.Array
    policy: jax.Array
    value: jax.Array
    card: jax.Array


class _HalvingRoot(NamedTuple):
    """What "gumbel" knows of roots ``[C]``.

    log_prior: ``float32[C, 52]``, ln P, −inf for illegal cards.
    noise: ``float32[C, 52]``, g.
    value: ``float32[C]``, by the leaf function, all points of the deal, for the mover's team.
    """

    log_prior: jax.Array
    noise: jax.Array
    value: jax.Array


def bytes_per_root(settings: Settings = DEFAULT) -> int:
    """Memory of one tree."""
    num_nodes = 1 + int(settings.budgets().max())
    shapes = jax.eval_shape(game.deal, jax.random.key(0))
    ordered = rules.HAND_SIZE * (1 + 4) + 4 if settings.rule != "ucb" else 0
    return num_nodes * (game.state_bytes(shapes) + 5 * 4 + ordered)


def search(
    states: State, leaf: LeafFunction, settings: Settings = DEFAULT, keys: jax.Array | None = None
) -> Result:
    """Search a batch of States with open hands.

    Args:
      states: ``[B]`` games, two teams; those that are over are not searched.
      leaf: evaluates new leaves, and for "puct" and "gumbel" each root once, outside of its budget; at the end of
        the deal the exact score is used instead. "ucb" does not use its policy.
      settings: static.
      keys: random keys ``[B]``, for ties in ``Result.card`` and for the noise of "gumbel",
        ``jax.random.gumbel(key, (52,))``. Without them there is no noise and ties go to the lowest card.
    """
    num = states.ply.shape[0]
    num_legal = jax.vmap(lambda s: cards.count(game.legal_masks(s)))(states)
    wanted = jnp.asarray(settings.budgets())[num_legal]
    order = jnp.argsort(-wanted, stable=True)
    chunk = min(settings.chunk, num)
    num_chunks = -(-num // chunk)
    rows = jnp.pad(order, (0, num_chunks * chunk - num), constant_values=num).reshape(num_chunks, chunk)

    def one_chunk(rows: jax.Array) -> Result:
        inside = rows < num
        games, sims, some_keys = jax.tree.map(lambda x: x[jnp.minimum(rows, num - 1)], (states, wanted, keys))
        return _search_chunk(games, jnp.where(inside, sims, 0), leaf, settings, some_keys)

    found = jax.lax.map(one_chunk, rows)
    back = jnp.argsort(order)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:num][back], found)


def _search_chunk(
    states: State, sims: jax.Array, leaf: LeafFunction, settings: Settings, keys: jax.Array | None
) -> Result:
    """:func:`search` for one chunk ``[C]``, each root with ``sims`` simulations."""
    root_team = jax.vmap(game.mover_team)(states)
    root = _tree.new_node(states, jnp.full(sims.shape, -1), root_team)
    turns = halving = None
    if settings.rule == "puct":
        root = _tree.by_prior(root, leaf(states)[0], jnp.zeros(sims.shape))
    elif settings.rule == "gumbel":
        halving = _halving_root(states, *_evaluate(states, root_team, leaf), keys)
        root = _tree.by_merit(root, halving.log_prior + halving.noise)
        turns = jnp.asarray(_tree.halving_table(settings.budgets(), settings.considered))[root.num_legal]
    num_nodes = 1 + int(settings.budgets().max())

    def simulate(carry: tuple[jax.Array, Tree]) -> tuple[jax.Array, Tree]:
        sim, tree = carry
        active = sim < sims
        node, on_path = _tree.select(
            tree, settings.exploration, settings.sharpness, None if turns is None else turns[:, sim]
        )
        here = jax.vmap(lambda nodes, i: jax.tree.map(lambda x: x[i], nodes))(tree.nodes, node)
        over = jax.vmap(game.is_over)(here.state)
        slot = jnp.sum(tree.nodes.parent == node[:, None], axis=1, dtype=jnp.int32)  # children made so far
        card = jax.vmap(_tree.nth)(here, slot)
        stepped = jax.vmap(game.step)(here.state, card)
        reached = jax.tree.map(
            lambda new, old: jnp.where(over.reshape(-1, *[1] * (new.ndim - 1)), old, new), stepped, here.state
        )
        policy, value = _evaluate(reached, root_team, leaf)

        # A leaf becomes node sim + 1; at the end of the deal the node itself is visited once more.
        new = _tree.new_node(reached, jnp.where(over | ~active, -1, node), root_team)
        if here.ranked is not None:
            own = jax.vmap(lambda prior, i: prior[i])(here.ranked.prior, slot)
            new = _tree.by_prior(new, policy, own)
        made = (jnp.arange(num_nodes) == sim + 1) & ~over[:, None]
        visited = (on_path | made) & active[:, None]
        return sim + 1, Tree(
            nodes=_tree.set_node(tree.nodes, sim + 1, new),
            visits=tree.visits + visited.astype(jnp.int32),
            total=tree.total + jnp.where(visited, value[:, None], 0.0),
        )

    longest = jnp.max(sims)
    start = jnp.int32(0), _tree.plant(root, num_nodes)
    _, tree = jax.lax.while_loop(lambda carry: carry[0] < longest, simulate, start)
    q, visits = jax.vmap(_tree.by_card)(tree)
    return _result(q, visits, settings, keys, halving)


def _evaluate(states: State, root_team: jax.Array, leaf: LeafFunction) -> tuple[jax.Array, jax.Array]:
    """Policy numbers of leaves, and their values for the roots' teams: points made so far, and the net's rest."""
    policy, future = leaf(states)
    made = jax.vmap(game.margin)(states).astype(jnp.float32)
    ours = jax.vmap(game.mover_team)(states) == root_team
    future = jnp.where(jax.vmap(game.is_over)(states), 0.0, future)
    return policy, jnp.where(root_team == 0, made, -made) + jnp.where(ours, future, -future)


def _halving_root(states: State, policy: jax.Array, value: jax.Array, keys: jax.Array | None) -> _HalvingRoot:
    """What "gumbel" needs of roots ``[C]``."""
    legal = jax.vmap(game.legal_cards)(states)
    log_prior = jnp.where(legal, jax.nn.log_softmax(jnp.where(legal, policy, -jnp.inf), axis=-1), -jnp.inf)
    if keys is None:
        return _HalvingRoot(log_prior, jnp.zeros_like(log_prior), value)
    return _HalvingRoot(log_prior, jax.vmap(lambda key: jax.random.gumbel(key, (52,)))(keys), value)


def _result(
    q: jax.Array, visits: jax.Array, settings: Settings, keys: jax.Array | None, root: _HalvingRoot | None
) -> Result:
    """The policy and the card to play, from mean values and visits ``[C, 52]``."""
    logits, merit = settings.sharpness * q, q
    if root is not None:
        merit = jnp.where(
            visits == jnp.max(visits, axis=1, keepdims=True),
            root.log_prior + root.noise + settings.sharpness * q,
            -jnp.inf,
        )
        logits = root.log_prior + settings.sharpness * _completed(q, visits, root)
    share = visits / jnp.maximum(jnp.sum(visits, axis=1, keepdims=True), 1)
    if keys is None or root is not None:
        card = jnp.argmax(merit, axis=1).astype(jnp.int8)
    else:
        card = jax.vmap(cards.best_card)(keys, merit)
    return Result(
        q=q,
        visits=visits,
        policy=_softmax(logits) if settings.target == "values" else share,
        value=jnp.max(q, axis=1),
        card=jnp.where(jnp.any(visits > 0, axis=1), card, jnp.int8(-1)),
    )


def _completed(q: jax.Array, visits: jax.Array, root: _HalvingRoot) -> jax.Array:
    """Mean values with unvisited cards completed by the mixed value of Danihelka et al.: ``float32[C, 52]``."""
    visited = visits > 0
    prior = _softmax(jnp.where(visited, root.log_prior, -jnp.inf))
    mean = jnp.sum(prior * jnp.where(visited, q, 0.0), axis=1)
    num = jnp.sum(visits, axis=1)
    mixed = (root.value + num * mean) / (1 + num)
    return jnp.where(visited, q, mixed[:, None])


def _softmax(logits: jax.Array) -> jax.Array:
    """Softmax over cards ``[C, 52]``, with zeros in rows that are all −inf."""
    some = jnp.max(logits, axis=1, keepdims=True) > -jnp.inf
    return jnp.where(some, jax.nn.softmax(logits, axis=1), 0.0)
