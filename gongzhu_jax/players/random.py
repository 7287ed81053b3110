"""Mr. Random: uniform over the legal cards (ScrofaZero, section 5.1)."""

from __future__ import annotations

import jax

from gongzhu_jax import cards, game
from gongzhu_jax.players.base import Player
from gongzhu_jax.view import View


def random() -> Player:
    """Mr. Random."""
    return Player("random", jax.vmap(_choose))


def _choose(key: jax.Array, view: View) -> jax.Array:
    return cards.random_card(key, game.legal_masks(view))
