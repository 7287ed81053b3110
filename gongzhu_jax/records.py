"""Game records: one JSON object a line, one deal a line, checked by replaying it through the engine.

    {"v":1,"rules":"paper","deal":["S2 SQ …","…","…","…"],"leader":0,
     "tricks":[[0,"S10","S6","SJ","SK"],…],"scores":[…],"players":["…",…],"seed":…}

A trick is its leader and its cards in playing order; the last one of an unfinished game may be shorter. The
fields ``scores``, ``players`` and ``seed`` may be missing; fields with other names are kept.

>>> from gongzhu_jax import records
>>> for record in records.read("games.jsonl"):  # doctest: +SKIP
...     end = records.replay(record)

From a shell: ``python -m gongzhu_jax.records check games.jsonl``.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from gongzhu_jax import cards, deals, game, rules, textfiles
from gongzhu_jax.rules import PAPER, Rules

VERSION = 1
CHUNK = 1024
"""Records that :func:`check` replays at once."""

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
            game._check_hands(self.hands, self.leader, self.rules)
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


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # JSON's true is no number


def _check_seat(what: str, value: object) -> None:
    if not _is_int(value) or value not in range(4):
        raise ValueError(f"{what} must be a seat 0..3, not {reprlib.repr(value)}")


def _check_cards(where: str, ids: tuple[int, ...]) -> None:
    if wrong := [card for card in ids if not (_is_int(card) and 0 <= card < cards.NUM_CARDS)]:
        raise ValueError(f"{where}: {reprlib.repr(wrong[0])} is not a card id: ids are 0..51")
    if len(set(ids)) < len(ids):
        twice = next(card for card in ids if ids.count(card) > 1)
        raise ValueError(f"{where}: {cards.name(twice)} stands there more than once")


# ------------------------------------------------------------------------------------------- JSON


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
    if not isinstance(trick, list) or not trick or not all(isinstance(word, str) for word in trick[1:]):
        raise ValueError(f'{where}: a trick is [leader, "card", …], not {reprlib.repr(trick)}')
    try:
        return trick[0], tuple(map(_card, trick[1:]))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


@functools.lru_cache(4 * cards.NUM_CARDS)  # room for the usual ways to write a card; others just take longer
def _card(word: str) -> int:
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


# ------------------------------------------------------------------------------------------- files


def read(source: textfiles.Source) -> Iterator[Record]:
    """The records of a file, one at a time; the file may be larger than memory, or a pipe.

    UTF-8 with LF or CRLF; blank lines are skipped; a line has at most 64 KiB.

    Args:
      source: a path (``.gz``: decompressed while reading) or an open file.

    Raises:
      ValueError: a line holds no record; the text starts with ``FILE:LINE:``.
      OSError: the file cannot be read.
    """
    return textfiles.read(source, _parse_line)


def _parse_line(line: str, number: int) -> Record:
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


# ------------------------------------------------------------------------------------------- replay


def replay(record: Record) -> game.State:
    """The State after a record's plays, each of them checked by the engine.

    Raises:
      ValueError: a card that may not be played, a trick whose leader did not win the one before, or scores
        that the tricks do not give. The text names the ply, the seat, the card and the rule.
    """
    state = game.play(game.from_hands(record.hands, record.leader, record.rules), record.plays)
    played = int(state.ply)
    # A wrong leader makes cards illegal later on, so each trick's leader is looked at before its cards.
    for number, leads in enumerate(np.asarray(state.leaders)[: len(record.tricks)].tolist()):
        leader, trick = record.tricks[number]
        if leads not in (-1, leader):
            right = f"seat {leads} won the trick before" if number else f"the record's leader is seat {leads}"
            raise ValueError(
                f"ply {4 * number}, seat {leader}: {cards.name(trick[0])} leads trick {number}, but {right}"
            )
    if bool(state.illegal):
        raise ValueError(game.why_illegal(state, int(record.plays[played])))
    scores = tuple(game.scores(state).tolist())
    if record.scores not in (None, scores):
        raise ValueError(f"ply {played}: the scores are {scores} after these tricks, not {record.scores}")
    return state


def from_state(
    state: game.State,
    players: tuple[str, ...] | None = None,
    seed: int | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Record:
    """The record of a game, finished or not: what :func:`replay` undoes.

    Args:
      state: one game outside of a trace.
      players: who played each seat.
      seed: what the deal was made from.
      extra: further fields, JSON values by name.

    Raises:
      ValueError: the State is flagged ``illegal`` or a batch; see :class:`Record` for the rest.
    """
    if state.ply.ndim:
        raise ValueError(f"from_state takes one game, not a batch of shape {state.ply.shape}")
    if bool(state.illegal):
        raise ValueError("the State is flagged illegal: there is no record of it")
    hands = np.array(cards.to_bools(state.hands))
    plays, leaders = np.asarray(state.plays).tolist(), np.asarray(state.leaders).tolist()
    tricks: list[Trick] = []
    for first in range(0, int(state.ply), 4):
        leader, trick = leaders[first // 4], tuple(card for card in plays[first : first + 4] if card >= 0)
        hands[[(leader + turn) % 4 for turn in range(len(trick))], trick] = True
        tricks.append((leader, trick))
    return Record(
        deal=tuple(tuple(np.flatnonzero(hand).tolist()) for hand in hands),
        leader=leaders[0],
        tricks=tuple(tricks),
        scores=tuple(np.asarray(game.scores(state)).tolist()),
        players=players,
        rules=state.rules,
        seed=seed,
        extra=extra or {},
    )


# ------------------------------------------------------------------------------------------- check


Entry = Record | deals.Deal


class Counts(NamedTuple):
    """What :func:`check` found in one file.

    file: its path.
    records: entries that are right; deals in deal files.
    finished: how many of them are played to the end.
    plies: cards played in them.
    bad: lines that are wrong.
    errors: the first of these explained, ``FILE:LINE: …``.
    """

    file: str
    records: int
    finished: int
    plies: int
    bad: int
    errors: tuple[str, ...]

    def __str__(self) -> str:
        found = f"{self.records} records, {self.finished} finished, {self.plies} plies"
        if _holds_deals(self.file):
            found = f"{self.records} deals"
        return f"{self.file}: {found}" + (f", {self.bad} bad lines" if self.bad else "")


def check(paths: Iterable[textfiles.StrPath] | textfiles.StrPath, max_errors: int = 20) -> list[Counts]:
    """Read files as a whole and replay their records, :data:`CHUNK` at once.

    Args:
      paths: files of records; or of deals, if named ``.tsv`` or ``.pbn``, perhaps with ``.gz``.
      max_errors: how many errors to explain in each file. All are counted.

    Raises:
      OSError: a file cannot be read.
    """
    if isinstance(paths, str | os.PathLike):  # else a string would be taken as the paths of its letters
        paths = [paths]
    return [_check_file(os.fspath(path), max_errors) for path in paths]


def _holds_deals(path: str) -> bool:
    return path.removesuffix(".gz").endswith((".tsv", ".pbn"))


def _check_file(path: str, max_errors: int) -> Counts:
    parse: Callable[[str, int], Entry | None] = deals.line_parser() if _holds_deals(path) else _parse_line
    lines: Iterator[tuple[str, Entry | ValueError]] = textfiles.entries(path, parse)
    good = finished = plies = bad = 0
    errors: list[str] = []
    while chunk := list(itertools.islice(lines, CHUNK)):
        for (where, entry), wrong in zip(chunk, _find_wrong([entry for _, entry in chunk]), strict=True):
            if wrong:
                bad += 1
                if len(errors) < max_errors:
                    errors.append(_explain(where, entry))
            else:
                good += 1
                played = int((entry.plays >= 0).sum()) if isinstance(entry, Record) else 0
                plies, finished = plies + played, finished + (played == game.NUM_PLIES)
    return Counts(path, good, finished, plies, bad, tuple(errors))


def _find_wrong(entries: Sequence[Entry | ValueError]) -> np.ndarray:
    """Which entries are errors, or records that :func:`replay` refuses: ``bool[N]``, N ≤ CHUNK."""
    wrong = np.array([isinstance(entry, ValueError) for entry in entries])
    by_rules: dict[Rules, dict[int, Record]] = {}
    for i, entry in enumerate(entries):
        if isinstance(entry, Record):
            by_rules.setdefault(entry.rules, {})[i] = entry
    for same_rules, records in by_rules.items():
        # Always CHUNK games, so that there is one compilation for each Rules; the empty ones are ignored.
        hands, leaders = np.zeros((CHUNK, 4, 52), bool), np.full((CHUNK, rules.NUM_TRICKS), -1, np.int8)
        first, plays = np.zeros(CHUNK, np.int8), np.full((CHUNK, game.NUM_PLIES), -1, np.int8)
        for row, record in enumerate(records.values()):
            hands[row], first[row], plays[row] = record.hands, record.leader, record.plays
            leaders[row, : len(record.tricks)] = [leader for leader, _ in record.tricks]
        illegal, leads, scores = jax.device_get(_replay_chunk(hands, first, plays, same_rules))
        refused = illegal | np.any((leaders >= 0) & (leaders != leads), axis=1)
        for row, (i, record) in enumerate(records.items()):
            wrong[i] = refused[row] or record.scores not in (None, tuple(scores[row].tolist()))
    return wrong


@functools.partial(jax.jit, static_argnames="rules")
def _replay_chunk(
    hands: jax.Array, leader: jax.Array, plays: jax.Array, rules: Rules
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Replay N games: ``illegal`` ``bool[N]``, the trick leaders ``int8[N, 13]``, scores ``int32[N, 4]``."""

    def one(hands: jax.Array, leader: jax.Array, plays: jax.Array) -> game.State:
        return game.play(game.from_hands(hands, leader, rules), plays)

    states = jax.vmap(one)(hands, leader, plays)
    return states.illegal, states.leaders[:, :-1], jax.vmap(game.scores)(states)


