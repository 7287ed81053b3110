"""Model cards: what every model that comes with the package is, from its file and from results/."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gongzhu_jax import models, networks, results

RESULTS = Path(__file__).resolve().parent.parent / "results"

READS = {
    "open": f"all four hands ({networks.INPUTS['open']} numbers)",
    "view": f"what one seat sees ({networks.INPUTS['view']} numbers)",
}


@dataclasses.dataclass(frozen=True)
class About:
    """What a file does not tell.

    Attributes:
      what: the model in a paragraph.
      how: it was trained.
      measured: names of results and of their figures that tell how strong it is, with words for each.
    """

    what: str
    how: str
    measured: tuple[tuple[str, str, str], ...] = ()


_HIDDEN = (
    "Actor-critic self-play with hidden hands (`python -m train.actor`): all four seats draw their cards from the "
    "actor, a critic that sees all hands says what every card was worth."
)

ABOUT: dict[str, About] = {
    models.SCROFA: About(
        "The network of the players `scrofa` and `raw`: ScrofaZero's, smaller. It reads open hands, so that at play "
        "it needs sampled hands.",
        "ScrofaZero's self-play (`python -m train.selfplay`): every card is searched with open hands, the network "
        "learns what the search found.",
        (
            ("selfplay", "raw_wpg_small", "one-step search in sampled worlds (`raw`)"),
            ("techniques", "wpg_ss_iec", "tree search in stratified worlds, IEC (`scrofa`)"),
            ("techniques_standard_deals_1024", "wpg_ss_iec", "the same, 1,024 standard deals"),
        ),
    ),
    models.ACTOR: About(
        "The network of the players `actor` and `deep`: it reads what a seat sees and gives the cards' "
        "probabilities, a value, and who may hold the hidden cards.",
        _HIDDEN,
        (
            ("actor", "wpg_actor_shipped", "one forward pass (`actor`)"),
            ("deep", "wpg_deep_fresh", "playouts in likely worlds (`deep`)"),
            ("deep", "wpg_deep_standard", "the same, 1,024 standard deals"),
        ),
    ),
    f"{models.ACTOR}-critic": About(
        "The critic beside `actor-v1`: it reads open hands and says what every card is worth in points. For "
        "training that goes on (`--start-critic`) and for playouts that end early (`deep:critic=…`).",
        _HIDDEN,
    ),
}
"""By the name of the model."""


def card(name: str) -> str:
    """The card of a model, as Markdown.

    Raises:
      ValueError: nothing is said about it here, or it cannot be read.
    """
    if name not in ABOUT:
        raise ValueError(f"model {name} has no entry in ABOUT of benchmarks/model_cards.py: say what it is")
    model, about = models.load(name), ABOUT[name]
    legs = list(_legs(model.info))
    games = sum(leg["games"] for leg in legs)
    seconds = sum(leg["seconds"] for leg in legs)
    lines = [
        f"# {name}",
        about.what,
        "| | |\n| --- | --- |\n" + "\n".join(f"| {key} | {value} |" for key, value in _facts(name, model)),
        "## Data and training",
        f"{about.how} {games:,} deals of self-play from random parameters, {seconds / 60:.0f} minutes. No games of "
        "people and none of other players to learn from. The checkpoint was chosen by matches against Greed, on other "
        "deals and other luck than those below.",
        "| leg | batches | games a batch | samples a step | learning rate | minutes | machine | commit |\n"
        "|---|---|---|---|---|---|---|---|\n"
        + "\n".join(_row(i, leg) for i, leg in enumerate(legs, start=1)),
        "Every field of each leg's config is in the file: `gongzhu_jax.models.load(NAME).info`.",
        _evaluation(about),
        "## Limits",
        "It knows the rules of the ScrofaZero paper only, without shown cards and with fixed teams, and has met "
        "nobody but itself: how well it plays with or against people has not been measured.",
        "## Licence",
        "MIT, as the rest of this project.",
    ]
    return "\n\n".join(lines) + "\n"


def _facts(name: str, model: models.Model) -> Iterator[tuple[str, str]]:
    network = model.network
    yield "network", f"{type(network).__name__}, {networks.count(model.params):,} parameters"
    yield "reads", READS[networks.reads(network)]
    half = model.info.get("half")
    size = f"{models.shipped()[name].stat().st_size / 1e6:.1f} MB, half precision"
    if half:
        size += (
            f"; of {half['positions']:,} positions of random games {half['same_card']:.2%} keep their best card, "
            f"values move by {half['value_error']:.2f} points"
        )
    yield "file", size


def _legs(info: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Runs that led to a model, the first one first."""
    if before := info.get("start"):
        yield from _legs(before)
    yield info


def _row(number: int, leg: dict[str, Any]) -> str:
    config = leg["config"]
    return (
        f"| {number} | {leg['batches']:,} | {config['games']} | {config['minibatch']:,} | {config['learning_rate']} "
        f"| {leg['seconds'] / 60:.0f} | {leg['device']} | `{leg['commit']}` |"
    )


def _evaluation(about: About) -> str:
    """What was measured of it so far."""
    there = results.topics(RESULTS)
    rows = []
    for topic, key, what in about.measured:
        if topic not in there:
            continue
        found = results.read(topic, RESULTS)
        figure = found["figures"][key]
        rows.append(f"| {what} | {figure.value:+.1f} ± {figure.stderr:.1f} | {figure.n:,} | `{topic}.json` |")
    if not rows:
        return "## Evaluation\n\nIt does not play by itself; see the players that use it."
    return (
        "## Evaluation\n\nPoints per deal against Greed, each deal at two tables, ± one standard error.\n\n"
        "| player | points per deal | deals | measured in results/ |\n|---|---|---|---|\n" + "\n".join(rows)
    )


def write() -> None:
    """All cards, beside their models."""
    for name, path in models.shipped().items():
        path.with_suffix(".md").write_text(card(name), encoding="utf-8")
