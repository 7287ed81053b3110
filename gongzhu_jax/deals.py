"""Deals without play: files with one deal a line, and the bridge world's PBN notation for four hands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from gongzhu_jax import cards, game, textfiles

SEATS = "NESW"
"""PBN's letters of seats 0..3, in playing order."""

_TAG = re.compile(r'\s*\[\s*(\w+)\s+"(.*)"\s*\]')


class Deal(NamedTuple):
    """Four hands before play.

    label: what a file calls the deal; its line number where it has no name.
    hands: ``bool[4, 52]``, seat by card.
    leader: the seat that leads the first trick, or None where the file leaves it open.
    """

    label: str
    hands: np.ndarray
    leader: int | None = None


def read_deals(source: textfiles.Source) -> Iterator[Deal]:
    """The deals of a file, one at a time. Each line is one of

    * ``number<TAB>hand<TAB>hand<TAB>hand<TAB>hand``, the hands of seats 0..3 as ``S2 S10 …``; a sixth
      field may name the leader 0..3;
    * ``N:AKQ.5432.AK.Q987 …``, as :func:`parse_pbn` reads it;
    * a tag of a PBN file: ``[Deal "N:…"]`` is a deal and ``[Board "7"]`` before it its label. From the
      first tag on all other lines are passed over, since PBN files tell much else.

    Args:
      source: a path (``.gz``: compressed) or an open file.

    Raises:
      ValueError: a line is none of these, or its hands are no deal; the text starts with ``FILE:LINE:``.
      OSError: the file cannot be read.
    """
    return textfiles.read(source, line_parser())


def line_parser() -> Callable[[str, int], Deal | None]:
    """What reads the lines of one file in their order, for :func:`gongzhu_jax.textfiles.entries`."""
    in_pbn_file, board = False, ""

    def parse(line: str, number: int) -> Deal | None:
        nonlocal in_pbn_file, board
        line = line.rstrip()
        tag = _TAG.fullmatch(line)
        if not (tag or in_pbn_file):
            if "\t" in line:
                return _parse_fields(line, number)
            if not line.startswith("%"):  # the first line of PBN files says so in a comment
                return Deal(str(number), parse_pbn(line))
        in_pbn_file = True
        if tag and tag[1] == "Board":
            board = tag[2].strip()
        elif tag and tag[1] == "Deal":
            label, board = board or str(number), ""
            return Deal(label, parse_pbn(tag[2]))
        return None

    return parse


def _parse_fields(line: str, number: int) -> Deal:
    label, *fields = (field.strip() for field in line.split("\t"))
    if len(fields) not in (4, 5):
        raise ValueError(
            f"{len(fields) + 1} fields: write number, four hands and maybe the leader, tabs between"
        )
    hands = np.stack([_parse_hand(f"seat {seat}", words) for seat, words in enumerate(fields[:4])])
    leader = None
    if fields[4:]:
        if fields[4] not in ("0", "1", "2", "3"):
            raise ValueError(f"leader {fields[4]!r} is not a seat: seats are 0..3")
        leader = int(fields[4])
    game.from_hands(hands, leader or 0)
    return Deal(label or str(number), hands, leader)


def _parse_hand(where: str, words: str | list[str]) -> np.ndarray:
    try:
        return cards.to_set(words)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def parse_pbn(text: str) -> np.ndarray:
    """The hands of a PBN deal: ``N:AKQ.5432.AK.Q987 …``.

    Args:
      text: the seat of the first hand (N E S W are seats 0 1 2 3) and four hands clockwise from it, each with
        its ranks of S.H.D.C; ``T`` or ``10`` is the ten, nothing or ``-`` a void; either case.

    Returns:
      ``bool[4, 52]``, seat by card.

    Raises:
      ValueError: the text is something else, or the hands are no deal.
    """
    deal = re.fullmatch(r"\s*([NESW])\s*:(.*)", text, re.IGNORECASE | re.DOTALL)
    hands = deal[2].split() if deal else []
    if deal is None or len(hands) != 4:
        raise ValueError(
            "not a deal: write number<TAB>hand<TAB>hand<TAB>hand<TAB>hand or N:hand hand hand hand"
        )
    first = SEATS.index(deal[1].upper())
    found = np.zeros((4, 52), bool)
    for turn, hand in enumerate(hands):
        seat, suits = (first + turn) % 4, hand.split(".")
        where = f"seat {seat} ({SEATS[seat]})"
        if len(suits) != 4:
            raise ValueError(f"{where}: write the ranks of four suits S.H.D.C, not {hand!r}")
        names = [
            suit + rank
            for suit, ranks in zip(cards.SUITS, suits, strict=True)
            for rank in re.findall("10|.", "" if ranks == "-" else ranks)
        ]
        found[seat] = _parse_hand(where, names)
    game.from_hands(found, 0)
    return found


def to_pbn(hands: np.ndarray) -> str:
    """``bool[4, 52]`` as :func:`parse_pbn` reads it: from N on, highest ranks first, ``T`` the ten.

    Raises:
      ValueError: the hands are no deal.
    """
    game.from_hands(hands, 0)
    names = [card[1:].replace("10", "T") for card in cards.NAMES]
    by_suit = np.asarray(hands).reshape(4, cards.NUM_SUITS, cards.NUM_RANKS)
    ranks = [["".join(names[r] for r in np.flatnonzero(suit)[::-1]) for suit in hand] for hand in by_suit]
    return f"{SEATS[0]}:{' '.join('.'.join(hand) for hand in ranks)}"


def write_deals(path: textfiles.StrPath, deals: Iterable[Deal], overwrite: bool = False) -> None:
    """Write a deal file that :func:`read_deals` reads: PBN tags if it is named ``.pbn``, else tabs.

    The file appears under its name only when it is complete; ``.gz`` after the name compresses it.

    Raises:
      ValueError: hands that are no deal, a label that does not fit in a file, a leader in a PBN file.
      FileExistsError: the file is there and ``overwrite`` is not set.
      OSError: it cannot be written.
    """
    as_pbn = os.fspath(path).removesuffix(".gz").endswith(".pbn")
    textfiles.write(path, map(_pbn_tags if as_pbn else _fields, deals), overwrite)


def _fields(deal: Deal) -> str:
    if deal.leader not in (None, 0, 1, 2, 3):
        raise ValueError(f"leader {deal.leader} is not a seat: seats are 0..3")
    game.from_hands(deal.hands, deal.leader or 0)
    hands = [cards.names(np.flatnonzero(hand)) for hand in deal.hands]
    leader = [] if deal.leader is None else [str(int(deal.leader))]
    return "\t".join([_check_label(deal.label), *hands, *leader])


def _pbn_tags(deal: Deal) -> str:
    if deal.leader is not None:
        raise ValueError(f"deal {deal.label!r}: PBN files do not say who leads; write tabs, or leader=None")
    return f'[Board "{_check_label(deal.label)}"]\n[Deal "{to_pbn(deal.hands)}"]\n'


def _check_label(label: str) -> str:
    if not label.isprintable() or '"' in label or label != label.strip() or not label:
        raise ValueError(f"{label!r} cannot label a deal: use printable text without quotes")
    return label
