"""Records and deal files: round trips, replay, and what is said about every kind of bad input."""

import dataclasses
import functools
import gzip
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gongzhu_jax as gz
from gongzhu_jax import cards, deals, game, records, rules, textfiles
from gongzhu_jax.records import Record, _format, _replay
from gongzhu_jax.records.__main__ import main
from tests.conftest import ROOT, at
from tests.oracle import gongzhu as oracle

SPEC_EXAMPLE = {  # a deal by suits: seat 0 has all spades, …; everybody discards from the second trick on
    "v": 1,
    "rules": "paper",
    "deal": [" ".join(cards.NAMES[13 * seat : 13 * seat + 13]) for seat in range(4)],
    "leader": 0,
    "tricks": [[0, "S10", "H2", "D2", "C2"], [0, "SQ", "HA", "DJ", "C10"], [0, "S2", "H3"]],
    "scores": [0, 0, 0, 0],
    "players": ["scrofa", "greed", "scrofa", "拱猪"],
    "seed": 5,
}
SPEC_EXAMPLE["scores"] = [2 * (-100 - 50 + 100), 0, 0, 0]  # pig, HA and sheep, doubled; H2 counts nothing


def line(**changes: Any) -> str:
    """The example as one line, with other values for some fields; a value of ... removes the field."""
    return json.dumps({key: value for key, value in (SPEC_EXAMPLE | changes).items() if value is not ...})


def example(**changes: Any) -> Record:
    return records.from_json(line(**changes))


def refusal(work: Callable[[], Any]) -> str | None:
    """The text of the ValueError that ``work`` raises, or None."""
    try:
        work()
    except ValueError as error:
        return str(error)
    return None


@pytest.fixture(scope="module")
def games(random_games: tuple[gz.State, gz.State]) -> list[Record]:
    """256 finished games."""
    ends = jax.device_get(random_games[0])
    return [records.from_state(at(ends, i), seed=i) for i in range(len(ends.ply))]


# ------------------------------------------------------------------------------------ round trips


def test_the_format_is_the_one_of_the_specification() -> None:
    record = example()
    assert record.deal == tuple(tuple(range(13 * seat, 13 * seat + 13)) for seat in range(4))
    assert record.tricks[0] == (0, (8, 13, 26, 39))
    assert record.tricks[2] == (0, (0, 14))
    assert (record.leader, record.seed, record.rules) == (0, 5, rules.PAPER)
    assert record.scores == (-100, 0, 0, 0)
    assert record.players == ("scrofa", "greed", "scrofa", "拱猪")
    assert json.loads(records.to_json(record)) == SPEC_EXAMPLE
    assert "拱猪" in records.to_json(record)
    assert records.to_json(record).startswith('{"v":1,"rules":"paper","deal":["S2 S3 S4')
    np.testing.assert_array_equal(record.hands, np.eye(4, dtype=bool).repeat(13, axis=1))
    assert record.plays.dtype == np.int8
    np.testing.assert_array_equal(record.plays, [8, 13, 26, 39, 10, 25, 35, 47, 0, 14] + [-1] * 42)


def test_what_readers_accept() -> None:
    tens = [
        " ".join(name.replace("10", "T").lower() for name in hand.split()[::-1])
        for hand in SPEC_EXAMPLE["deal"]
    ]
    assert example(deal=tens, tricks=[[0, "sT", "h2", "D2", "c2"], *SPEC_EXAMPLE["tricks"][1:]]) == example()
    bare = example(scores=..., players=None, seed=..., tricks=[])
    assert (bare.scores, bare.players, bare.seed, bare.tricks) == (None, None, None, ())
    assert set(json.loads(records.to_json(bare))) == {"v", "rules", "deal", "leader", "tricks"}
    more = example(note={"table": [3, None, 1.5]}, 场="é")
    assert more.extra == {"note": {"table": [3, None, 1.5]}, "场": "é"}
    assert records.from_json(records.to_json(more)) == more != example()


