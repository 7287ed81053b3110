"""Trees of a batched search as lists of nodes: planting, growing, and walking down by the rules of search.py."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game, rules
from gongzhu_jax.game import State


class Ranked(NamedTuple):
    """A node's legal cards in the order of their first visits, and what ranks them.

    order: ``int8[…, 13]``, undefined past the last card.
    prior: ``float32[…, 13]``, P of those cards, 0 past the last; at the root of "gumbel" g + ln P, −inf past it.
    own: ``float32[…]``, the entry of its parent's ``prior`` for the card that led here; 0 for the root.
    """

    order: jax.Array
    prior: jax.Array
    own: jax.Array


class Node(NamedTuple):
    """``[C]`` nodes of as many trees, or ``[C, N]``, all of them.

    state: the game there.
    parent: ``int32``, −1 for the root and where there is no node.
    num_legal: ``int32``, legal cards; 0 at the end of the deal.
    sign: ``float32``, +1 where the root's team moves.
    ranked: None where cards are visited in hand order.
    """

    state: State
    parent: jax.Array
    num_legal: jax.Array
    sign: jax.Array
    ranked: Ranked | None = None


class Tree(NamedTuple):
    """``[C, N]`` nodes; node 0 is the root, node i + 1 was made by simulation i.

    visits: ``int32``, simulations through a node, the one that made it included.
    total: ``float32``, sum of their values, for the root's team.
    """

    nodes: Node
    visits: jax.Array
    total: jax.Array


def plant(root: Node, num_nodes: int) -> Tree:
    """Trees of a root only."""
    num = root.parent.shape[0]
    nodes = jax.tree.map(lambda x: jnp.zeros((num, num_nodes, *x.shape[1:]), x.dtype), root)
    empty = jnp.zeros((num, num_nodes), jnp.int32)
    return Tree(set_node(nodes._replace(parent=empty - 1), 0, root), empty, empty * 0.0)


def set_node(nodes: Node, index: jax.Array | int, new: Node) -> Node:
    """The trees' nodes with node ``index`` replaced."""
    return jax.tree.map(lambda old, x: old.at[:, index].set(x), nodes, new)


def new_node(states: State, parent: jax.Array, root_team: jax.Array) -> Node:
    """New nodes ``[C]``, as far as "ucb" needs them."""
    num_legal = jax.vmap(lambda s: cards.count(game.legal_masks(s)))(states)
    ours = jax.vmap(game.mover_team)(states) == root_team
    return Node(states, parent.astype(jnp.int32), num_legal, jnp.where(ours, 1.0, -1.0))


def by_prior(node: Node, policy: jax.Array, own: jax.Array) -> Node:
    """Nodes ``[C]`` with their cards by falling prior, from policy numbers ``float32[C, 52]``."""
    order, logits = jax.vmap(rank)(jax.vmap(game.legal_masks)(node.state), policy)
    prior = jnp.where(logits > -jnp.inf, jax.nn.softmax(logits, axis=-1), 0.0)
    return node._replace(ranked=Ranked(order, prior, own))


def by_merit(root: Node, merit: jax.Array) -> Node:
    """Roots ``[C]`` with their cards by falling g + ln P, ``float32[C, 52]``."""
    order, ranked = jax.vmap(rank)(jax.vmap(game.legal_masks)(root.state), merit)
    return root._replace(ranked=Ranked(order, ranked, jnp.zeros(merit.shape[0])))


