"""Rendering: what is shown is right and complete, and a View shows nothing that is hidden."""

import dataclasses
import re
from collections import Counter
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, game, render, rules
from gongzhu_jax.view import hand_sizes
from tests.conftest import at, hands_of

SVG = "{http://www.w3.org/2000/svg}"
SYMBOL_NAMES = [cards.SUIT_SYMBOLS[c // 13] + cards.RANKS[c % 13] for c in range(52)]

KNOWN_HANDS = (
    "SA SK S9 S2 HA H7 H3 DK D8 D2 CA C10 C4",
    "SQ S10 S3 HK H9 H8 DA D9 D3 CK CJ C5 C2",
    "SJ S8 S4 HQ H10 H4 DJ D10 D4 CQ C9 C6 C3",
    "S7 S6 S5 HJ H6 H5 H2 DQ D7 D6 D5 C8 C7",
)
KNOWN_PLAYS = "DA DJ DQ D2  SQ S4 S5 SA  HA H8"  # seat 1 takes the sheep, then seat 0 the pig

KNOWN_TEXT = """\
paper rules · trick 3 of 13, ply 10 · seat 0 led, seat 2 to play

                              ▸ seat 2 (team 0)
                              ♠ J 8
                              ♥ Q 10 4
                              ♦ 10 4
                              ♣ Q 9 6 3
seat 1 (team 1)                                   seat 3 (team 1)
♠ 10 3                                (?)         ♠ 7 6
♥ K 9                            ♥8          ·    ♥ J 6 5 2
♦ 9 3                                  ♥A         ♦ 7 6 5
♣ K J 5 2                                         ♣ 8 7
                              seat 0 (team 0)
                              ♠ K 9 2
                              ♥ 7 3
                              ♦ K 8
                              ♣ A 10 4

                   points  captured
seat 0 (team 0)      −100  ♠Q
seat 1 (team 1)      +100  ♦J
seat 2 (team 0)         0
seat 3 (team 1)         0
team 0 − team 1      −200

last trick  ♠Q ♠4 ♠5 ♠A   seat 1 led, seat 0 took it"""

KNOWN_VIEW_TEXT = """\
paper rules · trick 3 of 13, ply 10 · seat 0 led, seat 2 to play

                              seat 1 (partner)
                              10 cards face down



seat 0                                            ▸ seat 2
10 cards face down                     ♥8         11 cards face down
                                 ♥A         (?)
                                       ·

                              seat 3 (you)
                              ♠ 7 6
                              ♥ J 6 5 2
                              ♦ 7 6 5
                              ♣ 8 7

                   points  captured
seat 3 (you)            0
seat 0               −100  ♠Q
seat 1 (partner)     +100  ♦J
seat 2                  0
us − them            +200

last trick  ♠Q ♠4 ♠5 ♠A   seat 1 led, seat 0 took it

unseen      ♠ K J 10 9 8 3 2               ♥ K Q 10 9 7 4 3
            ♦ K 10 9 8 4 3                 ♣ A K Q J 10 9 6 5 4 3 2"""


@pytest.fixture(scope="module")
def known() -> gz.State:
    hands = np.stack([cards.to_set(hand) for hand in KNOWN_HANDS])
    return game.play(gz.from_hands(hands, 1), jnp.array(cards.parse(KNOWN_PLAYS)))


@pytest.fixture(scope="module")
def positions(random_games: tuple[gz.State, gz.State]) -> list[gz.State]:
    """Random positions at every ply 0..52."""
    ends, before = jax.device_get(random_games)
    return [at(before, ply, ply) for ply in range(52)] + [at(ends, 52)]


def drawn(svg: str, where: str) -> Counter[str]:
    """The cards that an SVG shows in a place."""
    groups = ElementTree.fromstring(svg).iter(f"{SVG}g")
    return Counter(group.get("data-card", "") for group in groups if group.get("data-where") == where)


def names(ids: np.ndarray) -> Counter[str]:
    return Counter(cards.NAMES[card] for card in ids)


def test_known_position(known: gz.State) -> None:
    assert render.text(known) == KNOWN_TEXT
    assert render.text(gz.view(known, 3)) == KNOWN_VIEW_TEXT
    root = ElementTree.fromstring(render.svg(known))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert [words.count(w) for w in ("−100 pts", "+100 pts", "0 pts", "−200", "play")] == [1, 1, 2, 1, 1]
    title, description = root.findtext(f"{SVG}title") or "", root.findtext(f"{SVG}desc") or ""
    assert "seat 0 led, seat 2 to play" in title
    assert "seat 0 (team 0): −100 points, holds ♠K ♠9 ♠2" in description


def test_a_state_shows_every_card_once(positions: list[gz.State]) -> None:
    for state in positions:
        svg, held = render.svg(state), hands_of(state)
        table = [card for card in np.asarray(game.table(state)) if card >= 0]
        assert drawn(svg, "hand") == names(np.flatnonzero(held.any(axis=0)))
        assert drawn(svg, "trick") == names(table)
        captured = np.flatnonzero(np.asarray(game.captured(state)).any(axis=0))
        assert drawn(svg, "captured") == names(np.intersect1d(captured, state.rules.scoring))
        assert not drawn(svg, "back")


def test_points_margin_and_turn(positions: list[gz.State]) -> None:
    for state in positions:
        for position in (state, gz.view(state, 1)):
            text = render.text(position).replace("−", "-")
            rows = re.findall(r"^seat \d(?: \(.*?\))? +([-+]?\d+)", text, re.M)
            assert [int(points) for points in rows] == np.asarray(gz.scores(position)).tolist()
            margin = re.search(r"^(?:team 0 - team 1|us - them) +([-+]?\d+)$", text, re.M)
            assert margin is not None
            assert int(margin[1]) == int(gz.margin(position))
        turns = re.findall(r"▸ seat (\d)", render.text(state))
        assert turns == ([] if gz.is_over(state) else [str(game.mover(state))])
        assert render.svg(state).count(">play</text>") == len(turns)


def permute_hidden(state: gz.State, seat: int, rng: np.random.Generator) -> gz.State:
    """The same game with the cards of the other three hands dealt differently among them."""
    hands = hands_of(state)
    others = [other for other in range(4) if other != seat]
    pool = rng.permutation(np.flatnonzero(hands[others].any(axis=0)))
    for other in others:
        size = hands[other].sum()
        hands[other] = np.isin(np.arange(52), pool[:size])
        pool = pool[size:]
    return dataclasses.replace(state, hands=cards.to_masks(jnp.array(hands)))


def test_a_view_hides_the_hands_of_others(positions: list[gz.State]) -> None:
    rng = np.random.default_rng(0)
    changed = 0
    for i, state in enumerate(positions):
        seat = i % 4
        view, other = gz.view(state, seat), permute_hidden(state, seat, rng)
        text, svg = render.text(view), render.svg(view)
        assert text == render.text(gz.view(other, seat))
        assert svg == render.svg(gz.view(other, seat))
        changed += render.text(state) != render.text(other)

        hidden = np.flatnonzero(np.delete(hands_of(state), seat, axis=0).any(axis=0))
        description = ElementTree.fromstring(svg).findtext(f"{SVG}desc") or ""
        for words in (text, description.split("unseen:")[0]):
            assert not {SYMBOL_NAMES[card] for card in hidden} & set(re.findall(r"[♠♥♦♣]\w+", words))
        assert set(re.findall(r'data-card="(\w+)"', svg)).isdisjoint(names(hidden))
        assert drawn(svg, "hand") == names(np.flatnonzero(hands_of(state)[seat]))

        sizes = np.asarray(hand_sizes(view))[1:].tolist()
        assert drawn(svg, "back").total() == sum(sizes)
        if not gz.is_over(state):
            assert sorted(map(int, re.findall(r"(\d+) cards? face down", text))) == sorted(sizes)
    assert changed > 40


def test_shown_voids_and_unseen_cards(positions: list[gz.State]) -> None:
    seen = 0
    for state in positions[:-1]:
        view = gz.view(state, 2)
        text = render.text(view)
        voids = np.asarray(view.void)[1:]
        suits = [" ".join(cards.SUIT_SYMBOLS[suit] for suit in np.flatnonzero(void)) for void in voids]
        assert sorted(re.findall(r"no ([♠♥♦♣](?: [♠♥♦♣])*)", text)) == sorted(filter(None, suits))
        seen += voids.sum()
        unseen = text[text.index("unseen") :]
        rows = re.findall(r"([♠♥♦♣]) ((?:10|[2-9JQKA]| )+|—)", unseen)
        listed = {symbol + rank for symbol, ranks in rows for rank in ranks.split() if rank != "—"}
        assert listed == {SYMBOL_NAMES[c] for c in np.flatnonzero(cards.to_bools(view.unseen))}
    assert seen


def test_the_viewer_sits_at_the_bottom(known: gz.State) -> None:
    for seat in range(4):
        root = ElementTree.fromstring(render.svg(gz.view(known, seat)))
        texts = {text.text or "": float(text.get("y", 0)) for text in root.iter(f"{SVG}text")}
        plates = {words: y for words, y in texts.items() if re.fullmatch(r"seat \d \((you|partner)\)", words)}
        assert max(plates, key=plates.__getitem__) == f"seat {seat} (you)"
        assert min(plates, key=plates.__getitem__) == f"seat {(seat + 2) % 4} (partner)"


def test_legal_cards_are_raised(known: gz.State) -> None:
    raised = f'stroke="{render._GOLD}" stroke-width="2.5"'
    assert render.svg(known).count(raised) == int(gz.legal_cards(known).sum()) == 3
    assert render.svg(gz.view(known, 2)).count(raised) == 3
    assert raised not in render.svg(gz.view(known, 1))


@pytest.fixture(scope="module")
def extremes(positions: list[gz.State]) -> list[gz.State]:
    """Whole suits in a hand, all scoring cards or all cards with one seat, a wild name, an illegal deal."""
    suits = gz.from_hands(np.kron(np.eye(4, dtype=bool), np.ones(13, bool)), 0)
    nobody = np.zeros((4, 52), bool)
    piles = []
    for seat in range(4):
        pile = nobody.copy()
        pile[seat, list(rules.PAPER.scoring)] = True
        piles.append(dataclasses.replace(suits, taken=cards.to_masks(jnp.array(pile))))
    wild = dataclasses.replace(rules.PAPER, name="<&\"'\x00\x1b[31m\ud800 " * 9, scoring=tuple(range(52)))
    everything = cards.to_masks(jnp.array(nobody).at[1].set(True))
    greedy = dataclasses.replace(positions[-1], taken=everything, rules=wild)
    illegal = jax.jit(lambda hands: gz.from_hands(hands, 7))(jnp.array(nobody).at[2].set(True))
    return [suits, *piles, greedy, illegal]


def test_text_fits_80_columns(positions: list[gz.State], extremes: list[gz.State]) -> None:
    for state in [*positions[::6], *extremes]:
        for position in (state, gz.view(state, 1), gz.view(state, 3)):
            assert max(map(len, render.text(position).splitlines())) <= render.COLUMNS


def test_cards_are_inside_the_frame_and_readable(positions: list[gz.State], extremes: list[gz.State]) -> None:
    for state in [*positions[:50:6], *extremes[:5]]:
        root = ElementTree.fromstring(render.svg(state))
        width, height = map(float, root.get("viewBox", "").split()[2:])
        spots: dict[str, tuple[float, float]] = {}
        for group in root.iter(f"{SVG}g"):
            if group.get("data-where") == "hand":
                x, y = map(float, re.findall(r"-?[\d.]+", group.get("transform", "")))
                spots[group.get("data-card", "")] = x, y
                assert 0 < x < width - 52
                assert 0 < y < height - 74
        for hand in hands_of(state):
            corners = np.array([spots[cards.NAMES[card]] for card in np.flatnonzero(hand)]).reshape(-1, 2)
            for i, corner in enumerate(corners):  # an overlapped card still shows its rank
                assert np.all(np.abs(np.delete(corners, i, axis=0) - corner).max(axis=1) > 24)


def test_svg_is_self_contained_and_accessible(known: gz.State) -> None:
    for position in (known, gz.view(known, 0)):
        svg = render.svg(position)
        root = ElementTree.fromstring(svg)
        assert root.get("role") == "img"
        assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert tags <= {"svg", "title", "desc", "g", "rect", "path", "text", "ellipse"}
        assert not {key for element in root.iter() for key in element.attrib} & {
            "id",
            "class",
            "href",
            "onclick",
        }
        assert "url(" not in svg
        assert svg.count("http") == 1  # the namespace
        assert svg == render.svg(position)


def test_free_text_is_escaped(known: gz.State) -> None:
    wild = dataclasses.replace(rules.HEARTS, name="<b>&\"x'\x00\x1b[31m")  # rules that the header names
    state = dataclasses.replace(known, rules=wild)
    root = ElementTree.fromstring(render.svg(state))
    assert "<b>&\"x'[31m rules" in (root.findtext(f"{SVG}title") or "")
    assert "<b>&\"x'[31m rules" in [text.text for text in root.iter(f"{SVG}text")]
    assert "<b>" not in render.html(state)
    assert "\x1b" not in render.text(state)


def test_color(positions: list[gz.State], known: gz.State) -> None:
    for position in [*positions[::5], gz.view(known, 3)]:
        plain, colored = render.text(position), render.text(position, color=True)
        assert "\x1b" not in plain
        assert re.sub(r"\x1b\[\d+m", "", colored) == plain
        red = "".join(re.findall(r"\x1b\[31m(.*?)\x1b\[0m", colored))
        black = re.sub(r"\x1b\[31m.*?\x1b\[0m", "", colored)
        assert not re.search("[♠♣▸]", red)
        assert not re.search("[♥♦]", black)
    assert "\x1b[31m♥ Q 10 4\x1b[0m" in render.text(known, color=True)


def test_illegal_is_flagged(known: gz.State, extremes: list[gz.State]) -> None:
    frozen = jax.jit(gz.step)(known, cards.PIG)
    for state in (frozen, extremes[-1]):
        assert "ILLEGAL" in render.text(state).splitlines()[0]
        assert "▸" not in render.text(state)
        svg = render.svg(state)
        assert "ILLEGAL" in (ElementTree.fromstring(svg).findtext(f"{SVG}title") or "")
        assert ">ILLEGAL: the game stands still</text>" in svg
    assert "ILLEGAL" not in render.text(known) + render.svg(known)


def test_individuals_have_no_margin(known: gz.State) -> None:
    taken = np.zeros((4, 52), bool)
    taken[2] = cards.to_set("SQ H2 CA")
    state = dataclasses.replace(known, taken=cards.to_masks(jnp.array(taken)), rules=rules.HEARTS)
    for position in (state, gz.view(state, 0)):
        text = render.text(position)
        assert re.search(r"^seat 2 +−14  ♠Q ♥2$", text, re.M)
        assert "team" not in text + render.svg(position)
        assert "partner" not in text + render.svg(position)
        assert " − " not in text


def test_html_and_repr(known: gz.State) -> None:
    for position in (known, gz.view(known, 1)):
        assert position._repr_html_() == render.html(position) == f"<div>{render.svg(position)}</div>"


def test_batches_and_traces(random_games: tuple[gz.State, gz.State], known: gz.State) -> None:
    ends, before = random_games
    views = jax.vmap(gz.view, (0, None))(ends, 0)
    for batch, words in (
        (ends, "State batch of shape (256,)"),
        (before, "State batch of shape (256, 52)"),
        (views, "View batch of shape (256,)"),
        (jax.eval_shape(lambda: known), "State without arrays"),
        (jax.tree.map(lambda x: 0, known), "State without arrays"),
    ):
        assert batch._repr_html_() == f"<div>{words}</div>"
        for draw in (render.text, render.svg):
            with pytest.raises(ValueError, match=re.escape(f"one game outside of a trace, not a {words}")):
                draw(batch)

    def inside(state: gz.State) -> jax.Array:
        assert render.html(state) == "<div>State inside a trace</div>"
        for draw in (render.text, render.svg):
            with pytest.raises(ValueError, match="not a State inside a trace"):
                draw(state)
        assert render.text(known) == KNOWN_TEXT  # a game that is known at trace time can be drawn
        return state.ply

    jax.jit(inside)(known)
    with pytest.raises(ValueError, match="neither a State nor a View"):
        render.text(known.hands)  # type: ignore[arg-type]