@pytest.mark.parametrize("name", rules.VARIANTS)
def test_replay_is_the_inverse_of_from_state(name: str) -> None:
    @jax.jit
    def play(key: jax.Array) -> tuple[gz.State, gz.State]:
        return game.play_random(key, gz.deal(key, rules.VARIANTS[name]))

    end, before = play(jax.random.key(len(name)))
    for state in (end, *(at(before, ply) for ply in (0, 1, 3, 4, 26, 51))):
        record = records.from_state(state, players=("a", "b", "c", "d"), seed=3, extra={"x": 1})
        assert len(record.tricks) == -(-int(state.ply) // 4)
        again = records.from_json(records.to_json(record))
        assert again == record
        assert hash(again) == hash(record)
        replayed = records.replay(again)
        assert replayed.rules == rules.VARIANTS[name]
        chex.assert_trees_all_equal(replayed, state)


def test_from_state_takes_one_legal_game(random_games: tuple[gz.State, gz.State]) -> None:
    ends, before = random_games
    with pytest.raises(ValueError, match=r"one game, not a batch of shape \(256,\)"):
        records.from_state(ends)
    wrong = game.play(at(before, 0, 0), jnp.array([-5]))
    with pytest.raises(ValueError, match="flagged illegal"):
        records.from_state(wrong)
    assert records.from_state(jax.device_get(at(ends, 3))) == records.from_state(at(ends, 3))


@pytest.mark.parametrize("name", ["games.jsonl", "games.jsonl.gz"])
def test_files_round_trip(tmp_path: Path, games: list[Record], name: str) -> None:
    path = tmp_path / name
    records.write(path, iter(games))
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert list(records.read(path)) == games
    assert list(records.read(str(path))) == games
    with pytest.raises(FileExistsError, match="overwrite=True"):
        records.write(path, games[:1])
    assert len(list(records.read(path))) == len(games)
    records.write(path, itertools.islice(records.read(path), 3), overwrite=True)  # reads what it replaces
    assert list(records.read(path)) == games[:3]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_no_half_file(tmp_path: Path, error: type[BaseException]) -> None:
    def some() -> Iterator[Record]:
        yield example()
        raise error

    for name in ("new.jsonl", "new.jsonl.gz"):
        with pytest.raises(error):
            records.write(tmp_path / name, some())
        assert list(tmp_path.iterdir()) == []
    old = tmp_path / "old.jsonl"
    old.write_text("precious")
    with pytest.raises(error):
        records.write(old, some(), overwrite=True)
    assert old.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [old]


def test_a_file_made_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    def slow() -> Iterator[Record]:
        path.write_text("made by another process")
        yield example()

    with pytest.raises(FileExistsError):
        records.write(path, slow())
    assert path.read_text() == "made by another process"


def test_write_refuses_folders_and_devices(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        records.write(tmp_path, [], overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*missing'"):
        records.write(tmp_path / "missing" / "a.jsonl", [])
    if os.path.exists("/dev/null"):
        with pytest.raises(OSError, match="not a regular file"):
            records.write("/dev/null", [], overwrite=True)
        assert not os.path.isfile("/dev/null")


def test_what_cannot_be_read_is_not_written() -> None:
    strange = rules.PAPER.with_points({"H4": -11}, name="paper")
    unwritable = {
        "rules 'paper' are not those": dataclasses.replace(example(), rules=strange),
        "rules 'mine' are not those": dataclasses.replace(
            example(), rules=dataclasses.replace(strange, name="mine")
        ),
        "cannot be written as JSON: .*set": dataclasses.replace(example(), extra={"a": {1}}),
        "cannot be written as JSON: Out of range float": dataclasses.replace(
            example(), extra={"a": float("nan")}
        ),
        "cannot be written as JSON: .*surrogates": dataclasses.replace(example(), players=("\ud800",) * 4),
        "and readers take 65535": dataclasses.replace(example(), extra={"a": "x" * 66_000}),
    }
    for message, record in unwritable.items():
        with pytest.raises(ValueError, match=message):
            records.to_json(record)


def test_the_longest_line_is_read_back() -> None:
    room = (
        textfiles.MAX_LINE
        - 1
        - len(records.to_json(dataclasses.replace(example(), extra={"a": ""})).encode())
    )
    longest = dataclasses.replace(example(), extra={"a": "x" * room})
    text = records.to_json(longest) + "\n" + records.to_json(example()) + "\n"
    assert list(records.read(io.BytesIO(text.encode()))) == [longest, example()]
    with pytest.raises(ValueError, match="takes 65536 bytes"):
        records.to_json(dataclasses.replace(example(), extra={"a": "x" * (room + 1)}))


# ------------------------------------------------------------------------------------ Writer


def test_writer_keeps_complete_lines(tmp_path: Path, games: list[Record]) -> None:
    path = tmp_path / "match.jsonl"
    with records.Writer(path) as out:
        out.write(games[0])
        assert list(records.read(path)) == games[:1], "it is there before the file is closed"
        with pytest.raises(ValueError, match="surrogates"):
            out.write(dataclasses.replace(games[0], players=("\ud800",) * 4))
        out.write(games[1])
        assert list(records.read(path)) == games[:2]
    with pytest.raises(FileExistsError):
        records.Writer(path)
    assert list(records.read(path)) == games[:2]


def test_writer_goes_on_after_an_interruption(tmp_path: Path, games: list[Record]) -> None:
    path = tmp_path / "match.jsonl"
    whole = "".join(records.to_json(record) + "\n" for record in games[:120]).encode()
    assert len(whole) > textfiles.MAX_LINE > len(whole) // 2, "the end is sought without reading all"
    lengths = (0, 1, 40, 400)
    for left, kept in [(whole + whole[:n], 120) for n in lengths] + [(whole[:-1], 120), (whole[:-2], 119)]:
        path.write_bytes(left)
        with records.Writer(path, append=True) as out:
            out.write(games[200])
        assert list(records.read(path)) == [*games[:kept], games[200]]
    path.write_bytes(b"\xef\xbb\xbf" + whole.splitlines()[0])
    records.Writer(path, append=True).close()
    assert list(records.read(path)) == games[:1]
    with records.Writer(tmp_path / "new.jsonl", append=True) as out:
        out.write(games[0])
    assert list(records.read(tmp_path / "new.jsonl")) == games[:1]


def test_writer_leaves_other_files_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    for content in ("dear diary", "dear diary\nno line end", line() + "\n" + "x" * 70_000):
        notes.write_text(content)
        with pytest.raises(ValueError, match=r"notes.txt:(1: not JSON| the last line is longer)"):
            records.Writer(notes, append=True)
        assert notes.read_text() == content
    with pytest.raises(ValueError, match="compressed"):
        records.Writer(tmp_path / "a.jsonl.gz")
    assert list(tmp_path.iterdir()) == [notes]


# ------------------------------------------------------------------------------------ bad lines

DEAL = SPEC_EXAMPLE["deal"]
TRICKS = SPEC_EXAMPLE["tricks"]


def hand(seat: int, words: Any) -> dict[str, Any]:
    """The example's deal with another hand for one seat."""
    return {"deal": [*DEAL[:seat], words, *DEAL[seat + 1 :]]}


FULL = [[0, *(f"{suit}{rank}" for suit in "SHDC")] for rank in cards.RANKS]
HEARTS_DEAL = {"rules": "hearts", "scores": ..., "tricks": []}
BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"v": ...}, "the field 'v' is missing; a record has v, rules, deal, leader, tricks"),
    ({"rules": ...}, "the field 'rules' is missing"),
    ({"deal": ...}, "the field 'deal' is missing"),
    ({"leader": ...}, "the field 'leader' is missing"),
    ({"tricks": ...}, "the field 'tricks' is missing"),
    ({"v": 2}, "version 2 cannot be read, only version 1"),
    ({"v": True}, "version True cannot be read, only version 1"),
    ({"v": "1"}, "version '1' cannot be read, only version 1"),
    ({"v": 1.0}, "version 1.0 cannot be read, only version 1"),
    ({"rules": "bridge"}, "rules 'bridge' are not known; known are paper, hearts, h4, pig200, pigflip"),
    ({"rules": ["paper"]}, "rules ['paper'] are not known"),
    ({"leader": 4}, "leader must be a seat 0..3, not 4"),
    ({"leader": -1}, "leader must be a seat 0..3, not -1"),
    ({"leader": True}, "leader must be a seat 0..3, not True"),
    ({"leader": 0.0}, "leader must be a seat 0..3, not 0.0"),
    ({"leader": None}, "leader must be a seat 0..3, not None"),
    ({"leader": 10**4000}, "leader must be a seat 0..3, not 1000000"),
    ({"deal": " ".join(DEAL)}, "deal must be a list, not 'S2 S3"),
    ({"deal": DEAL[:3]}, "deal must be four hands, not 3"),
    (hand(3, DEAL[3].split()), 'deal: seat 3: a hand is a string such as "S2 SQ …", not ['),
    (hand(1, DEAL[1][3:]), "deal: seat 1 holds 12 cards: every seat must hold 13; in no hand: H2"),
    (hand(1, DEAL[1] + " S2"), "deal: a card may be held once: S2 by seats [0, 1]"),
    (hand(1, "S2" + DEAL[1][2:]), "deal: a card may be held once: S2 by seats [0, 1]; in no hand: H2"),
    ({"deal": [DEAL[0] + " H2", DEAL[1][3:], *DEAL[2:]]}, "deal: seat 0 holds 14 cards: every seat must"),
    (hand(0, "S2 S2" + DEAL[0][5:]), "deal: seat 0: S2 stands there more than once"),
    (hand(0, "S2 S1" + DEAL[0][5:]), "deal: seat 0: 'S1' is not a card: write a suit S H D C"),
    (hand(0, DEAL[0].replace(" ", ",")), "deal: seat 0: 'S2,S3"),
    (HEARTS_DEAL, "deal: leader 0: the holder of C2, seat 3, leads first"),
    ({"tricks": {}}, "tricks must be a list, not {}"),
    ({"tricks": None}, "tricks must be a list, not None"),
    ({"tricks": [TRICKS[0], []]}, 'trick 1: a trick is [leader, "card", …], not []'),
    ({"tricks": [TRICKS[0], "SQ"]}, 'trick 1: a trick is [leader, "card", …], not \'SQ\''),
    ({"tricks": [[0, "S10", 13]]}, 'trick 0: a trick is [leader, "card", …], not [0,'),
    ({"tricks": [[0, "S10", ["H2"]]]}, 'trick 0: a trick is [leader, "card", …], not [0,'),
    ({"tricks": [[0]]}, "trick 0: 0 cards; there must be 1 to 4 in the last trick"),
    ({"tricks": [[0, "S2", "H2", "D2", "C2", "S3"]]}, "trick 0: 5 cards; there must be 1 to 4 in the last"),
    ({"tricks": [[0, "S2", "H2"], TRICKS[1]]}, "trick 0: 2 cards; there must be 4 in all tricks but"),
    ({"tricks": [["S2", "H2", "D2", "C2"]]}, "trick 0: leader must be a seat 0..3, not 'S2'"),
    ({"tricks": [[7, "S2", "H2", "D2", "C2"]]}, "trick 0: leader must be a seat 0..3, not 7"),
    ({"tricks": [[False, "S2", "H2", "D2", "C2"]]}, "trick 0: leader must be a seat 0..3, not False"),
    ({"tricks": [TRICKS[0], [0, "X2"]]}, "trick 1: 'X2' is not a card"),
    ({"tricks": [[0, "S2 H2", "D2", "C2"]]}, "trick 0: 'S2 H2' is not one card"),
    ({"tricks": [[0, ""]]}, "trick 0: '' is not one card"),
    ({"tricks": [[0, "S2", "S2"]]}, "trick 0: S2 stands there more than once"),
    ({"tricks": [*FULL, [0, "S2"]]}, "14 tricks: a deal has 13"),
    ({"scores": [1, 2, 3]}, "scores must be four integers or missing, not (1, 2, 3)"),
    ({"scores": [1, 2, 3, 4.0]}, "scores must be four integers or missing"),
    ({"scores": [1, 2, 3, True]}, "scores must be four integers or missing"),
    ({"scores": "0"}, "scores must be a list, not '0'"),
    ({"players": ["a", "b", "c"]}, "players must be four names or missing"),
    ({"players": ["a", "b", "c", 4]}, "players must be four names or missing"),
    ({"players": {"a": 1}}, "players must be a list, not {'a': 1}"),
    ({"seed": 1.5}, "seed must be an integer or missing, not 1.5"),
    ({"seed": True}, "seed must be an integer or missing, not True"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_FIELDS, ids=[m[:40] for _, m in BAD_FIELDS])
def test_bad_fields_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{line()}\n\n{line(**changes)}\n")
    found = records.read(path)
    assert next(found) == example()
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}:3: {message}')}"):
        next(found)
    with pytest.raises(ValueError, match=f"^table 7: {re.escape(message)}"):
        records.from_json(line(**changes), "table 7")


