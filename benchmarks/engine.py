"""Random legal play to the end of the deal: ``python -m benchmarks.engine``.

One compiled program plays a batch of deals, 52 plies each. Beside it, in the same process and round by round:
the plain-Python oracle of the tests on one core, and three environments of pgx stepped the same number of
times. Stepping means what each library's ``step`` does: pgx also writes an observation. All draw their legal
action with the same function from one random word a step. pgx's bridge bidding needs a table of double-dummy
results, of which pgx carries a sample; a game of it that ends is stepped on, which costs the same.
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


def random_play(batch: int) -> Callable[[gz.State, jax.Array], gz.State]:
    """A compiled function that plays a batch of dealt States to the end."""

    def ply(states: gz.State, key: jax.Array) -> tuple[gz.State, None]:
        words = jax.random.bits(key, (batch,), jnp.uint32)

        def one(state: gz.State, word: jax.Array) -> gz.State:
            legal = game.legal_masks(state)
            return gz.step(state, cards.nth(legal, cards.below(word, cards.count(legal))))

        return jax.vmap(one)(states, words), None

    return jax.jit(lambda states, key: jax.lax.scan(ply, states, jax.random.split(key, PLIES))[0])


def pgx_play(env: Any, batch: int) -> tuple[Any, Callable[[Any, jax.Array], Any]]:
    """Started games of a pgx environment, and a compiled function that steps them as often."""

    def pick(mask: jax.Array, word: jax.Array) -> jax.Array:
        number = cards.below(word, jnp.sum(mask, dtype=jnp.int32))
        return jnp.argmax(jnp.cumsum(mask) > number)

    def step(states: Any, key: jax.Array) -> tuple[Any, None]:
        words = jax.random.bits(key, (batch,), jnp.uint32)
        actions = jax.vmap(pick)(states.legal_action_mask, words)
        return jax.vmap(env.step)(states, actions), None

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
        states = jax.jit(jax.vmap(gz.deal))(jax.random.split(key, batch))
        add(f"gongzhu {batch}", functools.partial(random_play(batch), states, key), batch * PLIES)
    for name in PGX_GAMES:
        env = pgx_env(name)
        for batch in args.pgx_batches:
            started, play = pgx_play(env, batch)
            add(f"pgx {name} {batch}", functools.partial(play, started, key), batch * PLIES)
    deal_many = jax.jit(jax.vmap(gz.deal))
    deal_keys = jax.random.split(key, max(args.batches))
    add("dealing", lambda: deal_many(deal_keys), len(deal_keys))
    block = jnp.zeros(1 << 26, jnp.uint32)  # 256 MiB, far beyond any cache
    copy = jax.jit(lambda x: x + 1)
    add("memory", lambda: copy(block), 1)
    rng = random.Random(0)
    add("oracle", lambda: oracle_play(40, rng), 40 * PLIES)

    seconds = timing.in_turn(calls, args.rounds)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    rate = {name: plies[name] / median[name] for name in calls}
    best = max((n for n in calls if n.startswith("gongzhu")), key=lambda n: rate[n])
    best_pgx = {g: max((n for n in calls if n.startswith(f"pgx {g} ")), key=lambda n: rate[n]) for g in PGX_GAMES}
    bandwidth = 2 * block.nbytes / median["memory"]
    size = game.state_bytes(gz.deal(key))
    cores = (os.cpu_count() or 1) if jax.devices()[0].platform == "cpu" else 1

    table = Table("what", "batch", "plies or steps / s", "first call, s", title=results.device())
    for name in calls:
        what, _, number = name.rpartition(" ")
        if what:
            table.add_row(what, number, f"{rate[name]:,.0f}", f"{compile_seconds[name]:.2f}")
    table.add_row("oracle (plain Python, one core)", "1", f"{rate['oracle']:,.0f}", "–")
    console.print(table)
    console.print(f"dealing: {rate['dealing']:,.0f} deals/s; State: {size} bytes; memory: {bandwidth / 1e9:.1f} GB/s")

    def ratio(other: str, scale: float = 1.0) -> Figure:
        pairs = [
            scale * plies[best] / a / (plies[other] / b) for a, b in zip(seconds[best], seconds[other], strict=True)
        ]
        return Figure(statistics.median(pairs), "ratio", len(pairs), timing.stderr(pairs))

    rates = [plies[best] / s for s in seconds[best]]
    figures = {
        "plies_per_s": Figure(rate[best], "plies/s", args.rounds, timing.stderr(rates)),
        "best_batch": Figure(int(best.split()[1]), "games", 1),
        "deals_per_s": Figure(rate["dealing"], "deals/s", args.rounds),
        **{f"ratio_pgx_{g}": ratio(best_pgx[g]) for g in PGX_GAMES},
        **{f"steps_per_s_pgx_{g}": Figure(rate[best_pgx[g]], "steps/s", args.rounds) for g in PGX_GAMES},
        "ratio_oracle": ratio("oracle", scale=1 / cores),
        "oracle_plies_per_s": Figure(rate["oracle"], "plies/s", args.rounds),
        "memory_bytes_per_s": Figure(bandwidth, "bytes/s", args.rounds),
        "bandwidth_share": Figure(rate[best] * 2 * size / bandwidth, "ratio", args.rounds),
        "compile_s": Figure(compile_seconds[best], "s", 1),
        "state_bytes": Figure(size, "bytes", 1),
    }
    for key_, figure in figures.items():
        console.print(f"{key_}: {figure.value:.4g} {figure.unit}")
    console.print(f"figures: {results.write('engine', figures, folder=args.out)}")


def main() -> int:
    """The command line."""
    run(tyro.cli(Engine, prog="python -m benchmarks.engine"), Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
