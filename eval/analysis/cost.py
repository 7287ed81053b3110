"""What a player's decisions cost."""

from __future__ import annotations

import statistics
import time

import jax

import gongzhu_jax as gz
from gongzhu_jax import game
from gongzhu_jax.players import Player
from gongzhu_jax.results import Figure

PLIES = range(0, 52, 3)  # all trick positions, early and late


def milliseconds(player: Player, games: int, rounds: int = 3) -> Figure:
    """The mean over decisions at plies spread over the deal, of random games in lockstep; the median round."""
    choose = jax.jit(player.choose)
    positions = [views_at(games, ply) for ply in PLIES]
    keys = jax.random.split(jax.random.key(1), games)
    jax.block_until_ready(choose(keys, positions[0]))
    measured = []
    for _ in range(rounds):
        start = time.perf_counter()
        for views in positions:
            jax.block_until_ready(choose(keys, views))
        measured.append(1e3 * (time.perf_counter() - start) / (games * len(positions)))
    spread = statistics.stdev(measured) / rounds**0.5
    return Figure(statistics.median(measured), "ms", rounds, spread)


def views_at(games: int, ply: int) -> gz.View:
    """Movers' Views of random games before a ply, ``[games]``."""

    def one(key: jax.Array) -> gz.View:
        state, _ = game.play_random(key, gz.deal(key), ply)
        return gz.view(state, game.mover(state))

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(ply), games))
