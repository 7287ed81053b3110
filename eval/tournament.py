"""A round robin of players on the same deals: ``python -m eval.tournament random if greed --out runs/table2``."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from scipy import stats

from eval import cli
from eval.duplicate import file_deals, random_deals, summarize
from eval.pairings import Pairings
from gongzhu_jax import results
from gongzhu_jax.results import Figure


@dataclasses.dataclass(frozen=True)
class Tournament:
    """Play all pairs of players on the same deals: payoff matrix, intransitivity, heat map.

    The folder keeps the margins of every finished pairing; the same command goes on where it was stopped, and
    players may be added. Written there: tournament.json, tournament.md, heatmap.png.

    Examples::

        python -m eval.tournament random if greed --out runs/table2
        python -m eval.tournament random if greed greed:worlds=5 --deals 256 --out runs/worlds
    """

    players: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PLAYER…")]
    """Two players or more."""
    out: Path
    """Folder for results, made if it is not there."""
    deals: int | None = None
    """How many deals; each is played twice. Default: 1024, or all of --deal-file."""
    seed: int = 0
    """Of the deals and of the players' luck, which is the same whoever plays."""
    deal_file: Path | None = None
    """Play these deals (TSV or PBN, one a line) instead of random ones."""
    batch: int | None = None
    """Deals in one compiled call. Default: what suits the device; halved whenever its memory is too small."""
    bootstrap: int = 2000
    """Resamples of the deals for the interval of the intransitivity."""


def intransitivity(payoff: np.ndarray, form: str = "sum") -> np.ndarray:
    """How far payoffs are from adding up along triples of players (ScrofaZero, equation 17).

    ε = Σ n² / Σ n·m over triples with n = |ξij + ξjk − ξik|. Form "sum": m = |ξij| + |ξjk| + |ξik|, which bounds ε
    by 1; form "product": m = |ξij ξjk ξik|^(1/3), as in the authors' notebook. 0 when transitive; the same for
    any scale and order of players.

    Args:
      payoff: antisymmetric ``float[..., P, P]``.

    Returns:
      ``float[...]``; 0 where fewer than three players or no cycle at all.
    """
    top = np.zeros(payoff.shape[:-2])
    bottom = np.zeros(payoff.shape[:-2])
    for i, j, k in itertools.combinations(range(payoff.shape[-1]), 3):
        ij, jk, ik = payoff[..., i, j], payoff[..., j, k], payoff[..., i, k]
        n = np.abs(ij + jk - ik)
        m = np.abs(ij) + np.abs(jk) + np.abs(ik) if form == "sum" else np.cbrt(np.abs(ij * jk * ik))
        top, bottom = top + n**2, bottom + n * m
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def run(args: Tournament, console: Console) -> int:
    """Play what is missing, then report; returns the exit status."""
    names = args.players
    if len(names) < 2 or len(set(names)) != len(names):
        raise cli.UsageError(
            f"a tournament needs two or more different players, not {' '.join(names) or 'none'}"
        )
    made = {name: cli.make_player(name) for name in names}
    if args.batch is not None:
        cli.check_range("--batch", args.batch, 1)
    cli.check_range("--seed", args.seed, 0, 2**31 - 1)
    cli.check_range("--bootstrap", args.bootstrap, 10)
    if args.deals is not None:
        cli.check_range("--deals", args.deals, 1)
    deals = (
        file_deals(args.deal_file, args.deals)
        if args.deal_file
        else random_deals(args.seed, args.deals or 1024)
    )
    pairings = Pairings(args.out, deals, args.seed, args.deal_file)
    margins = {
        (a, b): pairings.margins(made[a], made[b], args.batch, console)
        for a, b in itertools.combinations(names, 2)
    }
    report(args, margins, console)
    return 0


