"""Duplicate matches and tournaments: protocol, statistics, outputs, and bad input."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from eval import duplicate, match, pairings, tournament
from gongzhu_jax import cards, deals, game, players, records, results
from gongzhu_jax.players import Player
from tests.oracle import gongzhu as oracle


def margin_by_oracle(deal: np.ndarray, leader: int, plays: list[int]) -> int:
    truth = oracle.Game([np.flatnonzero(hand).tolist() for hand in deal], leader)
    for card in plays:
        truth.play(card)
    return truth.margin()


def first_card(key: jax.Array, view: gz.View) -> jax.Array:
    del key
    return cards.nth(game.legal_masks(view), jnp.int32(0))


LOWEST = Player("lowest", jax.vmap(first_card))


def test_both_tables_play_the_same_cards_with_seats_exchanged() -> None:
    some = duplicate.random_deals(3, 40)
    tables = duplicate.play_pairs(players.make("if"), LOWEST, some, seed=1)
    for i in range(40):
        for table, sign in ((0, 1), (1, -1)):
            plays = tables.ends.plays[i, table].tolist()
            assert (
                sign * margin_by_oracle(some.hands[i], int(some.leaders[i]), plays)
                == tables.margins[i, table]
            )
    assert (tables.ends.ply == 52).all()


def test_a_deterministic_player_sits_where_the_protocol_says() -> None:
    """LOWEST plays its first legal card at seats 0 and 2 of the first table and 1 and 3 of the second."""
    some = duplicate.random_deals(5, 12)
    tables = duplicate.play_pairs(LOWEST, players.make("random"), some, seed=1)
    for i in range(12):
        for table in (0, 1):
            truth = oracle.Game([np.flatnonzero(h).tolist() for h in some.hands[i]], int(some.leaders[i]))
            others = 0
            for card in tables.ends.plays[i, table].tolist():
                if truth.mover % 2 == table:
                    assert card == truth.legal()[0]
                else:
                    others += card != truth.legal()[0]
                truth.play(card)
            assert others > 0, "Mr. Random is somebody else"


def test_a_player_against_itself_is_zero_in_every_pair() -> None:
    """The same (deal, seat, ply) has the same luck at both tables, so both are the same game."""
    for spec in ("random", "if"):
        player = players.make(spec)
        twin = Player(f"{spec} again", player.choose)
        tables = duplicate.play_pairs(player, twin, duplicate.random_deals(0, 32), seed=9)
        assert (tables.margins.sum(axis=1) == 0).all()
        assert (tables.ends.plays[:, 0] == tables.ends.plays[:, 1]).all()


def test_results_depend_on_seed_and_deal_only() -> None:
    a, b = players.make("if"), players.make("random")
    some = duplicate.random_deals(0, 48)
    whole = duplicate.play_pairs(a, b, some, seed=4).margins
    small = dataclasses.replace(a, chunk=7)
    np.testing.assert_array_equal(duplicate.play_pairs(small, b, some, seed=4).margins, whole)
    parts = [duplicate.play_pairs(a, b, some.slice(i, i + 16), seed=4).margins for i in (0, 16, 32)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(-duplicate.play_pairs(b, a, some, seed=4).margins[:, ::-1], whole)
    assert (duplicate.play_pairs(a, b, some, seed=5).margins != whole).any()
    np.testing.assert_array_equal(duplicate.random_deals(0, 8, first=40).hands, some.hands[40:])


def test_published_margins_of_random_and_if(shared_data: Path) -> None:
    """If v Random on the standard deals: 178.8 ± 5.1 by the authors' programs; 3 combined standard errors."""
    some = duplicate.file_deals(shared_data / "standard_deals_1024.tsv")
    summary = duplicate.summarize(
        duplicate.play_pairs(players.make("if"), players.make("random"), some, 0).margins
    )
    assert summary.pairs == 1024
    assert abs(summary.margin - 178.8) < 3 * np.hypot(5.1, summary.stderr)


def test_published_margin_of_greed(shared_data: Path) -> None:
    """Greed v If on the first 256 standard deals: 79.8 ± 4.9 on all of them; 3 combined standard errors."""
    some = duplicate.file_deals(shared_data / "standard_deals_1024.tsv", 256)
    summary = duplicate.summarize(
        duplicate.play_pairs(players.make("greed"), players.make("if"), some, 0).margins
    )
    assert abs(summary.margin - 79.8) < 3 * np.hypot(4.9, summary.stderr)


