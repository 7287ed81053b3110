"""The benchmarks run on small sizes and write the figures they promise."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import best_response, deep, engine, players
from eval.analysis import cost
from eval.duplicate import Contestant, random_deals
from eval.pairings import Pairings
from gongzhu_jax import deals, models, results
from gongzhu_jax.results import Figure


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


LUCK = np.random.default_rng(0).normal(0, 150, 64)


def made_up(monkeypatch: pytest.MonkeyPatch, strength: dict[str, float]) -> None:
    """Matches are luck on each deal plus what a player of that name is worth."""

    def margins(
        self: Pairings, a: Contestant, b: Contestant, batch: int | None, console: object
    ) -> np.ndarray:
        del b, batch, console
        first = next((int(word) for word in self.folder.name.split("-")[1:2] if word.isdigit()), 0)
        return LUCK[first : first + len(self.deals)] + strength[a.name]

    monkeypatch.setattr(Pairings, "margins", margins)


def test_deep_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up matches in parts: differences are paired, on the deals that were compared."""
    strength = {"deep": 110.0, "deep:belief=none": 90.0, "deep:solve=0": 104.0, "actor": 60.0}
    made_up(monkeypatch, strength | {deep.seer().name: 160.0})
    monkeypatch.setattr(cost, "milliseconds", lambda player, games, rounds: Figure(5.0, "ms", rounds, 0.1))
    hands = random_deals(0, 16).hands
    deals.write_deals(
        standard := tmp_path / "standard.tsv", [deals.Deal(str(i), h) for i, h in enumerate(hands)]
    )
    args = deep.Deep(standard, fresh=64, compared=32, part=16, folder=tmp_path / "kept", out=tmp_path)
    assert deep.run(args, Console(quiet=True)) == 0
    found = results.read("deep", tmp_path)["figures"]
    assert found["wpg_deep_fresh"].value == pytest.approx(LUCK.mean() + 110)
    assert found["won_fresh"].value == pytest.approx((LUCK > -110).mean())
    assert found["wpg_cheating"].value == pytest.approx(LUCK[:32].mean() + 160)
    for name, gain in (("belief", 20), ("endgame", 6), ("search", 50)):
        assert found[f"gain_{name}_paired"].value == pytest.approx(gain)
        assert found[f"gain_{name}_paired"].stderr == pytest.approx(0, abs=1e-9)
        assert found[f"gain_{name}_paired"].n == 32
    assert {"wpg_deep_standard", "latency_ms", "amortised_ms", "share_of_cheating"} <= set(found)


def test_best_response_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up training and matches; what was trained before is not trained again from its start."""
    runs = tmp_path / "runs"
    commands = []

    def train(args: Sequence[str]) -> int:
        commands.append(list(args))
        folder = Path(args[args.index("--out") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(models.find(models.ACTOR), folder / "last.model")
        return 0

    monkeypatch.setattr(best_response.actor, "main", train)
    trained = {f"actor:model={runs / name / 'last.model'}": 80.0 for name in best_response.OPPONENTS}
    made_up(monkeypatch, trained | {"actor": 50.0})
    args = best_response.BestResponse(batches=3, games=64, pairs=64, folder=runs, out=tmp_path)
    for _ in range(2):
        assert best_response.run(args, Console(quiet=True)) == 0
    assert ["--resume" in command for command in commands] == 3 * [False] + 3 * [True]
    assert all(command[command.index("--start") + 1] == models.ACTOR for command in commands)
    found = results.read("best_response", tmp_path)["figures"]
    assert found["deals"].value == 192
    for name in best_response.OPPONENTS:
        assert found[f"gain_response_{name}"].value == pytest.approx(30)
        assert found[f"wpg_start_{name}"].value == pytest.approx(LUCK.mean() + 50)
    monkeypatch.setattr(best_response.actor, "main", lambda args: 1)
    with pytest.raises(ValueError, match="the training against greed ended with status 1"):
        best_response.run(args, Console(quiet=True))
