"""What every player is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp

from gongzhu_jax import game
from gongzhu_jax.cards import best_card as best_card
from gongzhu_jax.view import View

NO_VALUE = -jnp.inf


class ValuesFunction(Protocol):
    """Scores cards: see :attr:`Player.values`."""

    def __call__(self, keys: jax.Array, views: View) -> jax.Array: ...  # noqa: D102


@dataclasses.dataclass(frozen=True, eq=False)
class Player:
    """A named function from Views to cards.

    Attributes:
      name: the spec that makes this player again.
      choose: ``(keys[B], views[B]) -> int8[B]`` cards; pure, may be traced. Every View must be on its viewer's
        turn. A batch may mix plies and trick positions; players may be faster when it does not.
      values: for players that score cards, ``(keys[B], views[B]) -> float32[B, 52]`` in points (what the
        viewer's team is expected to gain, up to a constant), −inf where illegal; otherwise None.
      chunk: how many games at a time suit this player best (what it computes should stay in cache).
    """

    name: str
    choose: Callable[[jax.Array, View], jax.Array]
    values: ValuesFunction | None = None
    chunk: int = 1024

    def __call__(self, keys: jax.Array, views: View) -> jax.Array:
        """The cards played: ``int8[B]``."""
        return self.choose(keys, views)


def by_position(views: View, branches: list[Callable[[], jax.Array]]) -> jax.Array:
    """What ``branches[p]()`` gives for the Views where p cards are on the table.

    In lockstep, where a whole batch stands at one position, only that branch runs; a mixed batch runs each
    branch that is needed and picks row by row.

    Args:
      branches: four functions without arguments, each returning the same shape and dtype ``[B, …]``.
    """
    position = views.ply & 3
    shape = jax.eval_shape(branches[0])
    found = jnp.zeros(shape.shape, shape.dtype)
    for p, branch in enumerate(branches):
        here = position == p
        rows = jax.lax.cond(jnp.any(here), branch, lambda: jnp.zeros(shape.shape, shape.dtype))
        found = jnp.where(here.reshape(-1, *[1] * (found.ndim - 1)), rows, found)
    return found


def legal(views: View) -> jax.Array:
    """The legal cards of a batch of Views: ``bool[B, 52]``."""
    return jax.vmap(game.legal_cards)(views)