def test_summary_by_hand() -> None:
    summary = duplicate.summarize(np.array([[100, 0], [-50, 50], [-20, -60], [10, 30]]))
    assert (summary.pairs, summary.won, summary.drawn, summary.lost) == (4, 2, 1, 1)
    assert summary.margin == pytest.approx((50 + 0 - 40 + 20) / 4)
    assert summary.stderr == pytest.approx(np.std([50, 0, -40, 20], ddof=1) / 2)


def test_an_illegal_card_stops_the_match_and_is_named() -> None:
    def cheat(key: jax.Array, view: gz.View) -> jax.Array:
        return jnp.where(view.ply == 9, jnp.int8(51), first_card(key, view))

    some = duplicate.random_deals(0, 24)
    with pytest.raises(
        duplicate.IllegalCardError, match=r"player 'cheat', deal \d+, table [12]: ply 9, seat \d: CA"
    ):
        duplicate.play_pairs(Player("cheat", jax.vmap(cheat)), LOWEST, some, 0)


# ----------------------------------------------------------------------------- eval.match


def run_match(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    status = match.main(list(args))
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_match_writes_figures_and_games(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, games = tmp_path / "m.json", tmp_path / "g.jsonl"
    arguments = ["if", "random", "--deals", "20", "--batch", "8", "--json", str(out), "--records", str(games)]
    status, printed = run_match(capsys, *arguments)
    assert status == 0
    assert "if v random" in printed
    figures = results.read("m", tmp_path)["figures"]
    assert set(figures) == {"margin", "won", "drawn", "lost", "pairs", "seconds"}
    assert figures["pairs"].value == 20

    played = list(records.read(games))
    assert len(played) == 40
    margins = np.zeros((20, 2))
    for record in played:
        end = records.replay(record)
        table = record.extra["table"]
        assert record.players == (("if", "random", "if", "random") if table == 1 else ("random", "if") * 2)
        margins[record.extra["deal_number"], table - 1] = int(gz.margin(end)) * (1 if table == 1 else -1)
    assert figures["margin"].value == pytest.approx(margins.mean())

    status, printed = run_match(capsys, *arguments)
    assert status == 2
    assert "the file exists; name another one or add --overwrite" in printed
    assert run_match(capsys, *arguments, "--overwrite")[0] == 0
    again = results.read("m", tmp_path)["figures"]
    assert {k: v for k, v in again.items() if k != "seconds"} == {
        k: v for k, v in figures.items() if k != "seconds"
    }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gred", "if"], "did you mean greed"),
        (["if", "greed:world=2"], "did you mean worlds"),
        (["if", "random", "--deals", "0"], "--deals 0: must be at least 1"),
        (["if", "random", "--batch", "0"], "--batch 0: must be at least 1"),
        (["if", "random", "--seed", "-1"], "--seed -1: must be 0 to"),
        (["if", "random", "--json", "nowhere/x.json"], "name a file in a folder that exists"),
    ],
)
def test_match_refuses(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = run_match(capsys, *arguments)
    assert status == 2
    assert text in printed


def test_match_with_unreadable_deals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = run_match(capsys, "if", "random", "--deal-file", str(tmp_path / "none.tsv"))
    assert status == 1
    assert "none.tsv" in printed
    bad = tmp_path / "bad.tsv"
    bad.write_text("0\tS2 S3\tS4\tS5\tS6\n")
    status, printed = run_match(capsys, "if", "random", "--deal-file", str(bad))
    assert status == 1
    assert "bad.tsv:1:" in printed
    deals.write_deals(good := tmp_path / "good.tsv", [deals.Deal("0", duplicate.random_deals(0, 1).hands[0])])
    status, printed = run_match(capsys, "if", "random", "--deal-file", str(good), "--deals", "2")
    assert status == 1
    assert "1 deals, fewer than the 2 asked for" in printed
    assert run_match(capsys, "if", "random", "--deal-file", str(good))[0] == 0


def test_an_interrupted_match_keeps_what_was_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def interrupted(*args: object, **kwargs: object) -> duplicate.Tables:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return duplicate.play_pairs(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(match, "play_pairs", interrupted)
    out, games = tmp_path / "m.json", tmp_path / "g.jsonl"
    status, printed = run_match(
        capsys, "if", "random", "--deals", "30", "--batch", "5", "--json", str(out), "--records", str(games)
    )
    assert status == 130
    assert "partial" in printed
    content = json.loads(out.read_text())
    assert content["partial"] is True
    assert content["figures"]["pairs"]["value"] == 10
    assert len(list(records.read(games))) == 20


def test_a_batch_too_large_for_memory_is_halved(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def small_memory(a: Player, b: Player, some: duplicate.Deals, seed: int) -> duplicate.Tables:
        sizes.append(len(some))
        if len(some) > 8:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return duplicate.play_pairs(a, b, some, seed)

    monkeypatch.setattr(match, "play_pairs", small_memory)
    status, printed = run_match(capsys, "if", "random", "--deals", "20", "--batch", "20")
    assert status == 0
    assert sizes[:2] == [20, 10]
    assert "going on with 5 deals at a time" in printed
    assert "20" in printed


# ----------------------------------------------------------------------------- eval.tournament


def antisymmetric(upper: dict[tuple[int, int], float], size: int) -> np.ndarray:
    payoff = np.zeros((size, size))
    for (i, j), value in upper.items():
        payoff[i, j], payoff[j, i] = value, -value
    return payoff


def test_intransitivity_of_the_published_table() -> None:
    published = antisymmetric(
        {(0, 1): -194, (0, 2): -275, (0, 3): -319, (1, 2): -80, (1, 3): -127, (2, 3): -60}, 4
    )
    assert float(tournament.intransitivity(published)) == pytest.approx(0.0273, abs=5e-5)
    assert float(tournament.intransitivity(published, "product")) == pytest.approx(0.0967, abs=5e-5)


def test_intransitivity_is_bounded_and_invariant() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        ratings = rng.normal(size=6)
        for form in ("sum", "product"):
            transitive = ratings[:, None] - ratings[None, :]
            assert float(tournament.intransitivity(transitive, form)) == pytest.approx(0, abs=1e-12)
        free = rng.normal(size=(6, 6))
        free -= free.T
        value = float(tournament.intransitivity(free))
        assert 0 < value <= 1
        assert float(tournament.intransitivity(7 * free)) == pytest.approx(value)
        order = rng.permutation(6)
        assert float(tournament.intransitivity(free[np.ix_(order, order)])) == pytest.approx(value)
    cycle = antisymmetric({(0, 1): 1, (1, 2): 1, (0, 2): -1}, 3)
    assert float(tournament.intransitivity(cycle)) == 1


def run_tournament(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    status = tournament.main(list(args))
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_a_tournament_is_resumed_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "t"
    base = ["--deals", "24", "--batch", "24", "--bootstrap", "50", "--out", str(folder)]
    assert run_tournament(capsys, "random", "if", *base)[0] == 0
    status, printed = run_tournament(capsys, "random", "if", "greed:worlds=1", *base)
    assert status == 0
    assert "random v if: played before" in printed
    figures = results.read("tournament", folder)["figures"]
    alone = duplicate.play_pairs(
        players.make("if"), players.make("random"), duplicate.random_deals(0, 24), 0
    ).margins
    assert figures["margin_random_if"].value == pytest.approx(-alone.mean())
    assert 0 <= figures["epsilon_sum_low"].value <= figures["epsilon_sum_high"].value <= 1
    text = (folder / "tournament.md").read_text()
    assert f"{figures['margin_random_if'].value:+.1f}" in text
    assert (folder / "heatmap.png").read_bytes().startswith(b"\x89PNG")

    # the other order is the same tournament seen from the other side, without playing
    monkeypatch.setattr(pairings, "play_match", None)
    assert run_tournament(capsys, "if", "greed:worlds=1", "random", *base)[0] == 0
    assert results.read("tournament", folder)["figures"]["margin_if_random"].value == pytest.approx(
        alone.mean()
    )


def test_a_tournament_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = run_tournament(capsys, "if", "--out", str(tmp_path / "a"))
    assert status == 2
    assert "two or more different players" in printed
    (tmp_path / "notes.txt").write_text("mine")
    status, printed = run_tournament(capsys, "if", "random", "--out", str(tmp_path))
    assert status == 2
    assert "holds no pairings" in printed
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert run_tournament(capsys, "if", "random", "--deals", "3", "--out", str(tmp_path / "b"))[0] == 0
    status, printed = run_tournament(capsys, "if", "random", "--deals", "4", "--out", str(tmp_path / "b"))
    assert status == 2
    assert "played with deals 3, not 4" in printed
