"""What a record is, and how it stands in a file. Whether its plays are legal is no matter here."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from gongzhu_jax import cards, game, rules, textfiles
from gongzhu_jax.rules import PAPER, Rules

VERSION = 1

Trick = tuple[int, tuple[int, ...]]
"""The leader and the cards in playing order."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One deal with what was played: the content of one line.

    Whether the plays are legal is not looked at here but in :func:`replay`.

    Attributes:
      deal: the ids of each seat's 13 cards before play; in ascending order wherever this module makes them.
      leader: the seat that leads the first trick.
      tricks: up to 13, each with its leader and the ids of its cards in playing order. All have four cards,
        but the last may have fewer.
      scores: points of each seat for what the tricks captured, or None where they are not told.
      players: who played each seat, or None.
      rules: one of :data:`gongzhu_jax.rules.VARIANTS`, or it cannot be written.
      seed: what the deal was made from, or None.
      extra: further JSON fields by name.

    Raises:
      ValueError: a field is of the wrong type or form; the text says which and what would be right.
    """

    deal: tuple[tuple[int, ...], ...]
    leader: int
    tricks: tuple[Trick, ...] = ()
    scores: tuple[int, ...] | None = None
    players: tuple[str, ...] | None = None
    rules: Rules = PAPER
    seed: int | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if len(self.deal) != 4:
            raise ValueError(f"deal must be four hands, not {len(self.deal)}")
        _check_seat("leader", self.leader)
        for seat, hand in enumerate(self.deal):
            _check_cards(f"deal: seat {seat}", hand)
        try:
            game.check_hands(self.hands, self.leader, self.rules)
        except ValueError as error:
            missing = cards.names(np.flatnonzero(~self.hands.any(axis=0)))
            raise ValueError(f"deal: {error}" + (f"; in no hand: {missing}" if missing else "")) from None
        if len(self.tricks) > rules.NUM_TRICKS:
            raise ValueError(f"{len(self.tricks)} tricks: a deal has {rules.NUM_TRICKS}")
        for number, (leader, played) in enumerate(self.tricks):
            last = number == len(self.tricks) - 1
            if not (1 if last else 4) <= len(played) <= 4:
                right = "1 to 4 in the last trick" if last else "4 in all tricks but the last"
                raise ValueError(f"trick {number}: {len(played)} cards; there must be {right}")
            _check_seat(f"trick {number}: leader", leader)
            _check_cards(f"trick {number}", played)
        if self.scores is not None and not (len(self.scores) == 4 and all(map(_is_int, self.scores))):
            raise ValueError(f"scores must be four integers or missing, not {reprlib.repr(self.scores)}")
        if self.players is not None and [type(name) for name in self.players] != [str] * 4:
            raise ValueError(f"players must be four names or missing, not {reprlib.repr(self.players)}")
        if self.seed is not None and not _is_int(self.seed):
            raise ValueError(f"seed must be an integer or missing, not {reprlib.repr(self.seed)}")
        if clash := [key for key in self.extra if key in _FIELDS]:
            raise ValueError(f"extra: {clash[0]!r} is a field of its own")

    @property
    def hands(self) -> np.ndarray:
        """The deal as ``bool[4, 52]``, seat by card."""
        hands = np.zeros((4, 52), bool)
        for seat, hand in enumerate(self.deal):
            hands[seat, list(hand)] = True
        return hands

    @property
    def plays(self) -> np.ndarray:
        """The card of each ply as ``int8[52]``, −1 where none is: what :func:`gongzhu_jax.play` takes."""
        played = [card for _, trick in self.tricks for card in trick]
        return np.array(played + [-1] * (game.NUM_PLIES - len(played)), np.int8)


_REQUIRED = ("v", "rules", "deal", "leader", "tricks")
_FIELDS = (*_REQUIRED, "scores", "players", "seed")
_CARD_IDS = frozenset(range(cards.NUM_CARDS))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # JSON's true is no number


def _check_seat(what: str, value: object) -> None:
    if not _is_int(value) or value not in range(4):
        raise ValueError(f"{what} must be a seat 0..3, not {reprlib.repr(value)}")


def _check_cards(where: str, ids: tuple[int, ...]) -> None:
    if not ({int}.issuperset(map(type, ids)) and _CARD_IDS.issuperset(ids)):
        wrong = next(card for card in ids if type(card) is not int or card not in _CARD_IDS)
        raise ValueError(f"{where}: {reprlib.repr(wrong)} is not a card id: ids are 0..51")
    if len(set(ids)) < len(ids):
        twice = next(card for card in ids if ids.count(card) > 1)
        raise ValueError(f"{where}: {cards.name(twice)} stands there more than once")


def from_json(text: str, where: str = "record") -> Record:
    """The record that one line holds.

    Args:
      where: what an error's text starts with.

    Raises:
      ValueError: the text is no JSON object, or a field of it is missing or wrong.
    """
    try:
        return _from_json(text)
    except ValueError as error:
        raise textfiles.located(where, error) from None


def _from_json(text: str) -> Record:
    fields = textfiles.parse_json(text)
    if not isinstance(fields, dict):
        raise ValueError(f"a record is a JSON object {{…}}, not {reprlib.repr(fields)}")
    for key in _REQUIRED:
        if key not in fields:
            raise ValueError(f"the field {key!r} is missing; a record has {', '.join(_REQUIRED)}")
    if not _is_int(fields["v"]) or fields["v"] != VERSION:
        raise ValueError(f"version {reprlib.repr(fields['v'])} cannot be read, only version {VERSION}")
    name = fields["rules"]
    if not isinstance(name, str) or name not in rules.VARIANTS:
        raise ValueError(f"rules {reprlib.repr(name)} are not known; known are {', '.join(rules.VARIANTS)}")
    return Record(
        deal=tuple(_hand(f"deal: seat {seat}", words) for seat, words in enumerate(_list(fields, "deal"))),
        leader=fields["leader"],
        tricks=tuple(
            _trick(f"trick {number}", trick) for number, trick in enumerate(_list(fields, "tricks"))
        ),
        scores=None if fields.get("scores") is None else tuple(_list(fields, "scores")),
        players=None if fields.get("players") is None else tuple(_list(fields, "players")),
        rules=rules.VARIANTS[name],
        seed=fields.get("seed"),
        extra={key: value for key, value in fields.items() if key not in _FIELDS},
    )


def _list(fields: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(fields[key], list):
        raise ValueError(f"{key} must be a list, not {reprlib.repr(fields[key])}")
    return fields[key]


def _hand(where: str, words: object) -> tuple[int, ...]:
    if not isinstance(words, str):
        raise ValueError(f'{where}: a hand is a string such as "S2 SQ …", not {reprlib.repr(words)}')
    try:
        return tuple(sorted(map(_card, words.split())))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _trick(where: str, trick: object) -> Trick:
    try:
        if isinstance(trick, list) and trick:
            return trick[0], tuple(map(_card, trick[1:]))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    except TypeError:
        pass  # something else where the name of a card should be
    raise ValueError(f'{where}: a trick is [leader, "card", …], not {reprlib.repr(trick)}')


@functools.lru_cache(4 * cards.NUM_CARDS)  # room for the usual ways to write a card; others just take longer
def _card(word: str) -> int:
    if not isinstance(word, str):
        raise TypeError
    ids = cards.parse(word)
    if len(ids) != 1:
        raise ValueError(f"{reprlib.repr(word)} is not one card")
    return ids[0]


def to_json(record: Record) -> str:
    """The line that :func:`from_json` reads, without its end.

    Raises:
      ValueError: the rules are none of :data:`gongzhu_jax.rules.VARIANTS`, ``extra`` is no JSON, or the line
        would be longer than readers take (64 KiB).
    """
    if rules.VARIANTS.get(record.rules.name) != record.rules:
        raise ValueError(f"rules {record.rules.name!r} are not those that rules.VARIANTS has under this name")
    fields: dict[str, Any] = {
        "v": VERSION,
        "rules": record.rules.name,
        "deal": [cards.names(hand) for hand in record.deal],
        "leader": record.leader,
        "tricks": [[leader, *map(cards.name, played)] for leader, played in record.tricks],
    }
    optional = {"scores": record.scores, "players": record.players, "seed": record.seed}
    fields |= {key: value for key, value in optional.items() if value is not None} | dict(record.extra)
    try:
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the record cannot be written as JSON: {error}") from None
    if size >= textfiles.MAX_LINE:
        raise ValueError(f"the record takes {size} bytes and readers take {textfiles.MAX_LINE - 1}")
    return text


def read(source: textfiles.Source) -> Iterator[Record]:
    """The records of a file, one at a time; the file may be larger than memory, or a pipe.

    UTF-8 with LF or CRLF; blank lines are skipped; a line has at most 64 KiB.

    Args:
      source: a path (``.gz``: decompressed while reading) or an open file.

    Raises:
      ValueError: a line holds no record; the text starts with ``FILE:LINE:``.
      OSError: the file cannot be read.
    """
    return textfiles.read(source, parse_line)


def parse_line(line: str, number: int) -> Record:
    return _from_json(line)


def write(path: textfiles.StrPath, records: Iterable[Record], overwrite: bool = False) -> None:
    """Write a file that :func:`read` reads; it appears under its name only when it is complete.

    Args:
      path: ``.gz``: compressed.

    Raises:
      ValueError: a record cannot be written, see :func:`to_json`.
      FileExistsError: the file is there and ``overwrite`` is not set.
      OSError: it cannot be written.
    """
    textfiles.write(path, map(to_json, records), overwrite)


class Writer:
    """Writes records as they come, for long matches: after an interruption all complete lines are there.

    >>> with Writer("match.jsonl") as out:  # doctest: +SKIP
    ...     out.write(record)

    Args:
      path: where; not ``.gz``, which an interruption would damage.
      append: go on in a file that is there. A last line that an interruption has cut off is removed.

    Raises:
      ValueError: the file to go on in has other content.
      FileExistsError: the file is there and ``append`` is not set.
      OSError: it cannot be written.
    """

    def __init__(self, path: textfiles.StrPath, append: bool = False) -> None:
        if os.fspath(path).endswith(".gz"):
            raise ValueError(f"{path}: a compressed file cannot be written record by record: use write")
        if append and os.path.exists(path):
            _mend(path)
        self._file = open(path, "ab" if append else "xb")  # noqa: SIM115 - closed by __exit__ or close

    def write(self, record: Record) -> None:
        """Add one line and hand it to the operating system."""
        self._file.write(to_json(record).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _mend(path: textfiles.StrPath) -> None:
    """Make a file of records end with a whole line."""
    next(read(path), None)  # refuses files of another kind before anything is changed
    with open(path, "r+b") as file:
        start = max(0, file.seek(0, os.SEEK_END) - textfiles.MAX_LINE)
        file.seek(start)
        tail = file.read()
        last = tail.rfind(b"\n") + 1
        if start and not last:
            raise ValueError(f"{path}: the last line is longer than {textfiles.MAX_LINE} bytes")
        if last == len(tail):
            return
        try:
            _from_json(tail[last:].decode("utf-8-sig"))
            file.write(b"\n")
        except ValueError:
            file.truncate(start + last)
