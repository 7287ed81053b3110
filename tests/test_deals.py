"""Deal files and PBN: round trips, and what is said about bad ones."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gongzhu_jax import cards, deals, records
from gongzhu_jax.deals import Deal

SUITS = np.eye(4, dtype=bool).repeat(13, axis=1)
"""All spades to seat 0, …"""
HANDS = [" ".join(cards.NAMES[13 * seat : 13 * seat + 13]) for seat in range(4)]
BRIDGE = "N:AKQ.5432.AK.Q987 J1098..QJT98.AJT2 7654.AKQJ.765.65 32.T9876.432.K43"


def shuffled(number: int) -> list[np.ndarray]:
    """Some deals, ``bool[4, 52]`` each."""
    rng = np.random.default_rng(0)
    return [SUITS[:, rng.permutation(52)] for _ in range(number)]


def test_deal_files_round_trip(tmp_path: Path) -> None:
    led = [Deal(f"deal {i}", hands, i % 4) for i, hands in enumerate(shuffled(20))]
    open_lead = [deal._replace(leader=None) for deal in led]
    for name, those in (
        ("a.tsv", led),
        ("b.tsv.gz", open_lead),
        ("c.pbn", open_lead),
        ("d.pbn.gz", open_lead),
    ):
        deals.write_deals(tmp_path / name, those)
        read = list(deals.read_deals(tmp_path / name))
        assert [(deal.label, deal.leader) for deal in read] == [(deal.label, deal.leader) for deal in those]
        np.testing.assert_array_equal([deal.hands for deal in read], [deal.hands for deal in those])
    assert (tmp_path / "a.tsv").read_text().count("\t") == 5 * 20
    assert (tmp_path / "c.pbn").read_text().startswith('[Board "deal 0"]\n[Deal "N:')
    with pytest.raises(FileExistsError):
        deals.write_deals(tmp_path / "a.tsv", led)
    deals.write_deals(tmp_path / "a.tsv", led[:1], overwrite=True)
    assert len(list(deals.read_deals(tmp_path / "a.tsv"))) == 1


def test_deals_that_no_file_can_hold(tmp_path: Path) -> None:
    deal = Deal("a", SUITS)
    for wrong, message in (
        *(
            (deal._replace(label=label), "cannot label a deal")
            for label in ("", "a\tb", "a\n", 'a"', " a", "\ud800")
        ),
        (deal._replace(leader=4), "leader 4 is not a seat"),
        (deal._replace(hands=SUITS & (np.arange(52) != 0)), "seat 0 holds 12 cards"),
        (deal._replace(hands=SUITS.astype(int)), r"hands must be bool\[4, 52\]"),
    ):
        with pytest.raises(ValueError, match=message):
            deals.write_deals(tmp_path / "a.tsv", [deal, wrong])
    with pytest.raises(ValueError, match="do not say who leads"):
        deals.write_deals(tmp_path / "a.pbn", [deal._replace(leader=0)])
    assert list(tmp_path.iterdir()) == []


def test_pbn_is_read() -> None:
    hands = deals.parse_pbn(BRIDGE)
    assert hands.shape == (4, 52)
    assert hands.dtype == bool
    assert [cards.names(np.flatnonzero(hand)) for hand in hands] == [
        "SQ SK SA H2 H3 H4 H5 DK DA C7 C8 C9 CQ",
        "S8 S9 S10 SJ D8 D9 D10 DJ DQ C2 C10 CJ CA",
        "S4 S5 S6 S7 HJ HQ HK HA D5 D6 D7 C5 C6",
        "S2 S3 H6 H7 H8 H9 H10 D2 D3 D4 C3 C4 CK",
    ]
    same = (BRIDGE.lower(), BRIDGE.replace("T", "10"), BRIDGE.replace("..", ".-."), f" N : {BRIDGE[2:]} ")
    for other in same:
        np.testing.assert_array_equal(deals.parse_pbn(other), hands)
    words = BRIDGE[2:].split()
    for first, letter in enumerate("NESW"):
        turned = f"{letter}:{' '.join(words[first:] + words[:first])}"
        np.testing.assert_array_equal(deals.parse_pbn(turned), hands)
    assert deals.to_pbn(hands) == BRIDGE.replace("10", "T")
    assert deals.to_pbn(SUITS) == "N:AKQJT98765432... .AKQJT98765432.. ..AKQJT98765432. ...AKQJT98765432"
    np.testing.assert_array_equal(deals.parse_pbn(deals.to_pbn(SUITS)), SUITS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a deal: write number<TAB>hand"),
        ("AKQ.5432.AK.Q987", "not a deal"),
        (BRIDGE[2:], "not a deal"),
        ("X" + BRIDGE[1:], "not a deal"),
        ("NE" + BRIDGE[1:], "not a deal"),
        (BRIDGE.rpartition(" ")[0], "not a deal"),
        (BRIDGE + " AKQ.5432.AK.Q987", "not a deal"),
        (
            BRIDGE.replace("AKQ.5432.AK.Q987", "-"),
            "seat 0 (N): write the ranks of four suits S.H.D.C, not '-'",
        ),
        (BRIDGE.replace("J1098..", "J1098."), "seat 1 (E): write the ranks of four suits S.H.D.C"),
        (BRIDGE.replace("32.T98", "32.198"), "seat 3 (W): 'H1' is not a card"),
        (BRIDGE.replace("N:AKQ", "N:AKX"), "seat 0 (N): 'SX' is not a card"),
        (BRIDGE.replace("N:AKQ", "N:AKK"), "seat 0 (N): SK stands there more than once"),
        (BRIDGE.replace("N:AKQ", "N:AKJ"), "a card may be held once: SJ by seats [0, 1]"),
        (BRIDGE.replace("N:AKQ", "N:AK"), "seat 0 holds 12 cards: every seat must hold 13"),
    ],
)
def test_bad_pbn_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        deals.parse_pbn(text)
    path = tmp_path / "a.pbn"
    path.write_text(f'[Board "1"]\n[Deal "{text}"]\n')
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}:2: {message}')}"):
        list(deals.read_deals(path))


def test_pbn_files_tell_much_else(tmp_path: Path) -> None:
    path = tmp_path / "a.pbn"
    path.write_text(
        f'% PBN 2.1\n[Event "x"]\n[Board "12"]\n[Dealer "N"]\n[Deal "{BRIDGE}"]\n'
        f'[Auction "N"]\n1C Pass\tPass\n\n[Deal "{BRIDGE}"]\n'
    )
    assert [(deal.label, deal.leader) for deal in deals.read_deals(path)] == [("12", None), ("9", None)]


def test_lines_of_different_kinds(tmp_path: Path) -> None:
    path = tmp_path / "deals.txt"
    tens = "\t".join(hand.replace("10", "T").lower() for hand in HANDS)
    path.write_bytes(f"\ufeff{BRIDGE}\r\n\r\n0007\t{tens}\r\n\t{tens}\t3\r\n".encode())
    found = list(deals.read_deals(path))
    assert [(deal.label, deal.leader) for deal in found] == [("1", None), ("0007", None), ("4", 3)]
    np.testing.assert_array_equal([deal.hands for deal in found], [deals.parse_pbn(BRIDGE), SUITS, SUITS])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tS2", "2 fields: write number, four hands"),
        ("\t".join(["1", *HANDS, "0", "x"]), "7 fields: write number, four hands"),
        ("\t".join(["1", *HANDS, "4"]), "leader '4' is not a seat: seats are 0..3"),
        ("\t".join(["1", *HANDS[:3], "X2" + HANDS[3][2:]]), "seat 3: 'X2' is not a card"),
        ("\t".join(["1", *HANDS[:3], "C3" + HANDS[3][2:]]), "seat 3: C3 stands there more than once"),
        ("\t".join(["1", *HANDS[:3], "S2" + HANDS[3][2:]]), "a card may be held once: S2 by seats [0, 3]"),
        ("\t".join(["1", *HANDS[:3], HANDS[3][3:]]), "seat 3 holds 12 cards: every seat must hold 13"),
        (" ".join(HANDS), "not a deal"),
        ("a\0b", "not text"),
        ("a" * 70_000, "the line is longer"),
    ],
)
def test_bad_deal_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("\t".join(["0", *HANDS]) + f"\n{text}\n")
    found = deals.read_deals(path)
    assert next(found).label == "0"
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}:2: {message}')}"):
        next(found)


def test_standard_deals_are_read(shared_data: Path) -> None:
    path = shared_data / "standard_deals_1024.tsv"
    read = list(deals.read_deals(path))
    assert [deal.label for deal in read] == [f"{number:04}" for number in range(1024)]
    for deal, text in zip(read, path.read_text().splitlines(), strict=True):
        assert [cards.names(np.flatnonzero(hand)) for hand in deal.hands] == text.split("\t")[1:]
        assert deal.leader is None
    assert records.check([path]) == [(str(path), 1024, 0, 0, 0, ())]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["\t".join(["1", *HANDS, "2"]), BRIDGE, f'[Deal "{BRIDGE}"]', ""]),
    st.integers(0, 10_000),
    st.integers(0, 3),
    st.text(max_size=3) | st.text('-.:[]"\t0123456789TJQKASHDCNESW', max_size=3) | st.binary(max_size=20),
)
def test_fuzz_deal_files(text: str, where: int, cut: int, new: str | bytes) -> None:
    where %= len(text) + 1
    new = new if isinstance(new, bytes) else new.encode("utf-8", "surrogatepass")
    file = io.BytesIO(text[:where].encode() + new + text[where + cut :].encode())
    found, error = [], None
    try:
        found.extend(deals.read_deals(file))
    except ValueError as refusal:
        error = str(refusal)
    assert error is None or re.match(r"<file>:\d+: \S", error)
    for deal in found:
        assert (deal.hands.sum(axis=0) == 1).all()
        assert (deal.hands.sum(axis=1) == 13).all()
        np.testing.assert_array_equal(deals.parse_pbn(deals.to_pbn(deal.hands)), deal.hands)