def rank(legal: jax.Array, scores: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The cards of ``uint16[4]`` by falling score, ties in hand order, with counting instead of sorting.

    Returns:
      ``int8[13]``, undefined past the last card, and the scores in that order, ``float32[13]``, −inf there.
    """
    place = jnp.arange(rules.HAND_SIZE, dtype=jnp.int32)
    hand = jax.vmap(cards.nth, (None, 0))(legal, place)
    score = jnp.where(place < cards.count(legal), scores[hand], -jnp.inf)
    earlier = (score > score[:, None]) | ((score == score[:, None]) & (place < place[:, None]))
    here = jnp.sum(earlier, axis=1, dtype=jnp.int32) == place[:, None]
    order = jnp.sum(jnp.where(here, hand, 0), axis=1, dtype=jnp.int8)
    return order, jnp.sum(jnp.where(here, score, 0.0), axis=1)


def nth(node: Node, n: jax.Array) -> jax.Array:
    """The card that a node visits n-th, from 0: ``int8[]``."""
    return cards.nth(game.legal_masks(node.state), n) if node.ranked is None else node.ranked.order[n]


def select(
    tree: Tree, exploration: float, sharpness: float, turns: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Walk down until a node of which an unvisited card is next, or the end of the deal.

    Args:
      exploration, sharpness: see :class:`gongzhu_jax.search.Settings`.
      turns: for "gumbel", the visits of the root's cards that are next: ``int32[C]``.

    Returns:
      That node, ``int32[C]``, and the nodes walked through, ``bool[C, N]``, both ends included.
    """
    num, num_nodes = tree.visits.shape
    index = jnp.arange(num_nodes, dtype=jnp.int32)
    mean = tree.total / jnp.maximum(tree.visits, 1)

    def at(values: jax.Array, node: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(index == node[:, None], values, 0), axis=1, dtype=values.dtype)

    def below(node: jax.Array) -> jax.Array:
        """The best child, or the node itself where the walk ends."""
        child = tree.nodes.parent == node[:, None]
        num_children = jnp.sum(child, axis=1, dtype=jnp.int32)
        visits = at(tree.visits, node).astype(jnp.float32)
        sign = at(tree.nodes.sign, node)
        value = sign[:, None] * mean
        onward = num_children == at(tree.nodes.num_legal, node)
        ranked = tree.nodes.ranked
        if ranked is None:
            bonus = jnp.sqrt(jnp.log(visits)[:, None] / jnp.maximum(tree.visits, 1))
            score = value + exploration * bonus
        else:
            pull = exploration * jnp.sqrt(visits)
            score = value + pull[:, None] * ranked.own / (1 + tree.visits)
            following = jax.vmap(lambda prior, i, n: prior[i, n])(ranked.prior, node, num_children)
            unvisited = sign * at(mean, node) + pull * following
            best = jnp.max(jnp.where(child, score, -jnp.inf), axis=1)
            onward |= (node > 0) & (best >= unvisited)  # earlier in the order, so a tie is theirs
            if turns is not None:
                merit = ranked.own + sharpness * value
                halving = jnp.where(tree.visits == turns[:, None], merit, -jnp.inf)
                score = jnp.where((node == 0)[:, None], halving, score)
                onward = jnp.where(node == 0, turns > 0, onward)
        chosen = jnp.argmax(jnp.where(child, score, -jnp.inf), axis=1).astype(jnp.int32)
        return jnp.where(onward & (num_children > 0), chosen, node)

    Walk = tuple[jax.Array, jax.Array, jax.Array]

    def step(walk: Walk) -> Walk:
        node, on_path, _ = walk
        following = below(node)
        return following, on_path | (index == following[:, None]), jnp.any(following != node)

    root = jnp.zeros(num, jnp.int32)
    start = (root, jnp.zeros((num, num_nodes), bool) | (index == 0), jnp.array(True))
    node, on_path, _ = jax.lax.while_loop(lambda walk: walk[2], step, start)
    return node, on_path


def halving(considered: int, simulations: int) -> list[int]:
    """Sequential Halving: how often the card that is next has been visited, by simulation.

    The budget is shared equally by phases, each with half the cards of the one before; in a phase its cards are
    visited equally often. The best card among those with the right number of visits is next.
    """
    if considered <= 1:
        return list(range(simulations))
    phases = (considered - 1).bit_length()
    turns: list[int] = []
    visits, left = 0, considered
    while len(turns) < simulations:
        for _ in range(max(1, simulations // (phases * left))):
            turns += [visits] * left
            visits += 1
        left = max(2, left // 2)
    return turns[:simulations]


def halving_table(budgets: np.ndarray, considered: int) -> np.ndarray:
    """:func:`halving` by the number of legal cards and the simulation: ``int32[14, T]``, 0 past a budget."""
    table = np.zeros((len(budgets), budgets.max()), np.int32)
    for num_legal, simulations in enumerate(budgets):
        table[num_legal, :simulations] = halving(min(considered, num_legal), int(simulations))
    return table


def by_card(tree: Tree) -> tuple[jax.Array, jax.Array]:
    """One tree's root, from nodes to cards: mean values, −inf where unvisited, and visits ``[52]``."""
    child = tree.nodes.parent == 0
    slot = jnp.cumsum(child) - 1
    root = jax.tree.map(lambda x: x[0], tree.nodes)
    node_card = jax.vmap(nth, (None, 0))(root, slot)
    here = child & (node_card == jnp.arange(52, dtype=jnp.int8)[:, None])
    visits = jnp.sum(jnp.where(here, tree.visits, 0), axis=1, dtype=jnp.int32)
    total = jnp.sum(jnp.where(here, tree.total, 0.0), axis=1)
    return jnp.where(visits > 0, total / jnp.maximum(visits, 1), -jnp.inf), visits
