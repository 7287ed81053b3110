"""The benchmarks run on small sizes and write the figures they promise."""

from pathlib import Path

from rich.console import Console

from benchmarks import engine, players
from gongzhu_jax import results


def test_engine_benchmark(tmp_path: Path) -> None:
    engine.run(engine.Engine(batches=(1, 8), pgx_batches=(4,), rounds=2, out=tmp_path), Console(quiet=True))
    figures = results.read("engine", tmp_path)["figures"]
    wanted = {
        "plies_per_s",
        "ratio_pgx_bridge_bidding",
        "ratio_oracle",
        "bandwidth_share",
        "compile_s",
        "state_bytes",
    }
    assert wanted <= set(figures)
    assert figures["state_bytes"].value == 134


def test_decision_rates(tmp_path: Path) -> None:
    figures = players.decisions(players.Players(data=tmp_path, games=64, rounds=2))
    assert set(figures) == {f"decisions_per_s_{name}" for name in ("random", "if", "greed")} | {
        f"decisions_per_s_oracle_{name}" for name in ("random", "if", "greed")
    }
    assert all(figure.value > 0 for figure in figures.values())
