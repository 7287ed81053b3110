"""How strong a network in training is: its player against fixed opponents on fixed deals with fixed luck.

Deals and luck come from seeds that no other command uses by default, so that choosing a checkpoint by them says
nothing about the deals of a later match.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from eval import duplicate
from eval.duplicate import Deals, Summary
from gongzhu_jax import players
from gongzhu_jax.players import Player
from train import devices

DEALS_SEED = 1_918_273_645
LUCK_SEED = 1_546_372_819
OPPONENTS = ("random", "if", "greed")
PART = 64
"""Deals in one compiled call on a CPU, where calls run in threads."""


class Evaluation:
    """The same matches again and again, for parameters that change."""

    def __init__(self, make: Callable[[Any], Player], deals: int, mesh: Mesh) -> None:
        """Draw the deals.

        Args:
          make: a player from parameters; traced.
          deals: how many; each is played at two tables.
          mesh: the devices that share them.
        """
        self._make, self._mesh = make, mesh
        self.deals = duplicate.random_deals(DEALS_SEED, deals)

    def __call__(self, params: Any) -> dict[str, Summary]:
        """The matches of the player with these parameters, by opponent."""
        return {name: self._match(self._make, params, name) for name in OPPONENTS}

    def levels(self) -> dict[str, Summary]:
        """The weaker opponents against Greed, on the same deals."""
        return {
            name: self._match(_one_of_the_opponents, devices.put_whole(self._mesh, np.int32(i)), "greed")
            for i, name in enumerate(OPPONENTS[:2])
        }

    def _match(self, make: Callable[[Any], Player], params: Any, opponent: str) -> Summary:
        num, alone = len(self.deals), self._mesh.size == 1
        number = devices.put_whole(self._mesh, np.int32(OPPONENTS.index(opponent)))
        on_cpu = self._mesh.devices.flat[0].platform == "cpu"
        size = min(PART, num) if alone and on_cpu else -(-num // self._mesh.size) * self._mesh.size

        def play(part: Deals) -> np.ndarray:
            rows = np.arange(size) % len(part)  # repeated up to the size that is compiled
            which = (part.ids[rows], part.hands[rows], part.leaders[rows])
            margins = _margins(params, number, devices.put_whole(self._mesh, which), make, self._mesh)
            return np.asarray(devices.to_host(margins))[: len(part)]

        parts = duplicate.batches(self.deals, size)
        margins = list(duplicate.in_threads(play, parts)) if alone else [play(part) for part in parts]
        return duplicate.summarize(np.concatenate(margins))


def _one_of_the_opponents(number: jax.Array) -> Player:
    """A player whose number in :data:`OPPONENTS` is known when it plays: one compilation serves all of them."""
    every = [players.make(name) for name in OPPONENTS]
    branches = [player.choose for player in every]
    return Player(
        "opponent", lambda keys, views: jax.lax.switch(number, branches, keys, views), chunk=every[-1].chunk
    )


@functools.partial(jax.jit, static_argnames=("make", "mesh"))
def _margins(
    params: Any,
    opponent: jax.Array,
    which: tuple[jax.Array, jax.Array, jax.Array],
    make: Callable[[Any], Player],
    mesh: Mesh,
) -> jax.Array:
    """``int32[N, 2]``."""

    def local(params: Any, opponent: jax.Array, which: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        key = duplicate.luck(LUCK_SEED)
        return duplicate.tables(key, *which, make(params), _one_of_the_opponents(opponent))[2]

    split = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(devices.WHOLE, devices.WHOLE, devices.SPLIT),
        out_specs=devices.SPLIT,
        check_vma=False,
    )
    return devices.whole(mesh, split(params, opponent, which))
