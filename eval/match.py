"""A duplicate match between two players: ``python -m eval.match greed if``."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from eval import cli
from eval.duplicate import (
    Contestant,
    Deals,
    Summary,
    Tables,
    batches,
    default_batch,
    file_deals,
    in_threads,
    play_pairs,
    random_deals,
    summarize,
)
from gongzhu_jax import records, results
from gongzhu_jax.players import Player
from gongzhu_jax.results import Figure


@dataclasses.dataclass(frozen=True)
class Match:
    """Play two players against each other: each deal at two tables, so that both teams play the same cards.

    Players: random, if, greed, greed:worlds=40, … A's margin is in points per deal; its standard error is over
    pairs of tables. Exit status: 0 done, 1 an error, 2 a wrong command, 130 interrupted (what was played is
    reported and written, marked partial).

    Examples::

        python -m eval.match greed if
        python -m eval.match greed random --deals 4096 --seed 7 --json results/greed_random.json
        python -m eval.match greed if --deal-file deals.tsv --records games.jsonl
    """

    a: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")]
    """The player whose margin is reported."""
    b: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")]
    """The other player."""
    deals: int | None = None
    """How many deals; each is played twice. Default: 1024, or all of --deal-file."""
    seed: int = 0
    """Of the deals and of the players' luck, which is the same whoever plays."""
    deal_file: Path | None = None
    """Play these deals (TSV or PBN, one a line) instead of random ones."""
    records: Path | None = None
    """Write every game here, one JSON object a line."""
    json: Path | None = None
    """Write the figures here."""
    overwrite: bool = False
    """Replace files that exist."""
    batch: int | None = None
    """Deals in one compiled call. Default: what suits the device; halved whenever its memory is too small."""


def run(match: Match, console: Console) -> int:
    """Play a match as the command line describes it; returns the exit status."""
    a, b = cli.make_player(match.a), cli.make_player(match.b)
    if match.batch is not None:
        cli.check_range("--batch", match.batch, 1)
    cli.check_range("--seed", match.seed, 0, 2**31 - 1)
    if match.deals is not None:
        cli.check_range("--deals", match.deals, 1)
    for flag, path in (("--records", match.records), ("--json", match.json)):
        cli.check_output(flag, path, match.overwrite)
    deals = (
        file_deals(match.deal_file, match.deals)
        if match.deal_file
        else random_deals(match.seed, match.deals or 1024)
    )
    writer = records.Writer(match.records) if match.records else None
    started = time.perf_counter()
    margins, interrupted = play_match(
        a, b, deals, match.seed, match.batch, console, on_batch=_recorder(writer, a, b, match.seed)
    )
    seconds = time.perf_counter() - started
    if writer:
        writer.close()
    summary = summarize(margins)
    if summary.pairs:
        console.print(table(a.name, b.name, summary, seconds, partial=interrupted))
        if match.json:
            path = results.write(
                match.json.stem, figures(summary, seconds), match.json.parent, partial=interrupted
            )
            console.print(f"figures: {path}")
    if writer:
        console.print(f"games: {match.records}")
    return 130 if interrupted else 0


