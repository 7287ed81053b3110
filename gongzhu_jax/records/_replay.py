"""Records and the engine: replay one, make one of a State, check whole files at once."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gongzhu_jax import cards, deals, game, rules, textfiles
from gongzhu_jax.records import _format
from gongzhu_jax.records._format import Record, Trick
from gongzhu_jax.rules import Rules

CHUNK = 1024
"""Records that :func:`check` replays at once."""


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
    hands, scores = map(np.array, _hands_and_scores(state))
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
        scores=tuple(scores.tolist()),
        players=players,
        rules=state.rules,
        seed=seed,
        extra=extra or {},
    )


@jax.jit  # one call is faster than the operations one by one
def _hands_and_scores(state: game.State) -> tuple[jax.Array, jax.Array]:
    return cards.to_bools(state.hands), game.scores(state)


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
    parse: Callable[[str, int], Entry | None] = (
        deals.line_parser() if _holds_deals(path) else _format.parse_line
    )
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
