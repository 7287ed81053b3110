"""Players: functions from what seats know to the cards they play, made from a spec string.

A player is called with a batch, ``player(keys, views) -> cards``, is pure, and sees Views only. To add one,
write a file with a factory and add a line to :data:`FACTORIES`; the factory's parameters, with their types and
defaults (all have one), are what a spec may set: ``make("greed:worlds=40")`` calls ``greed(worlds=40)``.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from gongzhu_jax.players.actor import actor
from gongzhu_jax.players.base import Player
from gongzhu_jax.players.deep import deep
from gongzhu_jax.players.greed import greed
from gongzhu_jax.players.mr_if import mr_if
from gongzhu_jax.players.random import random
from gongzhu_jax.players.raw import raw
from gongzhu_jax.players.scrofa import scrofa

FACTORIES: dict[str, Callable[..., Player]] = {
    "random": random,
    "if": mr_if,
    "greed": greed,
    "raw": raw,
    "scrofa": scrofa,
    "actor": actor,
    "deep": deep,
}


@functools.cache  # one object per spec, so that what is compiled for it serves again
def make(spec: str) -> Player:
    """A player from ``NAME`` or ``NAME:PARAMETER=VALUE,…``, e.g. ``greed:worlds=40``.

    Raises:
      ValueError: an unknown name or parameter (with the nearest known ones), or a value of the wrong type or
        out of range.
    """
    name, _, rest = spec.strip().partition(":")
    if name not in FACTORIES:
        raise ValueError(f"no player {name!r}{_nearest(name, FACTORIES)}; there are: {', '.join(FACTORIES)}")
    known = inspect.signature(FACTORIES[name], eval_str=True).parameters
    arguments: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = item.partition("=")
        if key not in known:
            takes = ", ".join(known) or "no parameters"
            raise ValueError(
                f"player {name!r} has no parameter {key!r}{_nearest(key, known)}; it takes: {takes}"
            )
        if not equals or not value:
            raise ValueError(f"player {spec!r}: write {key}=VALUE, not {item!r}")
        if key in arguments:
            raise ValueError(f"player {spec!r} sets {key} twice")
        arguments[key] = _convert(spec, key, value, known[key].annotation)
    try:
        return FACTORIES[name](**arguments)
    except ValueError as error:
        raise ValueError(f"player {spec!r}: {error}") from None


def _convert(spec: str, key: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError(f"player {spec!r}: {key} must be true or false, not {text!r}")
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"player {spec!r}: {key} must be {kind.__name__}, not {text!r}") from None


def _nearest(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word, known, n=2, cutoff=0.5)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


__all__ = ["FACTORIES", "Player", "actor", "deep", "greed", "make", "mr_if", "random", "raw", "scrofa"]
