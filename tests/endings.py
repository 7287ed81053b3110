"""Small endings whose hidden hands can be enumerated."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import gongzhu_jax as gz
from gongzhu_jax import cards
from gongzhu_jax.view import hand_sizes


def ending(unseen: str, voids: dict[int, str] | None = None) -> gz.View:
    """A View in which the three others hold equal shares of some cards, with voids shown as given.

    It has no history that leads there: sampling looks at sizes, voids and unseen cards only.
    """
    ids = cards.parse(unseen)
    size = len(ids) // 3
    own = [card for card in range(52) if card not in ids][:size]
    void = np.zeros((4, 4), bool)
    for seat, suits in (voids or {}).items():
        void[seat, [cards.SUITS.index(s) for s in suits]] = True
    start = gz.view(gz.deal(jax.random.key(0)), 0)
    return dataclasses.replace(
        start,
        hand=cards.to_masks(jnp.array(np.isin(np.arange(52), own))),
        unseen=cards.to_masks(jnp.array(np.isin(np.arange(52), ids))),
        void=jnp.array(void),
        ply=jnp.int8(4 * (13 - size)),
        leaders=jnp.where(jnp.arange(14) <= 13 - size, 0, -1).astype(jnp.int8),
    )


def hidden_state(view: gz.View) -> tuple[list[int], list[int], list[set[int]]]:
    """Unseen cards, needs and voids of the hidden seats, as the oracle takes them."""
    unseen = np.flatnonzero(cards.to_bools(view.unseen)).tolist()
    void = np.asarray(view.void)
    return (
        unseen,
        np.asarray(hand_sizes(view))[1:].tolist(),
        [set(np.flatnonzero(void[j])) for j in (1, 2, 3)],
    )


def as_sets(world: np.ndarray) -> tuple[frozenset[int], ...]:
    return tuple(frozenset(np.flatnonzero(hand).tolist()) for hand in world)


SIX = "S2 S3 S4 H2 H3 H4"
MIXED = "S2 S3 H2 H3 D2 D3"
NINE = "S2 S9 SQ H3 H8 D4 D5 C2 C3"
ENDINGS = {
    "no voids": (SIX, {}, 90),
    "two voids": (MIXED, {1: "S", 2: "H"}, 19),
    "one seat almost known": (NINE, {1: "SHD"}, 0),
    "chain of voids": (NINE, {1: "S", 2: "H", 3: "D"}, None),
    "partner void": (NINE, {2: "CS"}, None),
    "two share a void": (NINE, {1: "C", 3: "C"}, None),
    "crossed": ("S2 S3 S4 H2 H3 H4 D2 D3 C2 C3 C4 C5", {1: "SH", 2: "H", 3: "C"}, None),
}
