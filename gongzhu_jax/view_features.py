"""What networks that play without seeing the hidden hands read: one seat's View as zeros and ones.

Seats are counted from the viewer, who is the player to move. The index table is in docs/features.md and is made from
:data:`BLOCKS`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game, rules
from gongzhu_jax.features import OTHERS, SCORING, SEATS, Block, layout
from gongzhu_jax.view import View, players

BLOCKS: tuple[Block, ...] = layout(
    [
        (52, "my hand, in id order"),
        (52, "my legal cards"),
        (52, "cards in the other three hands"),
        *((52, f"card on the table: {seat}") for seat in OTHERS),
        *((52, f"cards played so far: {seat}") for seat in SEATS),
        *((52, f"of these, cards that did not follow suit: {seat}") for seat in OTHERS),
        *((len(SCORING), f"scoring cards captured: {seat}, H2 … HA SQ DJ C10") for seat in SEATS),
        *((4, f"suits in which it has shown a void, S H D C: {seat}") for seat in OTHERS),
        (4, "who would win the trick as it stands: me, next player, partner, last player; none when I lead"),
        (12, "number of the trick, 2 to 13; none in the first"),
    ]
)
SIZE = BLOCKS[-1].start + BLOCKS[-1].size


def encode(view: View) -> jax.Array:
    """The input of a player who sees its own hand and the public history.

    Args:
      view: on its viewer's turn.

    Returns:
      ``bool[768]``.
    """
    who = players(view)
    by_seat = who == jnp.arange(4, dtype=jnp.int8)[:, None]  # [4, 52] (seat, ply)
    suits = cards.suit(view.plays)
    led_then = jnp.repeat(suits[::4], 4, total_repeat_length=game.NUM_PLIES)
    table = game.table(view)
    number = view.ply & 3
    # Position p of the table is p − number seats from the viewer: seat 4 − number + p.
    on_table = jnp.stack([_at(table, number - 4 + seat) for seat in (1, 2, 3)])
    winner = jnp.where(number > 0, (rules.trick_winner(table) - number) & 3, jnp.int8(-1))
    blocks = [
        cards.to_bools(view.hand),
        game.legal_cards(view),
        cards.to_bools(view.unseen),
        _one_hot(on_table, 52),
        _cards_of(view.plays, by_seat),
        _cards_of(view.plays, by_seat[1:] & (suits != led_then)),
        cards.to_bools(view.taken)[:, np.array(SCORING)],
        view.void[1:],
        _one_hot(winner, 4),
        _one_hot((view.ply >> 2) - 1, 12),
    ]
    return jnp.concatenate([block.reshape(-1) for block in blocks])


def _at(table: jax.Array, position: jax.Array) -> jax.Array:
    """The card at a position of the table, −1 where the position is negative."""
    return jnp.max(jnp.where(jnp.arange(4, dtype=position.dtype) == position, table, jnp.int8(-1)))


def _one_hot(number: jax.Array, size: int) -> jax.Array:
    """``bool[..., size]``, nothing set for −1."""
    return number[..., None] == jnp.arange(size, dtype=jnp.int8)


def _cards_of(plays: jax.Array, which: jax.Array) -> jax.Array:
    """The cards played at some plies ``bool[..., 52]``, as ``bool[..., 52]`` by card."""
    sets = cards.mask_of(plays)  # uint16[52, 4]
    # Every card is played once, so a sum of sets is their union.
    return cards.to_bools(jnp.sum(jnp.where(which[..., None], sets, 0), axis=-2, dtype=jnp.uint16))