def play_match(
    a: Contestant,
    b: Contestant,
    deals: Deals,
    seed: int,
    batch: int | None,
    console: Console,
    on_batch: Callable[[Deals, Tables], None] = lambda deals, tables: None,
) -> tuple[np.ndarray, bool]:
    """Play deals in batches under a progress bar.

    Returns:
      Margins ``int32[N, 2]`` of the deals played, and whether an interrupt (Ctrl-C) cut the match short.
    """
    margins = [np.zeros((0, 2), np.int32)]
    size = min(batch or default_batch(), len(deals))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[margin]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"{a.name} v {b.name}", total=len(deals), rate="compiling", margin="")
        started: float | None = None

        try:
            while (first := sum(map(len, margins))) < len(deals):
                play = functools.partial(_play_padded, a, b, seed, size)
                try:
                    for part, tables in in_threads(play, batches(deals.slice(first, len(deals)), size)):
                        on_batch(part, tables)
                        margins.append(tables.margins)
                        done = summarize(np.concatenate(margins))
                        rate = "" if started is None else f"{_rate(done.pairs - size, started):.0f} pairs/s"
                        started = started or time.perf_counter()  # the first batch compiles
                        progress.update(task, completed=done.pairs, rate=rate, margin=_with_error(done))
                except jax.errors.JaxRuntimeError as error:
                    if "RESOURCE_EXHAUSTED" not in str(error) or size == 1:
                        raise
                    size //= 2
                    console.print(f"memory is too small for this batch: going on with {size} deals at a time")
        except KeyboardInterrupt:
            return np.concatenate(margins), True
    return np.concatenate(margins), False


def _rate(pairs: int, started: float) -> float:
    return pairs / max(time.perf_counter() - started, 1e-9)


def _play_padded(a: Contestant, b: Contestant, seed: int, size: int, part: Deals) -> tuple[Deals, Tables]:
    """Play some deals as a whole batch, repeating them up to its size, so that one compilation serves all."""
    rows = np.arange(size) % len(part)
    whole = Deals(part.ids[rows], part.hands[rows], part.leaders[rows])
    tables = play_pairs(a, b, whole, seed)
    return part, jax.tree.map(lambda x: x[: len(part)], tables)


def _recorder(
    writer: records.Writer | None, a: Player, b: Player, seed: int
) -> Callable[[Deals, Tables], None]:
    def write(deals: Deals, tables: Tables) -> None:
        if writer is None:
            return
        games = []  # made before the first is written, so that an interrupt keeps whole batches only
        for i, deal in enumerate(deals.ids.tolist()):
            for t, seats in enumerate(((a.name, b.name), (b.name, a.name))):
                end = jax.tree.map(lambda x, i=i, t=t: x[i, t], tables.ends)
                extra = {"deal_number": deal, "table": t + 1}
                games.append(records.from_state(end, players=seats * 2, seed=seed, extra=extra))
        for record in games:
            writer.write(record)

    return write


def _with_error(summary: Summary) -> str:
    error = "" if math.isnan(summary.stderr) else f" ± {summary.stderr:.1f}"
    return f"{summary.margin:+.1f}{error}"


def table(a: str, b: str, summary: Summary, seconds: float, partial: bool) -> Table:
    """The final table of a match."""
    found = Table("match", f"{a} v {b}" + (" (partial: interrupted)" if partial else ""))
    low, high = summary.interval
    interval = "–" if math.isnan(low) else f"{low:+.1f} … {high:+.1f}"
    cells = {
        "margin (points per deal)": f"{summary.margin:+.2f}",
        "standard error": "–" if math.isnan(summary.stderr) else f"{summary.stderr:.2f}",
        "95 % interval": interval,
        "pairs won / drawn / lost": f"{summary.won} / {summary.drawn} / {summary.lost}",
        "pairs": f"{summary.pairs}",
        "seconds": f"{seconds:.1f}",
    }
    for name, value in cells.items():
        found.add_row(name, value)
    return found


def figures(summary: Summary, seconds: float) -> dict[str, Figure]:
    """A match as figures for a results file."""
    n = summary.pairs
    stderr = None if math.isnan(summary.stderr) else summary.stderr
    return {
        "margin": Figure(summary.margin, "points/deal", n, stderr),
        "won": Figure(summary.won, "pairs", n),
        "drawn": Figure(summary.drawn, "pairs", n),
        "lost": Figure(summary.lost, "pairs", n),
        "pairs": Figure(n, "pairs", n),
        "seconds": Figure(seconds, "s", 1),
    }


def main(args: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    return cli.run(Match, run, prog="python -m eval.match", args=args)


if __name__ == "__main__":
    sys.exit(main())
