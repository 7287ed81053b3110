"""Self-play and training: speed, where its time goes, and what a run on two cores reaches.

``python -m benchmarks.selfplay`` measures, in turn and in one process, whole games of self-play, the
network alone on batches of the same size, the same games with a network that costs nothing, and learning. The
network's bound is the rate of games that its evaluations alone would allow: T = b + k·L simulations for every
position, each one evaluation. Then it plays the model that ships, the best of a run with ``--preset small``, against
Greed on fresh deals, and times the README's main command in a new virtual environment, from ``pip install`` to the
last row. ``--small RUN`` measures another such run, whose progress replaces the curve beside the figures.
"""

from __future__ import annotations

import dataclasses
import functools
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import tyro
from rich.console import Console

import gongzhu_jax as gz
from benchmarks import timing
from eval import duplicate
from eval.match import play_match
from gongzhu_jax import cards, features, game, models, networks, players, search
from gongzhu_jax.results import Figure
from train import devices, learner, logs, loop, rollouts
from train.selfplay_config import PRESETS

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"fc24": (64, 512), "fc-small": (128, 512, 1024)}
"""Games in lockstep."""
MAIN = {"fc24": 512, "fc-small": 1024}
"""Those of the figures without a size."""
CURVE = Path("results") / "selfplay_small.csv"
"""The progress file of the run that the shipped model is from; README's curve is drawn from it."""
NET_BATCH = 256
"""Positions in a call of the network alone: the size that suits two cores best."""
NET_CALLS = 200
"""Calls of the network alone in a round: long enough for a steady rate."""
TRANSFORM = learner.optimizer(PRESETS["small"].learning_rate)
FRESH_SEED = 20_261_130
"""Of the deals and the luck of the figure against Greed; used by nothing else."""


@dataclasses.dataclass(frozen=True)
class SelfPlay:
    """Measure self-play, learning, a trained run and the quick preset; writes selfplay.json."""

    small: Path | None = None
    """Folder of a finished run with --preset small to measure in place of the model that ships."""
    quick: bool = True
    """Install into a new virtual environment and time ``python -m train.selfplay`` there (about ten minutes)."""
    pairs: int = 2048
    """Fresh deals of the match against Greed."""
    rounds: int = 5
    """Rounds of timing."""
    chunk: int = 128
    """Searches in lockstep."""
    out: Path = Path("results")
    """Folder of selfplay.json."""


