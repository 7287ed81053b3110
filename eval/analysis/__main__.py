"""``python -m eval.analysis techniques MODEL`` and its siblings."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro
from rich.console import Console

from eval import cli
from eval.analysis import belief, cards, ceiling, endings, parts, techniques

Command = (
    Annotated[techniques.Techniques, tyro.conf.subcommand("techniques")]
    | Annotated[belief.Belief, tyro.conf.subcommand("belief")]
    | Annotated[cards.Cards, tyro.conf.subcommand("cards")]
    | Annotated[endings.Endings, tyro.conf.subcommand("endings")]
    | Annotated[ceiling.Ceiling, tyro.conf.subcommand("ceiling")]
    | Annotated[parts.Parts, tyro.conf.subcommand("parts")]
)


@dataclasses.dataclass(frozen=True)
class Analyses:
    """What the parts of a player are worth, each with a JSON file, a table and a figure."""

    analysis: tyro.conf.OmitSubcommandPrefixes[Command]
    """Which one."""


def run(args: Analyses, console: Console) -> int:
    """Run one analysis; returns the exit status."""
    match args.analysis:
        case techniques.Techniques():
            return techniques.run(args.analysis, console)
        case belief.Belief():
            return belief.run(args.analysis, console)
        case cards.Cards():
            return cards.run(args.analysis, console)
        case endings.Endings():
            return endings.run(args.analysis, console)
        case ceiling.Ceiling():
            return ceiling.run(args.analysis, console)
        case parts.Parts():
            return parts.run(args.analysis, console)


def main(args: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    return cli.run(Analyses, run, prog="python -m eval.analysis", args=args)


if __name__ == "__main__":
    sys.exit(main())
