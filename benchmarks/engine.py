"""Random legal play: ``python -m benchmarks.engine``.

One compiled program deals and plays a batch of deals, 52 plies each. Beside it, in the same process and round by
round: the plain-Python oracle of the tests on one core, and three environments of pgx, stepped as often with
random legal actions. pgx's games end at different times (random bridge bidding after 11 steps on average), so
they run in pgx's own ``auto_reset``, where every step is one of a live game and new games are started on the
way, as new deals are here. pgx's ``step`` also writes an observation. The figures ``…_no_reset`` leave starting
out on both sides: deals are made before the clock starts, and pgx steps on games that have ended, which costs
the same. Actions are drawn by the same rule from one random word a step. pgx's bridge bidding needs a table of
double-dummy results, of which pgx carries a sample.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import tyro
from rich.console import Console
from rich.table import Table

import gongzhu_jax as gz
from benchmarks import timing
from gongzhu_jax import cards, game, results
from gongzhu_jax.results import Figure
from tests.oracle import gongzhu as oracle

PLIES = 52
PGX_GAMES = ("bridge_bidding", "kuhn_poker", "tic_tac_toe")


@dataclasses.dataclass(frozen=True)
class Engine:
    """Measure plies per second of random legal play, beside the plain-Python oracle and pgx."""

    batches: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N…")] = (1, 64, 1024, 4096, 16384, 65536)
    """Games per batch."""
    pgx_batches: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N…")] = (1024, 4096, 16384)
    """Games per batch for pgx; its best counts."""
    rounds: int = 15
    """Rounds of timing."""
    out: Path = Path("results")
    """Folder of engine.json."""


def random_play(
    batch: int,
) -> tuple[Callable[[jax.Array], gz.State], Callable[[gz.State, jax.Array], gz.State]]:
    """Compiled functions that deal a batch of States, and that play one to the end."""

    def ply(states: gz.State, key: jax.Array) -> tuple[gz.State, None]:
        words = jax.random.bits(key, (batch,), jnp.uint32)

        def one(state: gz.State, word: jax.Array) -> gz.State:
            legal = game.legal_masks(state)
            return gz.step(state, cards.nth(legal, cards.below(word, cards.count(legal))))

        return jax.vmap(one)(states, words), None

    deal = jax.jit(lambda key: jax.vmap(gz.deal)(jax.random.split(key, batch)))
    play = jax.jit(lambda states, key: jax.lax.scan(ply, states, jax.random.split(key, PLIES))[0])
    return deal, play


def pgx_play(env: Any, batch: int, reset: bool) -> tuple[Any, Callable[[Any, jax.Array], Any]]:
    """Started games of a pgx environment, and a compiled function that steps them as often."""
    from pgx.experimental import auto_reset

    def pick(mask: jax.Array, word: jax.Array) -> jax.Array:
        number = cards.below(word, jnp.sum(mask, dtype=jnp.int32))
        return jnp.argmax(jnp.cumsum(mask) > number)

    def step(states: Any, key: jax.Array) -> tuple[Any, None]:
        words = jax.random.bits(key, (batch,), jnp.uint32)
        actions = jax.vmap(pick)(states.legal_action_mask, words)
        if not reset:
            return jax.vmap(env.step)(states, actions), None
        keys = jax.random.split(key, batch)
        return jax.vmap(auto_reset(env.step, env.init))(states, actions, keys), None

    started = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), batch))
    return started, jax.jit(lambda s, key: jax.lax.scan(step, s, jax.random.split(key, PLIES))[0])


def pgx_env(name: str) -> Any:
    """A pgx environment; bridge bidding with the sample of results that pgx carries for its own tests."""
    import pgx
    from pgx import bridge_bidding

    if name != "bridge_bidding":
        return pgx.make(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.npy"
        jnp.save(path, jnp.stack(bridge_bidding._load_sample_hash()))
        return bridge_bidding.BridgeBidding(str(path))


def oracle_play(deals: int, rng: random.Random) -> None:
    """Random legal play in plain Python."""
    for _ in range(deals):
        pack = rng.sample(range(52), 52)
        played = oracle.Game([pack[13 * i : 13 * i + 13] for i in range(4)], rng.randrange(4))
        while not played.over:
            played.play(rng.choice(played.legal()))
        played.scores()


def run(args: Engine, console: Console) -> None:
    """Measure, print a table, write the figures."""
    key = jax.random.key(0)
    calls: dict[str, Callable[[], Any]] = {}
    plies: dict[str, int] = {}
    compile_seconds: dict[str, float] = {}

    def add(name: str, call: Callable[[], Any], count: int) -> None:
        with console.status(f"compiling {name}"):
            compile_seconds[name] = timing.first_call(call)
        calls[name], plies[name] = call, count

    for batch in args.batches:
        deal, play = random_play(batch)
        states = deal(key)
        add(f"gongzhu {batch}", functools.partial(deal_and_play, deal, play, key), batch * PLIES)
        add(f"gongzhu_no_reset {batch}", functools.partial(play, states, key), batch * PLIES)
    for name in PGX_GAMES:
        env = pgx_env(name)
        for batch in args.pgx_batches:
            for suffix, reset in (("", True), ("_no_reset", False)):
                started, play = pgx_play(env, batch, reset)
                add(f"pgx_{name}{suffix} {batch}", functools.partial(play, started, key), batch * PLIES)
    block = jnp.zeros(1 << 26, jnp.uint32)  # 256 MiB, far beyond any cache
    sweeps = 8  # read and write the block again and again, so that fresh pages do not count
    copy = jax.jit(lambda x: jax.lax.fori_loop(0, sweeps, lambda _, y: y + 1, x))
    add("memory", lambda: copy(block), 1)
    rng = random.Random(0)
    add("oracle", lambda: oracle_play(40, rng), 40 * PLIES)

    seconds = timing.in_turn(calls, args.rounds)
    rate = {name: plies[name] / statistics.median(values) for name, values in seconds.items()}
    bandwidth = 2 * sweeps * block.nbytes / statistics.median(seconds["memory"])
    size = game.state_bytes(jax.eval_shape(gz.deal, key))
    cores = (os.cpu_count() or 1) if jax.devices()[0].platform == "cpu" else 1

    def best(what: str) -> str:
        return max((name for name in calls if name.split()[0] == what), key=lambda name: rate[name])

    def ratio(ours: str, theirs: str, per: int = 1) -> Figure:
        factor = plies[ours] / plies[theirs] / per
        found = [factor * b / a for a, b in zip(seconds[ours], seconds[theirs], strict=True)]
        return Figure(statistics.median(found), "ratio", len(found), timing.stderr(found))

    whole, steps = best("gongzhu"), best("gongzhu_no_reset")
    table = Table("what", "batch", "plies or steps / s", "first call, s", title=results.device())
    for name in calls:
        what, _, number = name.partition(" ")
        if number:
            table.add_row(what, number, f"{rate[name]:,.0f}", f"{compile_seconds[name]:.2f}")
    table.add_row("oracle, plain Python, one core", "1", f"{rate['oracle']:,.0f}", "–")
    console.print(table)

    figures = {
        "plies_per_s": timing.rate(plies[whole], seconds[whole], "plies/s"),
        "plies_per_s_no_reset": timing.rate(plies[steps], seconds[steps], "plies/s"),
        "best_batch": Figure(int(whole.split()[1]), "games", 1),
    }
    for name in PGX_GAMES:
        live = best(f"pgx_{name}")
        figures[f"steps_per_s_pgx_{name}"] = timing.rate(plies[live], seconds[live], "steps/s")
        figures[f"ratio_pgx_{name}"] = ratio(whole, live)
        figures[f"ratio_pgx_{name}_no_reset"] = ratio(steps, best(f"pgx_{name}_no_reset"))
    figures |= {
        "oracle_plies_per_s": timing.rate(plies["oracle"], seconds["oracle"], "plies/s"),
        "ratio_oracle": ratio(whole, "oracle", per=cores),
        "memory_bytes_per_s": Figure(bandwidth, "bytes/s", args.rounds),
        "bandwidth_share": Figure(rate[steps] * 2 * size / bandwidth, "ratio", args.rounds),
        "compile_s": Figure(compile_seconds[whole], "s", 1),
        "state_bytes": Figure(size, "bytes", 1),
    }
    timing.report("engine", figures, args.out, console)


def deal_and_play(deal: Callable[..., gz.State], play: Callable[..., gz.State], key: jax.Array) -> gz.State:
    """New deals, played to the end."""
    return play(deal(key), key)


def main() -> int:
    """The command line."""
    run(tyro.cli(Engine, prog="python -m benchmarks.engine"), Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
