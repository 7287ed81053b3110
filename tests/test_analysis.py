"""The analyses: paired differences by definition, bits and calibration of beliefs, and bad input."""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from eval import duplicate
from eval.analysis import ceiling, parts
from eval.analysis.__main__ import main
from eval.analysis.techniques import KEYS
from eval.pairings import Pairings
from gongzhu_jax import game, models, networks, players, results, search
from gongzhu_jax.players import Player
from tests.conftest import at, hands_of
from tests.oracle import gongzhu as oracle
from tests.oracle.minimax import after, minimax


def test_techniques_are_compared_on_the_same_deals(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made-up margins: every player's is the deal's luck plus its own, so paired differences have no error."""
    luck = np.random.default_rng(0).normal(0, 150, 64)
    worth = {
        "sampling=uniform,belief=none": 10.0,
        "belief=none": 14.0,
        "sampling=uniform": 12.0,
        "": 20.0,
        "belief=naive-bayes": 15.0,
    }

    def margins(self: Pairings, a: Player, b: Player, batch: int | None, console: object) -> np.ndarray:
        del self, batch, console
        if b.name != "greed":
            return luck * 0 + np.arange(64) % 2
        rest = a.name.removeprefix(f"scrofa:model={small_model},worlds=4").lstrip(",")
        return luck + (worth[rest] if a.name.startswith("scrofa") else 5.0)

    monkeypatch.setattr(Pairings, "margins", margins)
    out = tmp_path / "t"
    args = ["techniques", str(small_model), "--worlds", "4", "--deals", "64", "--no-time", "--out", str(out)]
    assert main(args) == 0
    found = results.read("techniques", out)["figures"]
    assert {f"wpg_{key}" for key in KEYS.values()} <= set(found)
    for key, value in {
        "gain_ss_paired": 4.0,
        "gain_iec_paired": 6.0,
        "gain_iec_uniform_paired": 2.0,
        "gain_iec_over_naive_bayes": 5.0,
        "gain_search_over_raw": 15.0,
        "ss_iec_v_us": 0.5,
    }.items():
        assert found[key].value == pytest.approx(value)
    assert found["gain_iec_paired"].stderr == pytest.approx(0, abs=1e-9)
    assert found["wpg_us"].stderr == pytest.approx(luck.std(ddof=1) / 8)
    assert f"{found['wpg_ss_iec'].value:+.1f}" in (out / "techniques.md").read_text()
    assert (out / "techniques.png").read_bytes().startswith(b"\x89PNG")


def test_parts_are_compared_on_the_same_deals(
    small_actor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above: made-up margins, one for each change of ``deep``."""
    luck = np.random.default_rng(0).normal(0, 150, 64)
    plain = f"deep:model={small_actor}"

    def margins(self: Pairings, a: Player, b: Player, batch: int | None, console: object) -> np.ndarray:
        del self, batch, console
        assert b.name == "greed"
        return luck + {plain: 9.0, f"{plain},solve=0": 7.0, f"actor:model={small_actor}": 4.0}.get(
            a.name, 8.0
        )

    monkeypatch.setattr(Pairings, "margins", margins)
    out = tmp_path / "p"
    assert main(["parts", str(small_actor), "--deals", "64", "--no-time", "--out", str(out)]) == 0
    found = results.read("parts", out)["figures"]
    assert found["gain_over_no_endings"].value == pytest.approx(2.0)
    assert found["gain_over_actor"].value == pytest.approx(5.0)
    assert found["gain_over_uniform"].value == pytest.approx(1.0)
    assert found["gain_over_uniform"].stderr == pytest.approx(0, abs=1e-9)
    assert found["wpg_deep"].value == pytest.approx(luck.mean() + 9)
    table = (out / "parts.md").read_text()
    assert all(f"| deep − {name} |" in table for name in parts.KEYS if name != "deep")
    assert (out / "parts.png").read_bytes().startswith(b"\x89PNG")


def test_belief_in_bits(small_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "b"
    assert main(["belief", str(small_model), "--deals", "4", "--worlds", "8", "--out", str(out)]) == 0
    found = results.read("belief", out)["figures"]
    at_start = -math.log2(math.factorial(39) / math.factorial(13) ** 3)
    assert at_start == pytest.approx(-56.2, abs=0.1)
    # whoever leads knows nothing; the second player has seen one card, and perhaps a void
    assert at_start - 0.1 <= found["uniform_bits_trick_1"].value <= at_start + 3
    for trick in range(2, 14):
        assert found[f"uniform_bits_trick_{trick}"].value > found[f"uniform_bits_trick_{trick - 1}"].value
    for name in ("iec", "likelihood"):
        assert 1 / 8 - 1e-3 <= found[f"effective_{name}_trick_9"].value <= 1 + 1e-3
    # β is small and γ at most 1: a play says little, and the more the later
    assert abs(found["bits_gained_iec_trick_1"].value) < 1
    assert (out / "belief.png").read_bytes().startswith(b"\x89PNG")
    assert "| 13 |" in (out / "belief.md").read_text()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--worlds", "0"], "--worlds 0: must be at least 1"),
        (["--deals", "1"], "--deals 1: must be at least 2"),
        (["--seed", "-1"], "--seed -1"),
    ],
)
def test_flags_out_of_range(
    flags: list[str], told: str, small_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["techniques", str(small_model), *flags, "--out", str(tmp_path / "t")]) == 2
    assert told in capsys.readouterr().err


