"""Batched tree search with open hands (ScrofaZero, section 3.2): UCB in points, mean values, one net value a leaf.

A tree searches one State; a batch of trees runs in lockstep, one simulation of each at a time, so that all their
leaves go to the network together. Trees whose budget is smaller do not pay for the largest one: roots are sorted by
budget and run in chunks, each only as long as its own largest budget.

Because unvisited cards are tried first and in hand order, a node's children are always the first cards of its
mover's legal cards, and a tree is a list of nodes with parents: every step is arithmetic on ``[chunk, nodes]``
arrays, without scatters. Memory of a tree: :func:`bytes_per_root`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gongzhu_jax import cards, game, rules
from gongzhu_jax.game import State

LeafFunction = Callable[[State], jax.Array]
"""States ``[C]`` to ``float32[C]``: points that the mover's team will still win over the other's, to the end."""

DEFAULT_EXPLORATION = 30.0
"""c in points; the authors' program has an effective 42.4."""


class Result(NamedTuple):
    """What a search found, by card.

    q: ``float32[B, 52]``, mean value of a card in points, from the mover's team: all points of the deal, those
      already made included. −inf for cards that are not legal or were not visited.
    visits: ``int32[B, 52]``.
    value: ``float32[B]``, the largest q.
    """

    q: jax.Array
    visits: jax.Array
    value: jax.Array


class _Tree(NamedTuple):
    """``[C, N]`` nodes; node 0 is the root, node i + 1 was made by simulation i.

    states: at each node.
    parent: ``int32``, −1 for the root and where there is no node.
    visits: ``int32``, simulations through a node, the one that made it included.
    total: ``float32``, sum of their values, for the root's team.
    num_legal: ``int32``, legal cards; 0 at the end of the deal.
    sign: ``float32``, +1 where the root's team moves.
    """

    states: State
    parent: jax.Array
    visits: jax.Array
    total: jax.Array
    num_legal: jax.Array
    sign: jax.Array


def budget(num_legal: jax.Array, base: int, per_card: int) -> jax.Array:
    """Simulations for a root: T = b + k · L, at least L so that every card is visited; 0 where none is legal."""
    wanted = jnp.maximum(base + per_card * num_legal, num_legal)
    return jnp.where(num_legal > 0, wanted, 0)


def bytes_per_root(base: int = 0, per_card: int = 2) -> int:
    """Memory of one tree."""
    nodes = 1 + max(base + per_card * rules.HAND_SIZE, rules.HAND_SIZE)
    shapes = jax.eval_shape(game.deal, jax.random.key(0))
    return nodes * (game.state_bytes(shapes) + 5 * 4)


def search(
    states: State,
    leaf: LeafFunction,
    base: int = 0,
    per_card: int = 2,
    exploration: float = DEFAULT_EXPLORATION,
    chunk: int = 128,
) -> Result:
    """Search a batch of States with open hands.

    Args:
      states: ``[B]`` games, two teams; those that are over are not searched.
      leaf: values new leaves; at the end of the deal the exact score is used instead.
      base: b, simulations for every root; static.
      per_card: k, simulations for every legal card of a root; static.
      exploration: c in points, of value + c · sqrt(ln N / n); children unvisited first, in hand order.
      chunk: roots in lockstep; static. Leaves are evaluated in batches of this size.

    Raises:
      ValueError: a parameter is out of range.
    """
    if base < 0 or per_card < 0 or base + per_card < 1 or chunk < 1:
        raise ValueError(
            f"base {base}, per_card {per_card}: not negative, not both 0; chunk {chunk}: at least 1"
        )
    num = states.ply.shape[0]
    num_legal = jax.vmap(lambda s: cards.count(game.legal_masks(s)))(states)
    wanted = budget(num_legal, base, per_card)
    order = jnp.argsort(-wanted, stable=True)
    chunk = min(chunk, num)
    num_chunks = -(-num // chunk)
    rows = jnp.pad(order, (0, num_chunks * chunk - num), constant_values=num).reshape(num_chunks, chunk)

    def one_chunk(rows: jax.Array) -> Result:
        inside = rows < num
        mine = jax.tree.map(lambda x: x[jnp.minimum(rows, num - 1)], states)
        sims = jnp.where(inside, wanted[jnp.minimum(rows, num - 1)], 0)
        return _search_chunk(mine, sims, leaf, base, per_card, exploration)

    found = jax.lax.map(one_chunk, rows)
    back = jnp.argsort(order)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:num][back], found)


