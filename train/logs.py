"""What a run writes as it goes: one CSV row and TensorBoard scalars a batch, and its learning curve."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tensorboardX import SummaryWriter

CSV = "progress.csv"
CURVE = "learning_curve.png"
LABELS = {"random": "Random", "if": "If", "greed": "Greed"}


class RunLog:
    """Appends to ``progress.csv`` and ``tensorboard/`` of a run folder.

    Rows after the batch that a run goes on from are dropped: they will be measured again.
    """

    def __init__(self, folder: Path, columns: Sequence[str], batch: int) -> None:
        """Go on after so many batches."""
        self._path, self._columns = folder / CSV, list(columns)
        kept = [row for row in read(self._path) if int(row["batch"]) <= batch]
        unfinished = self._path.with_suffix(".csv.unfinished")
        with open(unfinished, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(kept)
        unfinished.replace(self._path)
        self._file = open(self._path, "a", newline="", encoding="utf-8")  # noqa: SIM115
        self._writer = csv.DictWriter(self._file, self._columns)
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=batch + 1)

    def write(self, row: Mapping[str, Any]) -> None:
        """One batch; columns that are missing stay empty."""
        self._writer.writerow(row)
        self._file.flush()
        for name, value in row.items():
            if name != "batch":
                self._board.add_scalar(name.replace("__", "/"), value, row["batch"])

    def close(self) -> None:
        """Finish the files."""
        self._file.close()
        self._board.close()


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a progress file; none where there is no file, and a torn last line is left out."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if None not in row.values() and row["batch"].isdigit()]


def evaluations(path: Path) -> list[dict[str, str]]:
    """The rows of a progress file that hold an evaluation.

    Raises:
      ValueError: there is none.
    """
    rows = [row for row in read(path) if row.get("margin_greed")]
    if not rows:
        raise ValueError(f"{path}: no evaluation yet, nothing to draw")
    return rows


def curve(rows: Sequence[Mapping[str, str]], levels: Mapping[str, float], title: str, path: Path) -> Path:
    """Draw margins by games played.

    Args:
      rows: of :func:`evaluations`.
      levels: margins of Random and If against Greed, drawn as lines.
      path: of the PNG.
    """
    games = [int(row["games"]) for row in rows]
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    colors = {"random": "#7f7f7f", "if": "#ff7f0e", "greed": "#1f77b4"}
    for name, level in levels.items():
        axes.axhline(level, color=colors[name], linestyle="--", linewidth=1)
        axes.annotate(
            f"{LABELS[name]} v Greed",
            (1.0, level),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            color=colors[name],
        )
    axes.axhline(0, color="#444444", linewidth=1)
    for name, label in LABELS.items():
        margins = [float(row[f"margin_{name}"]) for row in rows]
        errors = [float(row[f"error_{name}"]) for row in rows]
        low = [m - 1.96 * e for m, e in zip(margins, errors, strict=True)]
        high = [m + 1.96 * e for m, e in zip(margins, errors, strict=True)]
        axes.plot(games, margins, color=colors[name], marker=".", label=f"network v {label}")
        axes.fill_between(games, low, high, color=colors[name], alpha=0.15, linewidth=0)
    axes.set_xlabel("games of self-play")
    axes.set_ylabel("points per deal (95 % interval)")
    axes.set_title(title)
    axes.legend(loc="best")
    axes.grid(alpha=0.25)
    unfinished = path.with_name("unfinished.png")
    figure.savefig(unfinished, dpi=120)
    plt.close(figure)
    unfinished.replace(path)
    return path


HEADER = (
    f"{'batch':>7} {'games':>9} {'games/s':>8} {'policy':>7} {'value':>7} "
    f"{'v Random':>14} {'v If':>14} {'v Greed':>14} {'elapsed':>8} {'left':>8}"
)


def line(row: Mapping[str, Any], left: float | None) -> str:
    """An evaluation as a line under :data:`HEADER`."""

    def number(name: str, form: str) -> str:
        return form.format(row[name]) if name in row else "–"

    def margin(name: str) -> str:
        value, error = row[f"margin_{name}"], row[f"error_{name}"]
        return f"{value:+.1f} ± {error:.1f}"

    return (
        f"{row['batch']:>7} {row['games']:>9,} {number('games_per_s', '{:.1f}'):>8} "
        f"{number('loss_policy', '{:.3f}'):>7} {number('loss_value', '{:.1f}'):>7} "
        f"{margin('random'):>14} {margin('if'):>14} {margin('greed'):>14} "
        f"{clock(row['seconds']):>8} {'–' if left is None else clock(left):>8}"
    )


def clock(seconds: float) -> str:
    """``h:mm:ss``, or ``m:ss`` below an hour."""
    if not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def warn(text: str) -> None:
    """To standard error."""
    print(text, file=sys.stderr, flush=True)