CUT = "not JSON: the line is cut off; an entry is one line"
BAD_BYTES: list[tuple[bytes, str]] = [
    (b"hello", "not JSON: Expecting value at column 1"),
    (line().encode() + b"}", "not JSON: Extra data at column"),
    (line().encode()[:-1], CUT),
    (line().encode()[:200], CUT),
    (b"{", CUT),
    (b'"', CUT),
    (b"[1, 2]", "a record is a JSON object {…}, not [1, 2]"),
    (b"null", "a record is a JSON object {…}, not None"),
    (line(seed=float("nan")).encode(), "NaN is not JSON"),
    (line(x=-float("inf")).encode(), "-Infinity is not JSON"),
    (b'{"x": 1e999}', "'1e999' is too large a number"),
    (b'{"x": 1' + 5000 * b"0" + b"}", "Exceeds the limit"),
    (b'{"v": 1, "v": 1}', "the field 'v' stands there twice"),
    (b'{"x": "\\ud800"}', "not text: '\\ud800' is half of a character"),
    (b'{"x":' + 30_000 * b"[" + 30_000 * b"]" + b"}", "JSON that is nested too deeply"),
    (b"\x80abc", "not UTF-8 text: byte 0 of the line cannot be decoded"),
    (line().encode().replace(b"scrofa", b"\xc3\xff", 1), "not UTF-8 text: byte"),
    (line().encode("utf-16-le"), "not text: byte 1 of the line is NUL"),
    (b"\0", "not text: byte 0 of the line is NUL"),
    (line(x="y" * 65_536).encode(), "the line is longer than 65536 bytes"),
    (b" " * 65_536, "the line is longer than 65536 bytes"),
    (b"\xef\xbb\xbf" + line().encode(), "not JSON: Expecting value at column 1"),  # a mark in the middle
]


