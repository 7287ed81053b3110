"""The techniques table: sampling and belief on and off, against Greed on the same deals (paper, table 3)."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

import gongzhu_jax as gz
from eval import cli
from eval.analysis import common
from eval.analysis.common import Analysis
from eval.pairings import Pairings
from gongzhu_jax import cards, game, models, networks
from gongzhu_jax.models import Model
from gongzhu_jax.players import Player
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
PLIES = range(0, 52, 3)  # all trick positions, early and late


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
    rows = [
        [name, common.with_error(figures[f"wpg_{key}"]), f"{figures[f'won_{key}'].value:.1%}"]
        for name, key in KEYS.items()
    ]
    rows += [
        [name, common.with_error(figures[key]), ""]
        for name, key in [*GAINS.items(), ("SS+IEC v US", "ss_iec_v_us")]
    ]
    caption = (
        f"Points per deal against Greed on {figures['wpg_us'].n:,} deals at two tables, ± standard error; "
        "differences are paired, and the last row is a match of its own."
    )
    return common.markdown(["player", "points per deal", "pairs won"], rows, caption)


def draw(figures: Mapping[str, Figure], path: Path) -> None:
    """The table as a picture: margins on the left, paired differences on the right."""
    picture, (left, right) = common.new_picture(10, 4, columns=2)
    names = list(KEYS)
    values = [figures[f"wpg_{KEYS[name]}"] for name in names]
    left.barh(
        names, [f.value for f in values], xerr=[1.96 * (f.stderr or 0) for f in values], color="#8fb3d9"
    )
    left.invert_yaxis()
    left.set_xlabel("points per deal against Greed (95 %)")
    found = [figures[key] for key in GAINS.values()]
    right.errorbar(
        [f.value for f in found],
        list(GAINS),
        xerr=[1.96 * (f.stderr or 0) for f in found],
        fmt="o",
        capsize=3,
        color=common.COLORS["blue"],
    )
    right.axvline(0, color="#444444", linewidth=1)
    right.invert_yaxis()
    right.set_xlabel("paired difference, points per deal (95 %)")
    common.save(picture, path)


def times(model: Model, settings: Settings) -> dict[str, Figure]:
    """Milliseconds a decision, in a batch and alone, for the model and for an untrained network of the paper's size."""
    large = networks.make("fc24", mixed=True)
    fc24 = Model(large, networks.init(large, jax.random.key(0)), {})
    found: dict[str, Figure] = {}
    for name, some in (("fc24", fc24), ("model", model)):
        player = from_model(some, name, settings)
        found[f"decision_ms_{name}"] = milliseconds(player, 64)
        found[f"latency_ms_{name}"] = milliseconds(player, 1)
    if model.network == networks.make("fc-small", model.network.mixed):
        found["decision_ms_fc_small"] = found["decision_ms_model"]
    return found


def milliseconds(player: Player, games: int, rounds: int = 3) -> Figure:
    """The mean over decisions at plies spread over the deal, of random games in lockstep; the median round."""
    choose = jax.jit(player.choose)
    positions = [views_at(games, ply) for ply in PLIES]
    keys = jax.random.split(jax.random.key(1), games)
    jax.block_until_ready(choose(keys, positions[0]))
    measured = []
    for _ in range(rounds):
        start = time.perf_counter()
        for views in positions:
            jax.block_until_ready(choose(keys, views))
        measured.append(1e3 * (time.perf_counter() - start) / (games * len(positions)))
    spread = statistics.stdev(measured) / rounds**0.5
    return Figure(statistics.median(measured), "ms", rounds, spread)


def views_at(games: int, ply: int) -> Any:
    """Movers' Views of random games before a ply, ``[games]``."""

    def one(key: jax.Array) -> gz.View:
        def body(state: gz.State, key: jax.Array) -> tuple[gz.State, None]:
            return gz.step(state, cards.random_card(key, game.legal_masks(state))), None

        state = jax.lax.scan(body, gz.deal(key), jax.random.split(key, ply))[0]
        return gz.view(state, game.mover(state))

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(ply), games))
