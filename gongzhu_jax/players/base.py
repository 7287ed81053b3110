"""What every player is."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from gongzhu_jax import game, worlds
from gongzhu_jax.cards import best_card as best_card
from gongzhu_jax.view import View, why_impossible

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
      explain: for players that can, ``(keys[B], views[B])`` to a NamedTuple of what a decision was made from.
      models: paths or names of the models that it decides by.
    """

    name: str
    choose: Callable[[jax.Array, View], jax.Array]
    values: ValuesFunction | None = None
    chunk: int = 1024
    explain: Callable[[jax.Array, View], Any] | None = None
    models: tuple[str, ...] = ()

    def __call__(self, keys: jax.Array, views: View, explain: bool = False) -> Any:
        """The cards played: ``int8[B]``; with ``explain`` also what they were chosen from.

        Raises:
          ValueError: outside of a trace, a View is not on its viewer's turn or contradicts itself; or this player
            explains nothing.
        """
        if game.is_concrete(keys, views):
            _check(views)
        if not explain:
            return self.choose(keys, views)
        if self.explain is None:
            raise ValueError(f"player {self.name!r} does not explain its cards")
        return self.choose(keys, views), self.explain(keys, views)


def _check(views: View) -> None:
    """Raise ValueError for the first View that nobody can play from."""
    mine, possible = _playable(views)
    if not mine.all():
        row = int(jnp.argmin(mine))
        raise ValueError(f"views[{row}]: it is not the viewer's turn (seat {int(views.seat[row])})")
    if not possible.all():
        row = int(jnp.argmin(possible))
        why = why_impossible(jax.tree.map(lambda x: x[row], views))
        raise ValueError(f"views[{row}]: no hidden hands fit this view: {why}")


@jax.jit
def _playable(views: View) -> tuple[jax.Array, jax.Array]:
    """Whether it is the viewer's turn, and whether any hands fit: ``bool[B]`` each."""
    mine = jax.vmap(lambda v: (game.mover(v) == 0) & ~game.is_over(v))(views)
    return mine, jax.vmap(worlds.is_possible)(views)


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


def spec_of(name: str, factory: Callable[..., Player], arguments: Mapping[str, Any]) -> str:
    """The spec that calls a factory with these arguments again: ``NAME:PARAMETER=VALUE,…``, defaults left out."""
    parameters = inspect.signature(factory).parameters
    said = [f"{key}={arguments[key]}" for key, p in parameters.items() if arguments[key] != p.default]
    return f"{name}:{','.join(said)}" if said else name
