"""The 434 numbers that ScrofaZero's networks read (paper section 3 and supplement), for the player to move.

Seats are counted from that player. The index table is in docs/features.md and is made from :data:`BLOCKS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game
from gongzhu_jax.game import State
from gongzhu_jax.view import View

DIFFUSE_WIDTH = cards.NUM_CARDS + 2
SCORING: tuple[int, ...] = (*cards.HEARTS, cards.PIG, cards.SHEEP, cards.DOUBLER)
"""The scoring cards in the order of the input: H2 … HA, SQ, DJ, C10."""


class Block(NamedTuple):
    """A stretch of the input: where it begins, how long it is, what it holds."""

    start: int
    size: int
    holds: str


def layout(parts: Sequence[tuple[int, str]]) -> tuple[Block, ...]:
    """Stretches one after the other, from their sizes and what they hold."""
    starts = np.cumsum([0, *(size for size, _ in parts)])
    return tuple(Block(int(start), size, holds) for start, (size, holds) in zip(starts, parts, strict=False))


SEATS = ("me", "next player", "partner", "last player")
OTHERS = SEATS[1:]
BLOCKS: tuple[Block, ...] = layout(
    [
        *((52, f"cards in hand: {seat}, in id order") for seat in SEATS),
        *(
            (DIFFUSE_WIDTH, f"card on the table: {age}, diffuse")
            for age in ("played just before me", "the one before", "the one before that")
        ),
        *((len(SCORING), f"scoring cards captured: {seat}, H2 … HA SQ DJ C10") for seat in SEATS),
    ]
)
SIZE = BLOCKS[-1].start + BLOCKS[-1].size


def encode(state: State) -> jax.Array:
    """The input with the true hands of all four seats, for open-hand training and for one world.

    A world of a View is encoded through :func:`gongzhu_jax.worlds.to_state`.

    Returns:
      ``float32[434]``, zeros and ones.
    """
    mover = game.mover(state)
    order = (mover + jnp.arange(4, dtype=mover.dtype)) & 3
    return _encode(cards.to_bools(state.hands[order]), game.table(state), state.ply, state.taken[order])


def encode_average(view: View) -> jax.Array:
    """The input of a player who does not see the others' hands: each holds a third of every unseen card.

    Args:
      view: on its viewer's turn.

    Returns:
      ``float32[434]``.
    """
    third = cards.to_bools(view.unseen) * jnp.float32(1 / 3)
    own = cards.to_bools(view.hand).astype(jnp.float32)
    return _encode(jnp.stack([own, third, third, third]), game.table(view), view.ply, view.taken)


def encode_seen(state: State) -> jax.Array:
    """The input for the player to move, as seat 0 would write it down: its own hand, the other three averaged.

    For positions that a player looks ahead to, from States of its worlds (:func:`gongzhu_jax.worlds.to_state`, where
    the viewer is seat 0): all worlds of a View give the same.

    Returns:
      ``float32[434]``: each of the other seats holds a third of every card that is in one of their hands.
    """
    mover = game.mover(state)
    order = (mover + jnp.arange(4, dtype=mover.dtype)) & 3
    hands = cards.to_bools(state.hands).astype(jnp.float32)
    hidden = jnp.sum(hands[1:], axis=0) * jnp.float32(1 / 3)
    seen = jnp.stack([hands[0], hidden, hidden, hidden])[order]
    return _encode(seen, game.table(state), state.ply, state.taken[order])


def _encode(hands: jax.Array, table: jax.Array, ply: jax.Array, taken: jax.Array) -> jax.Array:
    """Join the blocks: ``hands [4, 52]``, ``table int8[4]``, ``taken uint16[4, 4]``, seats from the mover."""
    newest_first = jnp.stack([_on_table(table, (ply & 3) - 1 - age) for age in range(3)])
    captured = cards.to_bools(taken)[:, np.array(SCORING)]
    blocks = [hands.reshape(-1), diffuse(newest_first).reshape(-1), captured.reshape(-1)]
    return jnp.concatenate([block.astype(jnp.float32) for block in blocks])


def _on_table(table: jax.Array, position: jax.Array) -> jax.Array:
    """The card at a position of the table, −1 where the position is negative."""
    return jnp.max(jnp.where(jnp.arange(4, dtype=position.dtype) == position, table, -1))


def diffuse(card: jax.Array) -> jax.Array:
    """A card as itself and both neighbours: ``bool[..., 54]`` with positions id, id + 1 and id + 2 set.

    Args:
      card: integer ``[...]``, −1 for no card, which sets nothing.
    """
    distance = jnp.arange(DIFFUSE_WIDTH, dtype=jnp.int32) - card[..., None].astype(jnp.int32)
    return (card[..., None] >= 0) & (distance >= 0) & (distance <= 2)