@pytest.mark.parametrize(("content", "message"), BAD_BYTES, ids=[f"{m[:30]}-{len(c)}" for c, m in BAD_BYTES])
def test_bad_lines_are_named_and_the_next_ones_read(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(line().encode() + b"\r\n" + content + b"\n" + line().encode())
    found = records.read(path)
    next(found)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}:2: {message}')}") as caught:
        next(found)
    assert len(str(caught.value)) < 800
    [counts] = records.check([path])
    assert (counts.records, counts.plies, counts.bad, counts.errors) == (2, 20, 1, (str(caught.value),))


def test_marks_line_ends_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\r\n" + line().encode() + b"\r\n \t\n\n" + line(seed=6).encode())
    assert [record.seed for record in records.read(path)] == [5, 6]
    with open(path, encoding="utf-8") as text, open(path, "rb") as binary:
        assert list(records.read(text)) == list(records.read(binary)) == list(records.read(path))
    path.write_bytes(b"\xef\xbb\xbf" + line().encode())
    assert list(records.read(path)) == [example()]
    for nothing in (b"", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n  "):
        path.write_bytes(nothing)
        assert list(records.read(path)) == []


def test_files_opened_as_text_are_named_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line().encode() + b"\n" + b"\xff\n")
    with (
        open(path, encoding="utf-8") as file,
        pytest.raises(ValueError, match=rf"^{re.escape(str(path))}:\d: not UTF-8 text: byte \d+ cannot"),
    ):
        list(records.read(file))
    with pytest.raises(ValueError, match=r"^<file>:2: not JSON"):
        list(records.read(io.StringIO(line() + "\nx")))
    with pytest.raises(ValueError, match=r"^<file>:1: not UTF-8 text"):
        list(records.read(io.StringIO("\ud800")))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.jsonl"):
        next(records.read(tmp_path / "nothing.jsonl"))
    with pytest.raises(IsADirectoryError, match=re.escape(str(tmp_path))):
        next(records.read(tmp_path))


