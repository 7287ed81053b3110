"""The techniques table: sampling and belief on and off, against Greed on the same deals (paper, table 3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import jax
from rich.console import Console

from eval import cli
from eval.analysis import common, cost
from eval.analysis.common import Analysis
from eval.pairings import Pairings
from gongzhu_jax import models, networks
from gongzhu_jax.models import Model
from gongzhu_jax.players.scrofa import Settings, from_model
from gongzhu_jax.results import Figure

TECHNIQUES = {
    "US": "sampling=uniform,belief=none",
    "SS": "sampling=strata,belief=none",
    "US+IEC": "sampling=uniform,belief=iec",
    "SS+IEC": "sampling=strata,belief=iec",
    "SS+NB": "sampling=strata,belief=naive-bayes",
}
KEYS = {
    "US": "us",
    "SS": "ss",
    "US+IEC": "us_iec",
    "SS+IEC": "ss_iec",
    "SS+NB": "naive_bayes",
    "raw": "raw",
    "raw, averaged input": "raw_average",
}
"""Players as tables call them, and as the names of figures do."""
GAINS = {
    "SS − US": "gain_ss_paired",
    "SS+IEC − SS": "gain_iec_paired",
    "US+IEC − US": "gain_iec_uniform_paired",
    "SS+IEC − SS+NB": "gain_iec_over_naive_bayes",
    "SS+IEC − raw": "gain_search_over_raw",
    "raw, averaged input − raw": "gain_averaged_input",
}
"""Paired differences as tables call them, and as the names of figures do."""


@dataclasses.dataclass(frozen=True)
class Techniques(Analysis):
    """Sampling and belief on and off, the network without search, and what a decision costs.

    US: uniform worlds; SS: stratified; IEC: weights by integrals over card equivalence; NB: naive Bayes. All play Greed
    on the same deals with the same luck, so that differences are paired. Finished pairings are kept.

    Examples::

        python -m eval.analysis techniques runs/small/best.model --deals 4096 --seed 5 --out runs/techniques
        python -m eval.analysis techniques runs/small/best.model --deal-file deals.tsv --no-time
    """

    out: Path = Path("runs/techniques")
    """Folder for results, made if it is not there."""
    worlds: int = 9
    """Worlds for each decision."""
    time: bool = True
    """Measure what decisions cost, for this network and for one of the paper's size."""


def run(args: Techniques, console: Console) -> int:
    """Play what is missing, then report; returns the exit status."""
    deals = args.read_deals()
    cli.check_range("--worlds", args.worlds, 1)
    specs = {
        name: f"scrofa:model={args.model},worlds={args.worlds},{rest}" for name, rest in TECHNIQUES.items()
    }
    made = {name: cli.make_player(spec) for name, spec in specs.items()}
    made["raw"] = cli.make_player(f"raw:model={args.model},worlds={args.worlds}")
    made["raw, averaged input"] = cli.make_player(f"raw:model={args.model},mode=average")
    greed = cli.make_player("greed")
    pairings = Pairings(args.out, deals, args.seed, args.deal_file)
    margins = {name: pairings.margins(player, greed, args.batch, console) for name, player in made.items()}
    direct = pairings.margins(made["SS+IEC"], made["US"], args.batch, console)

    figures = {f"wpg_{KEYS[name]}": common.mean(values) for name, values in margins.items()}
    figures |= {
        f"won_{KEYS[name]}": Figure(float((m > 0).mean()), "share", len(m)) for name, m in margins.items()
    }
    figures |= {
        "gain_ss_paired": common.mean(margins["SS"] - margins["US"]),
        "gain_iec_paired": common.mean(margins["SS+IEC"] - margins["SS"]),
        "gain_iec_uniform_paired": common.mean(margins["US+IEC"] - margins["US"]),
        "gain_naive_bayes_paired": common.mean(margins["SS+NB"] - margins["SS"]),
        "gain_iec_over_naive_bayes": common.mean(margins["SS+IEC"] - margins["SS+NB"]),
        "gain_search_over_raw": common.mean(margins["SS+IEC"] - margins["raw"]),
        "gain_averaged_input": common.mean(margins["raw, averaged input"] - margins["raw"]),
        "ss_iec_v_us": common.mean(direct),
    }
    if args.time:
        figures |= times(models.load(args.model), Settings(worlds=args.worlds))
    name = f"techniques_{args.deal_file.stem}" if args.deal_file else "techniques"
    common.report(name, figures, table, draw, args.out, console)
    return 0


def table(figures: Mapping[str, Figure]) -> str:
    """The table as markdown."""
    caption = (
        f"Points per deal against Greed on {figures['wpg_us'].n:,} deals at two tables, ± standard error; "
        "differences are paired, and the last row is a match of its own."
    )
    return common.margins_table(figures, KEYS, GAINS | {"SS+IEC v US": "ss_iec_v_us"}, caption)


def draw(figures: Mapping[str, Figure], path: Path) -> None:
    """The table as a picture: margins on the left, paired differences on the right."""
    common.draw_margins(figures, KEYS, GAINS, path)


def times(model: Model, settings: Settings) -> dict[str, Figure]:
    """Milliseconds a decision, in a batch and alone, for the model and for an untrained network of the paper's size."""
    large = networks.make("fc24", mixed=True)
    fc24 = Model(large, networks.init(large, jax.random.key(0)), {})
    found: dict[str, Figure] = {}
    for name, some in (("fc24", fc24), ("model", model)):
        player = from_model(some, name, settings)
        found[f"decision_ms_{name}"] = cost.milliseconds(player, 64)
        found[f"latency_ms_{name}"] = cost.milliseconds(player, 1)
    if model.network == networks.make("fc-small", model.network.mixed):
        found["decision_ms_fc_small"] = found["decision_ms_model"]
    return found
