"""What the analyses share: their arguments, tables and figures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from rich.console import Console

from eval import cli
from eval.duplicate import Deals, file_deals, random_deals
from gongzhu_jax import results
from gongzhu_jax.results import Figure

COLORS = {"grey": "#7f7f7f", "blue": "#1f77b4", "orange": "#ff7f0e", "green": "#2ca02c", "red": "#d62728"}


@dataclasses.dataclass(frozen=True)
class Analysis:
    """Arguments of every analysis."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """A model file, such as best.model of a run."""
    out: Path = Path("runs/analysis")
    """Folder for results, made if it is not there."""
    deals: int | None = None
    """How many deals, each at two tables. Default: 1024, or all of --deal-file."""
    seed: int = 0
    """Of the deals and of all luck."""
    deal_file: Path | None = None
    """Play these deals (TSV or PBN, one a line) instead of random ones."""
    batch: int | None = None
    """Deals in one compiled call. Default: what suits the device."""

    def read_deals(self) -> Deals:
        """Check the arguments and get the deals."""
        cli.check_range("--seed", self.seed, 0, 2**31 - 1)
        for flag, value in (("--deals", self.deals), ("--batch", self.batch)):
            if value is not None:
                cli.check_range(flag, value, 2 if flag == "--deals" else 1)
        if self.deal_file:
            return file_deals(self.deal_file, self.deals)
        return random_deals(self.seed, self.deals or 1024)


def report(
    name: str,
    figures: Mapping[str, Figure],
    table: Callable[[Mapping[str, Figure]], str],
    draw: Callable[[Mapping[str, Figure], Path], None],
    out: Path,
    console: Console,
) -> None:
    """Write ``out/NAME.json``, ``.md`` and ``.png``, and say so."""
    out.mkdir(parents=True, exist_ok=True)
    text = table(figures)
    (out / f"{name}.md").write_text(text, encoding="utf-8")
    draw(figures, out / f"{name}.png")
    path = results.write(name, figures, folder=out)
    console.print(text, highlight=False, soft_wrap=True)
    console.print(f"written: {path}, {name}.md, {name}.png")


def mean(values: np.ndarray, unit: str = "points/deal") -> Figure:
    """A mean over independent values with its standard error."""
    n = len(values)
    return Figure(float(values.mean()), unit, n, float(values.std(ddof=1) / math.sqrt(n)))


def share(part: np.ndarray, whole: np.ndarray) -> Figure:
    """A mean as a share of another over the same deals, with its standard error to first order."""
    ratio = float(part.mean() / whole.mean())
    rest = (part - ratio * whole) / whole.mean()
    return Figure(ratio, "share", len(part), float(rest.std(ddof=1) / math.sqrt(len(part))))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table with a line of text above it."""
    lines = [caption, "", "| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def with_error(figure: Figure) -> str:
    """``+1.2 ± 0.3``."""
    return f"{figure.value:+.1f} ± {figure.stderr:.1f}"


def new_picture(width: float = 8, height: float = 5, columns: int = 1) -> tuple[Picture, list[Axes]]:
    """A figure and its axes, with a light grid."""
    picture, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained", squeeze=False)
    for ax in axes[0]:
        ax.grid(alpha=0.25)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    return picture, list(axes[0])


def save(picture: Picture, path: Path) -> None:
    """Write a PNG and forget the figure."""
    picture.savefig(path, dpi=150)
    plt.close(picture)


def margins_table(
    figures: Mapping[str, Figure], players: Mapping[str, str], gains: Mapping[str, str], caption: str
) -> str:
    """Margins of players and differences between them as markdown.

    Args:
      players: by name in the table, what follows ``wpg_`` and ``won_`` in the name of a figure.
      gains: by name in the table, the name of a figure.
    """
    rows = [
        [name, with_error(figures[f"wpg_{key}"]), f"{figures[f'won_{key}'].value:.1%}"]
        for name, key in players.items()
    ]
    rows += [[name, with_error(figures[key]), ""] for name, key in gains.items()]
    return markdown(["player", "points per deal", "pairs won"], rows, caption)


def draw_margins(
    figures: Mapping[str, Figure], players: Mapping[str, str], gains: Mapping[str, str], path: Path
) -> None:
    """The same as a picture: margins on the left, paired differences on the right."""
    picture, (left, right) = new_picture(10, 0.5 + 0.5 * max(len(players), len(gains)), columns=2)
    values = [figures[f"wpg_{key}"] for key in players.values()]
    errors = [1.96 * (f.stderr or 0) for f in values]
    left.barh(list(players), [f.value for f in values], xerr=errors, color="#8fb3d9")
    left.invert_yaxis()
    left.set_xlabel("points per deal against Greed (95 %)")
    found = [figures[key] for key in gains.values()]
    right.errorbar(
        [f.value for f in found],
        list(gains),
        xerr=[1.96 * (f.stderr or 0) for f in found],
        fmt="o",
        capsize=3,
        color=COLORS["blue"],
    )
    right.axvline(0, color="#444444", linewidth=1)
    right.invert_yaxis()
    right.set_xlabel("paired difference, points per deal (95 %)")
    save(picture, path)