class Nothing(nn.Module):
    """A network that costs nothing: what remains is tree, game and features."""

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Zeros that depend on the input, so that it is still made."""
        rest = x[..., 0] * 0.0
        return jnp.zeros((*x.shape[:-1], 52)) + rest[..., None], rest


def evaluations_per_game(ended: gz.State, settings: search.Settings) -> float:
    """Simulations of a game, from games that were played."""

    def one(ended: gz.State) -> jax.Array:
        def ply(state: gz.State, card: jax.Array) -> tuple[gz.State, jax.Array]:
            return gz.step(state, card), cards.count(game.legal_masks(state))

        legal = jax.lax.scan(ply, game.dealt(ended), ended.plays)[1]
        return jnp.sum(jnp.asarray(settings.budgets())[legal])

    return float(jnp.mean(jax.jit(jax.vmap(one))(ended).astype(jnp.float32)))


def speeds(args: SelfPlay) -> dict[str, Figure]:
    """Games per second by network and batch size, its bound, and the split of the time."""
    settings = search.Settings(chunk=args.chunk)
    mesh = devices.all_devices()
    calls: dict[str, Callable[[], Any]] = {}
    evaluations = {}
    for name, sizes in SIZES.items():
        network = networks.make(name, mixed=True)
        params = networks.init(network, jax.random.key(0))
        inputs = jax.random.bernoulli(jax.random.key(1), 0.2, (NET_BATCH, features.SIZE)).astype(jnp.float32)
        forward = jax.jit(functools.partial(many, network), static_argnums=2)
        calls[f"{name} net"] = functools.partial(forward, params, inputs, NET_CALLS)
        for games in sorted(sizes, key=lambda games: games != MAIN[name]):  # the main size next to the net
            keys = jax.random.split(jax.random.key(games), games)
            play = functools.partial(rollouts.play_games, params=params, network=network, settings=settings)
            calls[f"{name} {games}"] = functools.partial(devices.in_parts, mesh, keys, play)
        samples, ended = calls[f"{name} {MAIN[name]}"]()
        evaluations[name] = evaluations_per_game(ended, settings)
        nothing = Nothing()
        keys = jax.random.split(jax.random.key(2), MAIN[name])
        tree = functools.partial(rollouts.play_games, params={}, network=nothing, settings=settings)
        calls[f"{name} tree"] = functools.partial(devices.in_parts, mesh, keys, tree)
        calls[f"{name} game"] = functools.partial(devices.in_parts, mesh, keys, jax.jit(game_alone))
        calls[f"{name} learn"] = functools.partial(learn_once, network, params, samples)
    for call in calls.values():
        jax.block_until_ready(call())
    seconds = timing.in_turn(calls, args.rounds)
    return {k: f for name in SIZES for k, f in _figures(name, seconds, evaluations[name], args).items()}


def many(network: nn.Module, params: Any, inputs: jax.Array, times: int) -> jax.Array:
    """Value sums of the network on slightly different inputs, one after the other."""
    params = networks.rounded(network, params)

    def once(total: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
        return total + jnp.sum(networks.apply(network, params, inputs + i * 1e-3)[1]), None

    return jax.lax.scan(once, jnp.float32(0), jnp.arange(times))[0]


def game_alone(keys: jax.Array) -> Any:
    """Random games and the features of their positions, without any search."""

    def one(key: jax.Array) -> Any:
        ended, before = game.play_random(key, gz.deal(key))
        return ended, jax.vmap(features.encode)(before).astype(jnp.bool_)

    return jax.vmap(one)(keys)


def learn_once(network: nn.Module, params: Any, samples: rollouts.Samples) -> Any:
    """One epoch over the samples of a batch of games, from a copy of the parameters."""
    config = PRESETS["small"]
    params, num = jax.tree.map(jnp.copy, params), samples.value.shape[0]
    return learner.learn(
        jax.random.key(0),
        params,
        TRANSFORM.init(params),
        samples,
        num,
        network,
        TRANSFORM,
        epochs=1,
        batch_size=config.minibatch,
    )


def _figures(
    name: str, seconds: dict[str, list[float]], evaluations: float, args: SelfPlay
) -> dict[str, Figure]:
    short, games = name.replace("-", "_"), MAIN[name]
    found = {}
    for size in SIZES[name]:
        rate = timing.rate(size, seconds[f"{name} {size}"], "games/s")
        found[f"games_per_s_{short}_{size}"] = rate
        found[f"positions_per_s_{short}_{size}"] = timing.rate(
            52 * size, seconds[f"{name} {size}"], "positions/s"
        )
    net = timing.rate(NET_CALLS * NET_BATCH, seconds[f"{name} net"], "evaluations/s")
    main = found[f"games_per_s_{short}_{games}"]
    shares = [
        (games * evaluations / (NET_CALLS * NET_BATCH) * n) / whole
        for n, whole in zip(seconds[f"{name} net"], seconds[f"{name} {games}"], strict=True)
    ]
    learn_samples = 52 * games
    of_a_game = {
        what: timing.rate(games, seconds[f"{name} {what}"], "games/s").value for what in ("tree", "game")
    }
    found |= {
        f"games_per_s_{short}": main,
        f"net_evaluations_per_s_{short}": net,
        f"evaluations_per_game_{short}": Figure(evaluations, "evaluations", games),
        f"net_bound_share_{short}": Figure(
            sorted(shares)[len(shares) // 2], "share", len(shares), timing.stderr(shares)
        ),
        f"ms_per_game_{short}_all": Figure(1e3 / main.value, "ms", main.n),
        f"ms_per_game_{short}_net": Figure(1e3 * evaluations / net.value, "ms", net.n),
        f"ms_per_game_{short}_tree_and_game": Figure(1e3 / of_a_game["tree"], "ms", args.rounds),
        f"ms_per_game_{short}_game": Figure(1e3 / of_a_game["game"], "ms", args.rounds),
        f"learned_samples_per_s_{short}": timing.rate(learn_samples, seconds[f"{name} learn"], "samples/s"),
    }
    return found


def trained(args: SelfPlay, console: Console) -> dict[str, Figure]:
    """The best model of the run against Greed on fresh deals, and what the run took."""
    curve, best = CURVE, models.SCROFA
    if args.small is not None:
        curve, best = args.small / logs.CSV, str(args.small / loop.BEST)
        shutil.copyfile(curve, args.out / CURVE.name)
    rows, info = logs.read(curve), models.load(best).info
    deals = duplicate.random_deals(FRESH_SEED, args.pairs)
    found = {
        "small_minutes": Figure(float(rows[-1]["seconds"]) / 60, "min", 1),
        "small_games": Figure(float(rows[-1]["games"]), "games", 1),
        "small_best_games": Figure(float(info["games"]), "games", 1),
    }
    for mode in ("search", "policy"):
        spec = f"raw:model={best}" + ("" if mode == "search" else ",mode=policy")
        margins, _ = play_match(players.make(spec), players.make("greed"), deals, FRESH_SEED, None, console)
        summary = duplicate.summarize(margins)
        key = "raw_wpg_small" if mode == "search" else "policy_wpg_small"
        found[key] = Figure(summary.margin, "points/deal", summary.pairs, summary.stderr)
        if mode == "search":
            found["raw_won_small"] = Figure(summary.won / summary.pairs, "share", summary.pairs)
    return found


def quick(args: SelfPlay, console: Console) -> dict[str, Figure]:
    """The README's main command in a new virtual environment."""
    if not args.quick:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        venv.create(Path(folder) / "venv", with_pip=True)
        python = str(Path(folder) / "venv" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True)
        installed = time.perf_counter()
        console.print(f"installed in {installed - start:.0f} s")
        command = [python, "-u", "-m", "train.selfplay", "--out", str(Path(folder) / "run")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        first = None
        assert process.stdout is not None
        for line in process.stdout:
            console.print(line.rstrip(), highlight=False, soft_wrap=True)
            if first is None and line.split()[:2] == ["0", "0"]:
                first = time.perf_counter()
        if process.wait() or first is None:
            raise ValueError(f"{' '.join(command[1:])} ended with status {process.returncode}")
        ended = time.perf_counter()
        rows = [row for row in logs.read(Path(folder) / "run" / logs.CSV) if row["margin_greed"]]
        played = int(logs.read(Path(folder) / "run" / logs.CSV)[-1]["games"])

    def margin(row: dict[str, str]) -> Figure:
        return Figure(
            float(row["margin_greed"]), "points/deal", PRESETS["quick"].eval_deals, float(row["error_greed"])
        )

    return {
        "install_s": Figure(installed - start, "s", 1),
        "first_row_s": Figure(first - installed, "s", 1),
        "quick_minutes": Figure((ended - installed) / 60, "min", 1),
        "quick_games": Figure(played, "games", 1),
        "quick_margin_first": margin(rows[0]),
        "quick_margin_last": margin(rows[-1]),
    }


def run(args: SelfPlay, console: Console) -> None:
    """Measure, print a table, write the figures."""
    figures = speeds(args) | trained(args, console) | quick(args, console)
    timing.report("selfplay", figures, args.out, console)


def main() -> int:
    """The command line."""
    run(tyro.cli(SelfPlay, prog="python -m benchmarks.selfplay"), Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
