"""Writes the figures of README.md and docs/ from results/, their pictures, and model cards.

``python -m benchmarks.readme``
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

import gongzhu_jax as gz
from benchmarks import actor, model_cards, selfplay
from eval.analysis import belief, cards, ceiling, endings, parts, techniques
from gongzhu_jax import players, results
from train import logs

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- figures: written by python -m benchmarks.readme -->\n"
END = "<!-- end -->\n"


def figures() -> str:
    """The tables between the markers of README.md."""
    names = ("engine", "opponents", "selfplay", "techniques", "techniques_standard_deals_1024", "actor")
    engine, opponents, trained, fresh, standard, in_one_pass = (
        results.read(name, ROOT / "results") for name in names
    )
    fast, who, learned = engine["figures"], opponents["figures"], trained["figures"]

    def margin(key: str) -> str:
        return f"{who[key].value:.1f} ± {who[key].stderr:.1f}"

    def value(key: str, form: str) -> str:
        return format(learned[key].value, form)

    def points(key: str) -> str:
        return f"{learned[key].value:+.1f} ± {learned[key].stderr:.1f}"

    def played(key: str) -> str:
        both = (found["figures"][key] for found in (fresh, standard))
        return " | ".join(f"{f.value:+.1f} ± {f.stderr:.1f}" for f in both)

    def cost(key: str) -> str:
        return f"{fresh['figures'][key].value:.1f}"

    hour = in_one_pass["figures"]
    took = ", ".join(f"{hour[key].value:,.0f}" for key in ("minutes", "deals", "deals_per_s"))

    def of_actor(key: str) -> str:
        return f"{hour[key].value:+.1f} ± {hour[key].stderr:.1f}"

    return f"""
Points per deal on the 1,024 standard deals, ± one standard error (`{opponents["command"]}`):

| match | here | the paper | the authors' programs, re-run |
| --- | --- | --- | --- |
| If v Random | {margin("margin_if_random")} | 194 ± 4 | 178.8 ± 5.1 |
| Greed v If | {margin("margin_greed_if")} | 80 ± 6 | 79.8 ± 4.9 |
| Greed v Random | {margin("margin_greed_random")} | 275 ± 5 | 267.2 ± 4.8 |

Speed on {engine["device"]}:

| what | measured |
| --- | --- |
| random play with dealing, plies/s | {fast["plies_per_s"].value / 1e6:.1f} million |
| the same over pgx's bridge bidding, steps/s, in one run | {fast["ratio_pgx_bridge_bidding"].value:.0f} × |
| the same over plain Python, per core | {fast["ratio_oracle"].value:.0f} × |
| compiling a whole deal | {fast["compile_s"].value:.1f} s |
| Greed v If, 1,024 deals at two tables, once compiled | {who["greed_if_seconds"].value:.1f} s |
| If v Random, games/s | {who["if_random_games_per_s"].value:,.0f} |
| hidden hands sampled, worlds/s | {who["worlds_per_s"].value / 1e6:.1f} million |

`{engine["command"]}` explains what is compared with pgx and how.

Training on {trained["device"]} (`{trained["command"]}`):

| what | here | the authors |
| --- | --- | --- |
| self-play with the 11.4 M network, games/s | {value("games_per_s_fc24", ".1f")} | 0.50 on two cores, 1.5 on a 2080Ti |
| … as a share of what its network evaluations alone would allow | {value("net_bound_share_fc24", ".0%")} | |
| self-play with `fc-small` (1.0 M), games/s | {value("games_per_s_fc_small", ".0f")} | |
| `--preset small`: min, games | {value("small_minutes", ".0f")}, {value("small_games", ",.0f")} | 46 hours, 256,000 |
| … its network v Greed, no tree search, points per deal | {points("raw_wpg_small")} | 37.3 ± 8.1 (11.4 M) |
| … by one pass over averaged hands | {points("policy_wpg_small")} | |
| `python -m train.selfplay`: first row, end | {value("first_row_s", ".0f")} s, {value("quick_minutes", ".1f")} min | |
| … its network v Greed, before and after | {points("quick_margin_first")}, {points("quick_margin_last")} | |

Playing with hidden hands with that network, `scrofa-small-v1`, which comes with the package, in points per deal against
Greed; differences are paired deal by deal (`{fresh["command"]}`, and with the standard deals; more in
[docs/analysis.md](docs/analysis.md)):