def test_a_model_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["techniques", str(tmp_path / "none.model"), "--out", str(tmp_path / "t")]) == 2
    assert "none.model: cannot read a model" in capsys.readouterr().err


def test_cards_in_points(small_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "c"
    assert main(["cards", str(small_model), "--deals", "4", "--batch", "4", "--out", str(out)]) == 0
    found = results.read("cards", out)["figures"]
    # 4 deals at one table of 52 cards: no card is asked about more often than it can be held with a choice
    assert all(found[f"gamma_{card}"].n <= 4 * 13 for card in ("S2", "SQ", "HA", "C10"))
    assert all(0 < found[f"gamma_{card}"].value <= 1 for card in ("S2", "SQ", "HA", "C10"))
    text = (out / "cards.md").read_text()
    assert "| SA |" in text
    assert "| +50 |" in text
    assert (out / "cards.png").read_bytes().startswith(b"\x89PNG")


def test_what_endings_lose(tmp_path: Path) -> None:
    """Against the plain-Python minimax, card by card, over the same games."""
    out = tmp_path / "e"
    assert main(["endings", "if", "--deals", "2", "--seed", "3", "--out", str(out)]) == 0
    found = results.read("endings", out)["figures"]
    deals = duplicate.random_deals(3, 2)
    ends = duplicate.play_pairs(players.make("if"), players.make("greed"), deals, 3).ends
    lost = np.zeros(2)
    for i in range(2):
        for table in range(2):
            start = jax.tree.map(lambda x, i=i, t=table: x[i, t], ends)
            truth = oracle.Game(
                [np.flatnonzero(h).tolist() for h in hands_of(game.dealt(start))], int(start.leaders[0])
            )
            for ply, card in enumerate(np.asarray(start.plays).tolist()):
                if ply >= 40 and truth.mover % 2 == table:
                    values = [minimax(after(truth, c), truth.mover % 2) for c in truth.legal()]
                    lost[i] += (max(values) - minimax(after(truth, card), truth.mover % 2)) / 2
                truth.play(card)
    assert found["lost_if"].value == pytest.approx(lost.mean())
    assert (out / "endings.png").read_bytes().startswith(b"\x89PNG")


def test_a_ceiling_is_of_who_sees_the_true_hands(
    small_model: Path, small_actor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same cards as a search of the State itself; and a model that reads Views is refused."""
    out, args = tmp_path / "s", ["--deals", "2", "--base", "4", "--per-card", "1"]
    assert main(["ceiling", str(small_model), *args, "--out", str(out)]) == 0
    found = results.read("ceiling", out)["figures"]
    assert found["wpg_open_search"].n == 2
    model = models.load(small_model)
    seer = ceiling.searching(model, "seer", search.Settings(base=4, per_card=1))
    deals = duplicate.random_deals(0, 2)
    tables = duplicate.play_pairs(seer, players.make("greed"), deals, 0)
    assert found["wpg_open_search"].value == pytest.approx(tables.margins.mean())
    leaf = networks.leaf_function(model.network, model.params)
    look = jax.jit(lambda s: search.search(s, leaf, search.Settings(base=4, per_card=1)))
    start = jax.vmap(jax.vmap(game.dealt))(jax.tree.map(jnp.asarray, tables.ends))
    for ply in (0, 9, 30):
        before = jnp.where(jnp.arange(52) < ply, tables.ends.plays, -1)
        states = jax.vmap(jax.vmap(lambda s, p: gz.play(s, p)))(start, before)
        flat = jax.tree.map(lambda x: x.reshape(4, *x.shape[2:]), states)
        q = np.asarray(look(flat).q).reshape(2, 2, 52)
        for i in range(2):
            for t in range(2):
                if int(game.mover(at(states, i, t))) % 2 == t:
                    assert q[i, t, tables.ends.plays[i, t, ply]] == q[i, t].max()
    assert main(["ceiling", str(small_actor), *args, "--out", str(out)]) == 2
    assert "reads one seat's View" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["endings"], "name one player or more"),
        (["endings", "greedy"], "no player 'greedy' (did you mean greed?)"),
    ],
)
def test_players_of_endings(args: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    assert told in capsys.readouterr().err