def report(args: Tournament, margins: dict[tuple[str, str], np.ndarray], console: Console) -> None:
    """Write and print everything."""
    names = args.players
    size = len(names)
    by_deal = np.zeros((len(next(iter(margins.values()))), size, size))
    for (a, b), values in margins.items():
        i, j = names.index(a), names.index(b)
        by_deal[:, i, j], by_deal[:, j, i] = values, -values
    payoff = by_deal.mean(axis=0)
    n = len(by_deal)
    error = by_deal.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.full((size, size), math.nan)

    figures: dict[str, Figure] = {}
    for (a, b), values in margins.items():
        summary = summarize(values[:, None])
        stderr = None if math.isnan(summary.stderr) else summary.stderr
        figures[f"margin_{a}_{b}"] = Figure(summary.margin, "points/deal", n, stderr)
    for form in ("sum", "product") if size > 2 else ():
        value = float(intransitivity(payoff, form))
        low, high = epsilon_interval(by_deal, form, args.bootstrap, args.seed)
        figures[f"epsilon_{form}"] = Figure(value, "ratio", n, (high - low) / (2 * 1.96))
        figures[f"epsilon_{form}_low"] = Figure(low, "ratio", args.bootstrap)
        figures[f"epsilon_{form}_high"] = Figure(high, "ratio", args.bootstrap)
    results.write("tournament", figures, folder=args.out)
    (args.out / "tournament.md").write_text(markdown(names, payoff, error, figures, n))
    draw(names, payoff, error, args.out / "heatmap.png")

    table = Table("points/deal", *names, title=f"row against column, {n} pairs of tables")
    for i, name in enumerate(names):
        table.add_row(name, *(cell(payoff[i, j], error[i, j], i == j) for j in range(size)))
    console.print(table)
    for form in ("sum", "product") if size > 2 else ():
        low, high = (figures[f"epsilon_{form}_{end}"].value for end in ("low", "high"))
        console.print(
            f"intransitivity ε ({form}): {figures[f'epsilon_{form}'].value:.4f}, 95 % {low:.4f} … {high:.4f}"
        )
    console.print(f"written: {args.out}/tournament.json, tournament.md, heatmap.png")


def epsilon_interval(by_deal: np.ndarray, form: str, resamples: int, seed: int) -> tuple[float, float]:
    """The 95 % percentile interval of ε, resampling deals (all pairings of a deal together)."""
    if len(by_deal) < 2:
        return math.nan, math.nan

    def epsilon(rows: np.ndarray, axis: int) -> np.ndarray:
        del axis  # resampled rows are along the last axis
        return intransitivity(by_deal[rows].mean(axis=-3), form)

    found = stats.bootstrap(
        (np.arange(len(by_deal)),),
        epsilon,
        n_resamples=resamples,
        batch=50,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def cell(value: float, error: float, diagonal: bool) -> str:
    """One entry of the matrix."""
    return "–" if diagonal else f"{value:+.1f} ± {error:.1f}"


def markdown(
    names: Sequence[str], payoff: np.ndarray, error: np.ndarray, figures: dict[str, Figure], n: int
) -> str:
    """The matrix and ε as a markdown table."""
    lines = [
        f"Points per deal of the row's team against the column's, ± standard error, {n} pairs of tables.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for i, name in enumerate(names):
        lines.append(
            f"| **{name}** | "
            + " | ".join(cell(payoff[i, j], error[i, j], i == j) for j in range(len(names)))
            + " |"
        )
    for form in ("sum", "product"):
        if f"epsilon_{form}" in figures:
            low, high = figures[f"epsilon_{form}_low"].value, figures[f"epsilon_{form}_high"].value
            lines += [
                "",
                f"ε ({form}) = {figures[f'epsilon_{form}'].value:.4f}, 95 % interval {low:.4f} … {high:.4f}",
            ]
    return "\n".join(lines) + "\n"


def draw(names: Sequence[str], payoff: np.ndarray, error: np.ndarray, path: Path) -> None:
    """The matrix as a heat map."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = len(names)
    figure, axes = plt.subplots(figsize=(1.8 + 1.15 * size, 1.2 + 0.95 * size), layout="constrained")
    bound = max(float(np.abs(payoff).max()), 1.0)
    shown: Any = np.ma.masked_array(payoff, np.eye(size, dtype=bool))
    image = axes.imshow(shown, cmap="RdBu", vmin=-bound, vmax=bound)
    axes.set_xticks(range(size), names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size), names)
    axes.set_xlabel("against")
    for i, j in itertools.product(range(size), range(size)):
        if i != j:
            dark = abs(payoff[i, j]) > 0.6 * bound
            axes.text(
                j, i, f"{payoff[i, j]:+.0f}\n± {error[i, j]:.0f}",
                ha="center", va="center", fontsize=9, color="white" if dark else "black",
            )  # fmt: skip
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="points per deal", shrink=0.85)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def main(args: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    return cli.run(Tournament, run, prog="python -m eval.tournament", args=args)


if __name__ == "__main__":
    sys.exit(main())