def test_damaged_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    lines = "".join(f"{line(seed=seed)}\n" for seed in range(200)).encode()
    whole = gzip.compress(lines)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    for content in (
        b"plain text",
        whole[: len(whole) // 2],
        whole[:-4],
        bytes(flipped),
        whole + b"more",
        b"\x1f\x8b",
    ):
        path.write_bytes(content)
        found = list(textfiles.entries(path, _format.parse_line))
        wrong = next(i for i, (_, entry) in enumerate(found) if isinstance(entry, ValueError))
        assert [record.seed for _, record in found[:wrong]] == list(range(wrong))
        error = str(found[wrong][1])
        # A changed byte may also give other text, which is a bad line before the checksum is reached.
        assert "gzip file is damaged" in error or content == bytes(flipped)
        assert error.startswith(f"{path}:{wrong + 1}: ")
        assert refusal(lambda: list(records.read(path))) == error


# ------------------------------------------------------------------------------------ laziness, memory


class Endless:
    """A pipe without end: ``readline`` gives the same bytes again and again, and counts how often."""

    name = "pipe"

    def __init__(self, content: bytes, limit: int = sys.maxsize) -> None:
        self.content, self.limit, self.served = content, limit, 0

    def readline(self, size: int) -> bytes:
        assert 0 <= size <= 2 * textfiles.MAX_LINE, "a line must be asked for in bounded pieces"
        self.served += 1
        return self.content[:size] if self.served <= self.limit else b""


def test_reading_is_lazy() -> None:
    pipe = Endless(line().encode() + b"\n")
    found = records.read(pipe)
    assert pipe.served == 0
    for number in range(1, 4):
        assert next(found) == example()
        assert pipe.served == number
    one_deal = Endless(f"7\t{chr(9).join(DEAL)}\n".encode())
    next(deals.read_deals(one_deal))
    assert one_deal.served == 1


def peak_bytes(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_flat_while_reading() -> None:
    content = line(x="y" * 30_000).encode() + b"\n"
    pipe = Endless(content, limit=1_000)
    assert peak_bytes(lambda: [None for _ in records.read(pipe)][:0]) < 1 << 20  # of 30 MB
    assert pipe.served == 1_001


def test_a_line_that_is_too_long_is_not_kept() -> None:
    endless_line = Endless(b"y" * 2 * textfiles.MAX_LINE, limit=1_000)
    with pytest.raises(ValueError, match=r"^pipe:1: the line is longer than 65536 bytes"):
        next(records.read(endless_line))
    endless_line = Endless(b"y" * 2 * textfiles.MAX_LINE, limit=1_000)
    assert peak_bytes(lambda: list(textfiles.entries(endless_line, _format.parse_line))) < 1 << 20  # of 65 MB
    assert endless_line.served > 1_000


def test_memory_is_flat_while_checking(
    tmp_path: Path, games: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_replay, "CHUNK", 64)
    path, few, many = (tmp_path / f"{name}.jsonl" for name in "abc")
    records.write(path, games[:128])
    for more, times in ((few, 6), (many, 24)):  # a few chunks fill up what Python keeps for later
        more.write_bytes(path.read_bytes() * times)
    records.check([path])  # compiles
    peaks = [peak_bytes(functools.partial(records.check, [p])) for p in (few, many)]
    assert peaks[1] < 1.5 * peaks[0]


# ------------------------------------------------------------------------------------ replay

SCORES = "ply 10: the scores are (-100, 0, 0, 0) after these tricks, not"
BAD_PLAYS: list[tuple[dict[str, Any], str]] = [
    ({"tricks": [[0, "H2"]]}, "ply 0, seat 0: H2 is not in this hand but in seat 1's; legal: S2 S3"),
    ({"tricks": [TRICKS[0], [0, "S10"]]}, "ply 4, seat 0: S10 was already played at ply 0; legal: S2 S3"),
    ({"tricks": [TRICKS[0], [0, "SQ", "C3"]]}, "ply 5, seat 1: C3 is not in this hand but in seat 3's"),
    ({"tricks": [[1, "H2"]]}, "ply 0, seat 1: H2 leads trick 0, but the record's leader is seat 0"),
    ({"tricks": [TRICKS[0], [1, "H3"]]}, "ply 4, seat 1: H3 leads trick 1, but seat 0 won the trick before"),
    ({"tricks": [*TRICKS[:2], [2, "D3"]]}, "ply 8, seat 2: D3 leads trick 2, but seat 0 won the"),
    ({"scores": [-100, 0, 0, 1]}, f"{SCORES} (-100, 0, 0, 1)"),
    ({"scores": [2**70, 0, 0, 0]}, f"{SCORES} (1180591620717411303424,"),
    ({"rules": "pig200"}, "ply 10: the scores are (-300, 0, 0, 0) after these tricks, not (-100, 0, 0, 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD_PLAYS, ids=[m[:40] for _, m in BAD_PLAYS])
def test_what_the_engine_refuses_is_explained(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    record = example(**changes)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        records.replay(record)
    path = tmp_path / "bad.jsonl"
    records.write(path, [example(), record])
    [counts] = records.check([path])
    assert (counts.records, counts.finished, counts.plies, counts.bad) == (1, 0, 10, 1)
    assert counts.errors[0].startswith(f"{path}:2: {message}")


def test_a_revoke_is_explained(games: list[Record]) -> None:
    """A seat that could follow plays another suit instead."""
    for record in games[:20]:
        leader, (led, *_) = record.tricks[0]
        seat = (leader + 1) % 4
        others = [card for card in record.deal[seat] if card // 13 != led // 13]
        if len(others) == 13:
            continue
        revoke = dataclasses.replace(record, tricks=((leader, (led, others[0])),), scores=None)
        name, suit = cards.name(others[0]), cards.SUITS[led // 13]
        with pytest.raises(
            ValueError, match=f"^ply 1, seat {seat}: {name} does not follow suit {suit}; legal: {suit}"
        ):
            records.replay(revoke)
        break
    else:
        pytest.fail("no hand could follow")


def test_the_first_card_of_hearts_is_forced() -> None:
    hearts = example(rules="hearts", leader=3, tricks=[[3, "C3"]], scores=...)
    with pytest.raises(ValueError, match="ply 0, seat 3: C3 may not lead the first trick; legal: C2"):
        records.replay(hearts)
    assert int(records.replay(example(rules="hearts", leader=3, tricks=[[3, "C2"]], scores=...)).ply) == 1


def test_records_made_in_python_are_checked_too() -> None:
    record = example()
    for change, message in (
        ({"leader": np.int8(0)}, "leader must be a seat"),
        ({"deal": (*record.deal[:3], (*range(39, 51), 52))}, "deal: seat 3: 52 is not a card id"),
        ({"tricks": ((0, (-1,)),)}, "trick 0: -1 is not a card id"),
        ({"tricks": ((0, (0.0,)),)}, "trick 0: 0.0 is not a card id"),
        ({"extra": {"deal": 1}}, "extra: 'deal' is a field of its own"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(record, **change)


# ------------------------------------------------------------------------------------ check


def broken(record: Record, kind: int) -> Record:
    """A record of the right form which the engine must refuse."""
    if kind == 0:
        return dataclasses.replace(record, scores=(record.scores[0] + 10, *record.scores[1:]))
    number = 5
    leader, trick = record.tricks[number]
    wrong = ((leader + 1) % 4, trick) if kind == 1 else (leader, (record.tricks[0][1][0], *trick[1:]))
    tricks = (*record.tricks[:number], wrong, *record.tricks[number + 1 :])
    return dataclasses.replace(record, tricks=tricks, scores=None)


def test_check_finds_every_bad_record_across_chunks(tmp_path: Path, games: list[Record]) -> None:
    lines = [dataclasses.replace(games[i % 256], rules=rules.PAPER) for i in range(_replay.CHUNK + 76)]
    h4 = dataclasses.replace(games[0], rules=rules.VARIANTS["h4"], scores=None)
    lines[10] = h4
    bad = {3: 0, _replay.CHUNK - 1: 1, _replay.CHUNK: 2, len(lines) - 1: 0}
    for i, kind in bad.items():
        lines[i] = broken(lines[i], kind)
    lines[20] = dataclasses.replace(lines[20], tricks=lines[20].tricks[:6], scores=None)
    path = tmp_path / "a.jsonl"
    records.write(path, lines)
    compiled = _replay._replay_chunk._cache_size()
    short = tmp_path / "b.jsonl"
    records.write(short, lines[:3])
    counts, of_short = records.check([path, short])
    assert _replay._replay_chunk._cache_size() - compiled <= 2, "one compilation for each of two rules"
    assert counts.records == len(lines) - 4
    assert counts.finished == len(lines) - 5
    assert counts.plies == 52 * (len(lines) - 5) + 24
    assert counts.bad == len(bad) == len(counts.errors)
    assert [int(error.removeprefix(f"{path}:").split(":")[0]) - 1 for error in counts.errors] == list(bad)
    assert "the scores are" in counts.errors[0]
    assert "leads trick 5, but seat" in counts.errors[1]
    assert "ply 20, seat" in counts.errors[2]
    assert "was already played at ply 0" in counts.errors[2]
    assert of_short == (str(short), 3, 3, 156, 0, ())
    [few] = records.check(path, max_errors=2)
    assert (few.bad, few.errors) == (4, counts.errors[:2])


def test_check_reads_deal_files(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    deals.write_deals(path, [deals.Deal("1", example().hands)] * 3)
    assert records.check([path]) == [(str(path), 3, 0, 0, 0, ())]
    bad = tmp_path / "a.pbn"
    bad.write_text('[Deal "N:x"]\n')
    [counts] = records.check([bad])
    assert (counts.records, counts.bad) == (0, 1)
    assert counts.errors[0].startswith(f"{bad}:1: not a deal")


def run_cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gongzhu_jax.records", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)


def test_the_command_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records.write(path, [example()])
    found = run_cli("check", path)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == f"{path}: 1 records, 0 finished, 10 plies\n"


def test_the_command_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other, deal_file = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "c.tsv"
    path.write_text(f"{line()}\n{line(scores=[0, 0, 0, 0])}\n{line()}\nrubbish\n")
    other.write_text("rubbish\n" * 5)
    deals.write_deals(deal_file, [deals.Deal("1", example().hands)])
    assert main(["check", str(path), str(tmp_path / "no.jsonl"), str(tmp_path), str(other)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{path}: 2 records, 0 finished, 20 plies, 2 bad lines",
        f"{other}: 0 records, 0 finished, 0 plies, 5 bad lines",
    ]
    assert err.splitlines()[:2] == [
        f"{path}:2: ply 10: the scores are (-100, 0, 0, 0) after these tricks, not (0, 0, 0, 0)",
        f"{path}:4: not JSON: Expecting value at column 1",
    ]
    assert err.splitlines()[2:4] == [
        f"{tmp_path}/no.jsonl: No such file or directory",
        f"{tmp_path}: Is a directory",
    ]
    assert len(err.splitlines()) == 4 + 5
    assert main(["check", str(deal_file), str(tmp_path / "no.jsonl")]) == 1
    assert main(["check", str(deal_file)]) == 0
    capsys.readouterr()
    assert main(["check", str(path), str(other), str(deal_file), "--max-errors", "3"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == f"{deal_file}: 1 deals"
    assert len(err.splitlines()) == 4
    assert err.splitlines()[3] == "and 4 more bad lines, see --max-errors"


@pytest.mark.parametrize(
    "arguments",
    [[], ["check"], ["chek", "x"], ["check", "x", "--max-errors", "-1"], ["check", "x", "--max", "y"]],
)
def test_usage_errors_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(arguments)
    except SystemExit as exit:
        status = exit.code
    assert status == 2
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "python -m gongzhu_jax.records check games.jsonl" in " ".join(capsys.readouterr().out.split())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_ctrl_c_exits_130_quietly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "gongzhu_jax.records", "check", str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        other_end = None
        while other_end is None and process.poll() is None:
            try:
                other_end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # the command has not opened it yet
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)  # it waits for a line that never comes
        out, err = process.communicate(timeout=300)
    if other_end is not None:
        os.close(other_end)
    assert (process.returncode, out, err) == (130, b"", b"")


# ------------------------------------------------------------------------------------ shared data


def test_arena_games_replay(shared_data: Path) -> None:
    path = shared_data / "arena_games.jsonl"
    played = list(records.read(path))
    assert len(played) == 27
    originals = [json.loads(text) for text in path.read_text().splitlines()]
    for record, original in zip(played, originals, strict=True):
        state = records.replay(record)
        assert bool(game.is_over(state))
        assert gz.scores(state).tolist() == original["scores"]
        assert json.loads(records.to_json(record)) == original
        assert records.from_state(state, players=record.players) == record
    assert records.check([path]) == [(str(path), 27, 27, 27 * 52, 0, ())]


# ------------------------------------------------------------------------------------ fuzzing


class Named(io.BytesIO):
    name = "F"


def read_or_refuse(content: bytes) -> list[Record]:
    """The records of a file; a refusal must name the file and line, on one line, whatever is in the file."""
    found, errors = [], []
    for where, entry in textfiles.entries(Named(content), _format.parse_line):
        assert re.fullmatch(r"F:\d+", where)
        if isinstance(entry, ValueError):
            errors.append(str(entry))
            assert re.fullmatch(rf"{where}: \S.*", errors[-1])
            assert len(errors[-1]) < 600
        else:
            found.append(entry)
    assert refusal(lambda: list(records.read(Named(content)))) == (errors[0] if errors else None)
    return found


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_fuzz_any_bytes(content: bytes) -> None:
    assert read_or_refuse(content) == []
    assert read_or_refuse(line().encode() + b"\n" + content) == [example()]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=100), st.integers(0, 10_000))
def test_fuzz_gzip(tmp_path_factory: pytest.TempPathFactory, noise: bytes, position: int) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl.gz"
    whole = gzip.compress(f"{line()}\n{line(seed=6)}\n".encode())
    position %= len(whole) + 1
    path.write_bytes(whole[:position] + noise + whole[position + len(noise) :])
    for where, entry in textfiles.entries(path, _format.parse_line):
        assert isinstance(entry, Record) or str(entry).startswith(f"{path}:{where.rpartition(':')[2]}: ")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(cards.NAMES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
texts = st.text(st.characters(codec="utf-8") | st.sampled_from('{}[]",:SHDC 0123456789'), max_size=4)


def exchange(value: Any, one: str, other: str) -> Any:
    """A JSON value with two cards exchanged."""
    if isinstance(value, list):
        return [exchange(item, one, other) for item in value]
    swap = {one: other, other: one}
    return " ".join(swap.get(word, word) for word in value.split()) if isinstance(value, str) else value


@st.composite
def mutated_lines(draw: st.DrawFn) -> str:
    """A good line with a few changes: of fields, of cards, of characters."""
    fields: dict[str, Any] = json.loads(line())
    names = list(fields)
    for change in draw(st.lists(st.sampled_from(["drop", "swap", "value", "cards", "trick"]), max_size=2)):
        a, b = draw(st.permutations(names))[:2]
        if change == "drop":
            fields.pop(a, None)
        elif change == "swap" and a in fields and b in fields:
            fields[a], fields[b] = fields[b], fields[a]
        elif change == "value":
            fields[a] = draw(json_values)
        elif change == "trick" and isinstance(fields.get("tricks"), list):
            fields["tricks"].insert(draw(st.integers(0, 3)), draw(json_values))
        elif change == "cards":
            one, other = draw(st.tuples(st.sampled_from(cards.NAMES), st.sampled_from(cards.NAMES)))
            part = draw(st.sampled_from(["deal", "tricks", None]))  # one of them alone: they fit no more
            fields = {
                key: exchange(value, one, other) if part in (key, None) else value
                for key, value in fields.items()
            }
    text = json.dumps(fields, ensure_ascii=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 2))):
        at, cut = draw(st.integers(0, len(text))), draw(st.integers(0, 3))
        text = text[:at] + draw(texts) + text[at + cut :]
    return text


@settings(max_examples=400, deadline=None)
@given(st.lists(mutated_lines(), min_size=1, max_size=3))
def test_fuzz_mutated_records(lines: list[str]) -> None:
    found = read_or_refuse("\n".join(lines).encode("utf-8", "surrogatepass"))
    for record in found:
        assert records.from_json(records.to_json(record)) == record
    refusals = [refusal(functools.partial(records.replay, record)) for record in found]
    for text in refusals:
        assert text is None or re.match(r"ply \d+(, seat \d)?: ", text)
    for record, text in zip(found, refusals, strict=True):
        if record.rules == rules.PAPER:
            fields = json.loads(records.to_json(record))
            assert (refusal(functools.partial(oracle.replay, fields)) is None) == (text is None)
    if found:
        wrong = _replay._find_wrong(found).tolist()
        assert wrong == [text is not None for text in refusals], "a batch agrees with single games"