def _explain(where: str, entry: Entry | ValueError) -> str:
    if not isinstance(entry, Record):
        return str(entry)
    try:
        replay(entry)
    except ValueError as error:
        return f"{where}: {error}"
    raise AssertionError(f"{where}: refused in a batch of games and not alone; this is a bug of the library")


# ------------------------------------------------------------------------------------------- command line


def _command(command: Literal["check"], files: tuple[Path, ...], /, max_errors: int = 20) -> int:
    """Replay game records and say what is wrong with them: FILE:LINE, the ply, the card and the rule.

    Exit status: 0 all is right, 1 something is wrong or cannot be read, 2 the command is wrong.

    Example: python -m gongzhu_jax.records check games.jsonl more.jsonl.gz deals.tsv

    Args:
        command: what to do.
        files: records, one JSON object a line; or deals, if named .tsv or .pbn.
        max_errors: bad lines to explain; all are counted.
    """
    if not files or max_errors < 0:
        print("a FILE is missing" if not files else "--max-errors must be 0 or more", file=sys.stderr)
        print("see python -m gongzhu_jax.records --help", file=sys.stderr)
        return 2
    bad = shown = unreadable = 0
    for file in files:
        try:
            counts = check([file], max_errors - shown)[0]
        except OSError as error:
            print(f"{file}: {error.strerror or error}", file=sys.stderr)
            unreadable += 1
            continue
        bad, shown = bad + counts.bad, shown + len(counts.errors)
        print(*counts.errors, sep="\n", end="\n" if counts.errors else "", file=sys.stderr)
        print(counts)
    if bad > shown:
        print(f"and {bad - shown} more bad lines, see --max-errors", file=sys.stderr)
    return 1 if bad or unreadable else 0


def main(args: Sequence[str] | None = None) -> int:
    """The command line, without the program's name; returns the exit status.

    Raises:
      SystemExit: after ``--help`` (0) and for a command that cannot be parsed (2).
    """
    import tyro  # nothing else needs it

    try:
        return tyro.cli(_command, prog="python -m gongzhu_jax.records", args=args)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