def _search_chunk(
    states: State, sims: jax.Array, leaf: LeafFunction, base: int, per_card: int, exploration: float
) -> Result:
    """:func:`search` for one chunk ``[C]``, each root with ``sims`` simulations."""
    num_nodes = 1 + max(base + per_card * rules.HAND_SIZE, rules.HAND_SIZE)
    root_team = jax.vmap(game.mover_team)(states)
    tree = _plant(states, num_nodes)

    def simulate(carry: tuple[jax.Array, _Tree]) -> tuple[jax.Array, _Tree]:
        sim, tree = carry
        active = sim < sims
        node, on_path = _select(tree, exploration)
        at_node = jax.vmap(lambda tree_states, i: jax.tree.map(lambda x: x[i], tree_states))(
            tree.states, node
        )
        over = jax.vmap(game.is_over)(at_node)
        slot = jnp.sum(tree.parent == node[:, None], axis=1, dtype=jnp.int32)  # children made so far
        card = jax.vmap(lambda s, n: cards.nth(game.legal_masks(s), n))(at_node, slot)
        stepped = jax.vmap(game.step)(at_node, card)
        reached = jax.tree.map(
            lambda new, old: jnp.where(over.reshape(-1, *[1] * (new.ndim - 1)), old, new), stepped, at_node
        )
        value = _value(reached, root_team, leaf)

        # A leaf becomes node sim + 1; at the end of the deal the node itself is visited once more.
        grown = _grow(tree, sim + 1, reached, jnp.where(over | ~active, -1, node), root_team)
        made = (jnp.arange(num_nodes) == sim + 1) & ~over[:, None]
        visited = (on_path | made) & active[:, None]
        return sim + 1, grown._replace(
            visits=grown.visits + visited.astype(jnp.int32),
            total=grown.total + jnp.where(visited, value[:, None], 0.0),
        )

    longest = jnp.max(sims)
    _, tree = jax.lax.while_loop(lambda carry: carry[0] < longest, simulate, (jnp.int32(0), tree))
    return jax.vmap(_by_card)(tree, jax.vmap(game.legal_masks)(states))


def _plant(states: State, num_nodes: int) -> _Tree:
    """Trees of a root only."""
    num = states.ply.shape[0]

    def room(x: jax.Array) -> jax.Array:
        return jnp.zeros((num, num_nodes, *x.shape[1:]), x.dtype)

    empty = jnp.zeros((num, num_nodes), jnp.int32)
    tree = _Tree(jax.tree.map(room, states), empty - 1, empty, empty * 0.0, empty, empty * 0.0)
    return _grow(tree, jnp.int32(0), states, jnp.full(num, -1), jax.vmap(game.mover_team)(states))


def _grow(tree: _Tree, index: jax.Array, states: State, parent: jax.Array, root_team: jax.Array) -> _Tree:
    """The trees with their node ``index`` set."""
    num_legal = jax.vmap(lambda s: cards.count(game.legal_masks(s)))(states)
    ours = jax.vmap(game.mover_team)(states) == root_team
    set_node = functools.partial(jax.tree.map, lambda nodes, x: nodes.at[:, index].set(x))
    return tree._replace(
        states=set_node(tree.states, states),
        parent=set_node(tree.parent, parent.astype(jnp.int32)),
        num_legal=set_node(tree.num_legal, num_legal),
        sign=set_node(tree.sign, jnp.where(ours, 1.0, -1.0)),
    )


def _select(tree: _Tree, exploration: float) -> tuple[jax.Array, jax.Array]:
    """Walk down by UCB until a node with an unvisited card, or the end of the deal.

    Returns:
      That node, ``int32[C]``, and the nodes walked through, ``bool[C, N]``, both ends included.
    """
    num, num_nodes = tree.parent.shape
    index = jnp.arange(num_nodes, dtype=jnp.int32)
    mean = tree.total / jnp.maximum(tree.visits, 1)

    def at(values: jax.Array, node: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(index == node[:, None], values, 0), axis=1, dtype=values.dtype)

    def below(node: jax.Array) -> jax.Array:
        """The best child, or the node itself where the walk ends."""
        child = tree.parent == node[:, None]
        complete = jnp.sum(child, axis=1, dtype=jnp.int32) == at(tree.num_legal, node)
        visits = jnp.sum(jnp.where(child, tree.visits, 0), axis=1, dtype=jnp.int32) + (node > 0)
        bonus = jnp.sqrt(jnp.log(visits.astype(jnp.float32))[:, None] / jnp.maximum(tree.visits, 1))
        score = at(tree.sign, node)[:, None] * mean + exploration * bonus
        best = jnp.argmax(jnp.where(child, score, -jnp.inf), axis=1).astype(jnp.int32)
        return jnp.where(complete & jnp.any(child, axis=1), best, node)

    Walk = tuple[jax.Array, jax.Array, jax.Array]

    def step(walk: Walk) -> Walk:
        node, on_path, _ = walk
        following = below(node)
        return following, on_path | (index == following[:, None]), jnp.any(following != node)

    root = jnp.zeros(num, jnp.int32)
    start = (root, jnp.zeros((num, num_nodes), bool) | (index == 0), jnp.array(True))
    node, on_path, _ = jax.lax.while_loop(lambda walk: walk[2], step, start)
    return node, on_path


def _value(states: State, root_team: jax.Array, leaf: LeafFunction) -> jax.Array:
    """The value of leaves for the roots' teams: points made so far, and the leaf function's for the rest."""
    made = jax.vmap(game.margin)(states).astype(jnp.float32)
    ours = jax.vmap(game.mover_team)(states) == root_team
    future = jnp.where(jax.vmap(game.is_over)(states), 0.0, leaf(states))
    return jnp.where(root_team == 0, made, -made) + jnp.where(ours, future, -future)


def _by_card(tree: _Tree, legal: jax.Array) -> Result:
    """One tree's root, from nodes to cards; its children are its first legal cards in order of making."""
    child = tree.parent == 0
    slot = jnp.cumsum(child) - 1
    node_card = jax.vmap(cards.nth, (None, 0))(legal, slot)
    here = child & (node_card == jnp.arange(52, dtype=jnp.int8)[:, None])
    visits = jnp.sum(jnp.where(here, tree.visits, 0), axis=1, dtype=jnp.int32)
    total = jnp.sum(jnp.where(here, tree.total, 0.0), axis=1)
    q = jnp.where(visits > 0, total / jnp.maximum(visits, 1), -jnp.inf)
    return Result(q, visits, jnp.max(q))
