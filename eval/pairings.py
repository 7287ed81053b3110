"""A folder that keeps the margins of finished pairings, so that long evaluations go on where they were stopped."""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from eval import cli
from eval.duplicate import Contestant, Deals
from eval.match import play_match
from gongzhu_jax import models

SETTINGS = "settings.json"


class Pairings:
    """Pairings of players, all on the same deals and luck."""

    def __init__(self, folder: Path, deals: Deals, seed: int, deal_file: Path | None) -> None:
        """Make the folder, or see that what it holds was played on the same deals.

        Raises:
          UsageError: it holds something else.
        """
        self.folder, self.deals, self.seed = folder, deals, seed
        settings = {"deals": len(deals), "seed": seed, "deal_file": deal_file and str(deal_file)}
        settings["checksum"] = int(deals.hands.astype(np.int64).dot(np.arange(52)).dot([1, 2, 3, 5]).sum())
        path = folder / SETTINGS
        if path.exists():
            before = json.loads(path.read_text())
            for key, value in settings.items():
                if before.get(key) != value:
                    was = f"its games were played with {key} {before.get(key)}, not {value}"
                    raise cli.UsageError(f"--out {folder}: {was}; name another folder")
            return
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise cli.UsageError(f"--out {folder}: it exists and holds no pairings; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings, indent=2) + "\n")

    def margins(self, a: Contestant, b: Contestant, batch: int | None, console: Console) -> np.ndarray:
        """Margins per deal from A's side, ``float[N]``, the mean of both tables; played unless they are kept.

        Raises:
          KeyboardInterrupt: Ctrl-C while playing; nothing of this pairing is kept.
        """
        kept = self._load(a, b)
        if kept is not None:
            console.print(f"{a.name} v {b.name}: played before")
            return kept
        started = time.perf_counter()
        played, interrupted = play_match(a, b, self.deals, self.seed, batch, console)
        if interrupted:
            console.print(f"interrupted in {a.name} v {b.name}; the same command goes on with it")
            raise KeyboardInterrupt
        margins = played.mean(axis=1)
        self._save(a, b, margins, time.perf_counter() - started)
        return margins

    def _file(self, a: Contestant, b: Contestant) -> Path:
        return self.folder / "pairings" / re.sub(r"[/\\:]", "_", f"{a.name}--{b.name}.json")

    def _load(self, a: Contestant, b: Contestant) -> np.ndarray | None:
        """In whichever order it was played, by the same model files."""
        for first, second, sign in ((a, b, 1), (b, a, -1)):
            path = self._file(first, second)
            if path.exists():
                content = json.loads(path.read_text())
                if content["models"] == model_files(first, second):
                    return sign * np.array(content["margins"])
        return None

    def _save(self, a: Contestant, b: Contestant, margins: np.ndarray, seconds: float) -> None:
        path = self._file(a, b)
        path.parent.mkdir(exist_ok=True)
        content: dict[str, Any] = {"a": a.name, "b": b.name, "seconds": seconds, "models": model_files(a, b)}
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(content | {"margins": margins.tolist()}) + "\n")
        unfinished.replace(path)


def model_files(*players: Contestant) -> dict[str, str]:
    """The models that players decide by, with the SHA-256 of their files."""
    used = sorted({model for player in players for model in player.models})
    return {model: hashlib.sha256(models.find(model).read_bytes()).hexdigest() for model in used}