| what | {fresh["figures"]["wpg_ss_iec"].n:,} fresh deals | the 1,024 standard deals |
| --- | --- | --- |
| ScrofaZero: stratified worlds, IEC, tree search | {played("wpg_ss_iec")} |
| … without IEC | {played("wpg_ss")} |
| … with uniform worlds, without IEC | {played("wpg_us")} |
| one-step search | {played("wpg_raw")} |
| IEC gains | {played("gain_iec_paired")} |
| stratified worlds gain | {played("gain_ss_paired")} |
| tree search gains, with IEC | {played("gain_search_over_raw")} |

A decision of ScrofaZero takes {cost("decision_ms_fc_small")} ms in a batch and {cost("latency_ms_model")} ms alone;
with a network of the paper's size {cost("decision_ms_fc24")} and {cost("latency_ms_fc24")} ms; the authors' program
needs 930 ms.

![Margins of the small run by games of self-play](docs/learning_curve.png)

The actor, which learns from what a seat sees and decides in one forward pass, on {in_one_pass["device"]}
(`{in_one_pass["command"]}`, {hour["wpg_actor_cpu60"].n:,} fresh deals):

| what | measured |
| --- | --- |
| `python -m train.actor --preset cpu`: min, deals, deals/s | {took} |
| … v Greed, points per deal | {of_actor("wpg_actor_cpu60")} |
| `actor-v1`, which comes with the package, v Greed | {of_actor("wpg_actor_shipped")} |
| … pairs won | {hour["won_actor_shipped"].value:.0%} |
| … decisions/s in a batch; one alone | {hour["decisions_per_s"].value:,.0f}; {hour["latency_ms"].value:.2f} ms |

![Margins of the actor's hour by games of self-play](docs/learning_curve_actor.png)

"""


ANALYSES: dict[str, tuple[ModuleType, str]] = {
    "techniques": (
        techniques,
        "Sampling, belief and search on fresh deals. US: uniform worlds; SS: stratified; IEC: weights by integrals "
        "over card equivalence; NB: naive Bayes",
    ),
    "techniques_standard_deals_1024": (techniques, "The same on the 1,024 standard deals"),
    "belief": (belief, "What beliefs know of hidden hands"),
    "cards": (cards, "What single cards are worth to the network"),
    "endings": (endings, "What endings lose"),
    "ceiling": (ceiling, "What there is to win by seeing all hands"),
    "parts": (parts, "What the parts of `deep` are worth"),
}
"""By the name of the results: the analysis, and its title."""


def measured() -> dict[str, dict[str, Any]]:
    """The results of analyses that are there, by name."""
    return {
        name: results.read(name, ROOT / "results")
        for name in results.topics(ROOT / "results")
        if name in ANALYSES
    }


def analyses() -> str:
    """The tables and pictures of docs/analysis.md, of what has been measured."""
    parts = []
    for name, found in measured().items():
        module, title = ANALYSES[name]
        command = f"`{found['command']}`, on {found['device']}"
        parts.append(f"## {title}\n\n{command}\n\n{module.table(found['figures'])}\n![{title}]({name}.png)\n")
    return "\n" + "\n".join(parts) + "\n"


PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "README.md": figures,
    ROOT / "docs" / "analysis.md": analyses,
}
"""What stands between the markers of each page."""


CURVES = {
    "learning_curve": (selfplay.CURVE, "--preset small on 2 cores: one-step search in sampled worlds"),
    "learning_curve_actor": (actor.CURVE, "train.actor --preset cpu on 2 cores: one forward pass"),
}
"""By the name of the picture: the progress of the run that was measured, and a title."""


def curves() -> None:
    """The learning curves of the measured runs, with Random and If as lines."""
    who = results.read("opponents", ROOT / "results")["figures"]
    levels = {
        "random": -who["margin_greed_random"].value,
        "if": -who["margin_greed_if"].value,
    }
    for name, (progress, title) in CURVES.items():
        logs.curve(logs.evaluations(ROOT / progress), levels, title, ROOT / "docs" / f"{name}.png")


def picture() -> str:
    """A position in the middle of a deal, as SVG."""
    state = gz.deal(jax.random.key(11))
    greed = players.make("greed")
    for ply in range(23):
        view = jax.tree.map(lambda x: x[None], gz.view(state, int(gz.game.mover(state))))
        state = gz.step(state, int(greed(jax.random.split(jax.random.key(ply), 1), view)[0]))
    return gz.render.svg(state)


def main() -> int:
    """Rewrite what is between the markers, the pictures and the model cards."""
    for page, write in PAGES.items():
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(before + BEGIN + write() + END + after, encoding="utf-8")
    for name, found in measured().items():
        ANALYSES[name][0].draw(found["figures"], ROOT / "docs" / f"{name}.png")
    (ROOT / "docs" / "position.svg").write_text(picture(), encoding="utf-8")
    curves()
    model_cards.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
