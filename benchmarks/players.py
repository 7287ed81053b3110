"""The reference players: fidelity, margins and speed. ``python -m benchmarks.players --data FOLDER``.

Decisions per second are measured in lockstep at plies spread over the deal, beside the plain-Python oracle of the
tests on one core in the same process; the margins on the standard deals stand beside those of the authors'
own programs (178.8 ± 5.1, 79.8 ± 4.9, 267.2 ± 4.8).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from rich.console import Console

import gongzhu_jax as gz
from benchmarks import timing
from eval import duplicate
from eval.match import play_match
from gongzhu_jax import cards, game, players, worlds
from gongzhu_jax.results import Figure
from tests import recorded
from tests.oracle import opponents as oracle
from tests.oracle import worlds as oracle_worlds
from tests.test_worlds import ENDINGS, ending, hidden_state

PLIES = range(0, 52, 3)  # all trick positions, early and late
SPECS = ("random", "if", "greed")


@dataclasses.dataclass(frozen=True)
class Players:
    """Measure the reference players against records and published margins, and their speed."""

    data: Path
    """Folder with standard_deals_1024.tsv and opponent_cases.json."""
    games: int = 1024
    """Games in lockstep for decisions per second."""
    rounds: int = 9
    """Rounds of timing."""
    out: Path = Path("results")
    """Folder of opponents.json."""


def fidelity(cases: dict[str, Any]) -> dict[str, Figure]:
    """Agreement with the recorded decisions."""
    exact, if_cases = recorded.exact_cases(cases["greed"]), cases["mr_if"]
    wrong_if, wrong_exact = recorded.if_disagreements(if_cases), recorded.exact_disagreements(cases["greed"])
    sampled = recorded.sampled_comparison(cases["greed"])
    n = len(sampled.worst)
    return {
        "cases_if": Figure(1 - len(wrong_if) / len(if_cases), "share", len(if_cases)),
        "cases_greed_exact": Figure(1 - len(wrong_exact) / len(exact), "share", len(exact)),
        "cases_greed_top": Figure(float((sampled.gap <= 1e-4).mean()), "share", n),
        "cases_greed_top_or_tied": Figure(float((sampled.gap_errors <= 2).mean()), "share", n),
        "cases_greed_worst_errors": Figure(float(sampled.worst.max()), "standard errors", n),
    }


def matches(deals: duplicate.Deals, console: Console) -> dict[str, Figure]:
    """Margins on some deals, and how long they take once compiled."""
    found: dict[str, Figure] = {}
    for a, b in (("if", "random"), ("greed", "if"), ("greed", "random")):
        first, second = players.make(a), players.make(b)
        start = time.perf_counter()
        play_match(first, second, deals, 0, None, console)
        whole = time.perf_counter() - start
        start = time.perf_counter()
        margins, _ = play_match(first, second, deals, 0, None, console)
        seconds = time.perf_counter() - start
        summary = duplicate.summarize(margins)
        found[f"margin_{a}_{b}"] = Figure(summary.margin, "points/deal", summary.pairs, summary.stderr)
        found[f"{a}_{b}_seconds"] = Figure(seconds, "s", summary.pairs)
        found[f"{a}_{b}_compile_s"] = Figure(whole - seconds, "s", 1)
    many = duplicate.random_deals(1, 16_384)
    first, second = players.make("if"), players.make("random")
    play_match(first, second, many.slice(0, 1024), 0, 1024, console)
    seconds_each = []
    for _ in range(5):
        start = time.perf_counter()
        play_match(first, second, many, 0, 1024, console)
        seconds_each.append(time.perf_counter() - start)
    found["if_random_games_per_s"] = timing.rate(2 * len(many), seconds_each, "games/s")
    return found


def sampler(args: Players) -> dict[str, Figure]:
    """Worlds per second, and the largest deviation from exact marginals in small endings."""
    states = dealt_positions(args.games)
    sample = jax.jit(jax.vmap(lambda key, view: worlds.sample(key, view, 20)))
    views = jax.vmap(lambda s: gz.view(s, game.mover(s)))(jax.tree.map(lambda x: x[:, 20], states))
    keys = recorded.keys(0, args.games)
    call = functools.partial(sample, keys, views)
    jax.block_until_ready(call())
    seconds = timing.in_turn({"worlds": call}, args.rounds)["worlds"]
    worst, draws = 0.0, 200_000
    for unseen, voids, _ in ENDINGS.values():
        view = ending(unseen, voids)
        every = list(oracle_worlds.enumerate_worlds(*hidden_state(view)))
        if every:
            exact = np.array([[[c in hand for c in range(52)] for hand in world] for world in every]).mean(
                axis=0
            )
            drawn = cards.to_bools(worlds.sample(jax.random.key(0), view, draws))
            worst = max(worst, float(np.abs(np.asarray(drawn).mean(axis=0) - exact).max()))
    return {
        "worlds_per_s": timing.rate(20 * args.games, seconds, "worlds/s"),
        "worlds_max_marginal_deviation": Figure(worst, "probability", draws),
    }


def dealt_positions(games: int) -> gz.State:
    """Random play: the States before each ply, ``[games, 52]``."""
    return jax.jit(jax.vmap(lambda key: game.play_random(key, gz.deal(key))))(recorded.keys(3, games))[1]


def decisions(args: Players) -> dict[str, Figure]:
    """Decisions per second of each player in lockstep, and of the oracle on one core."""
    states = dealt_positions(args.games)
    keys = recorded.keys(0, args.games)
    by_ply = [
        jax.vmap(lambda s: gz.view(s, game.mover(s)))(jax.tree.map(lambda x, ply=ply: x[:, ply], states))
        for ply in PLIES
    ]
    calls: dict[str, Callable[[], Any]] = {}
    counts: dict[str, int] = {}
    for spec in SPECS:
        player = players.make(spec)
        chunk = min(player.chunk, args.games)
        play = jax.jit(functools.partial(in_chunks, player, chunk))
        calls[spec] = functools.partial(lambda play: [play(keys, views) for views in by_ply], play)
        counts[spec] = len(PLIES) * args.games
    rng = random.Random(0)
    few = [recorded.history(jax.tree.map(lambda x, i=i: x[i], views)) for views in by_ply for i in range(2)]
    functions = {"random": oracle.mr_random, "if": oracle.mr_if, "greed": oracle.greed}
    for spec in SPECS:
        repeat = 1 if spec == "greed" else 20
        calls[f"oracle_{spec}"] = functools.partial(
            lambda function, times: [function(*position, rng) for position in few for _ in range(times)],
            functions[spec],
            repeat,
        )
        counts[f"oracle_{spec}"] = len(few) * repeat
    for call in calls.values():
        jax.block_until_ready(call())
    seconds = timing.in_turn(calls, args.rounds)
    return {
        f"decisions_per_s_{name}": timing.rate(counts[name], values, "decisions/s")
        for name, values in seconds.items()
    }


def in_chunks(player: players.Player, chunk: int, keys: jax.Array, views: gz.View) -> jax.Array:
    """A player on a batch, as many games at a time as suit it."""
    split = jax.tree.map(lambda x: x.reshape(-1, chunk, *x.shape[1:]), (keys, views))
    return jax.lax.map(lambda part: player(*part), split).reshape(-1)


def run(args: Players, console: Console) -> None:
    """Measure, print a table, write the figures."""
    deals = duplicate.file_deals(args.data / "standard_deals_1024.tsv")
    cases = json.loads((args.data / "opponent_cases.json").read_text())
    figures = matches(deals, console) | decisions(args) | sampler(args) | fidelity(cases)
    timing.report("opponents", figures, args.out, console)


def main() -> int:
    """The command line."""
    run(tyro.cli(Players, prog="python -m benchmarks.players"), Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
