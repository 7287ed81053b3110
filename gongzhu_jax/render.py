"""A position for people: as text for a terminal and as SVG for a notebook or a page.

What is shown is collected once, as plain Python values (``_Scene``), and :func:`text` and :func:`svg` only
draw it. Seats run clockwise from the bottom: seat 0 of a State, the viewer of a View. The hidden hands of a
View are face down: a count of cards, the voids they have shown, and the unseen cards of all three together.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape

import jax
import numpy as np

from gongzhu_jax import cards, game
from gongzhu_jax.game import State
from gongzhu_jax.view import View, hand_sizes

COLUMNS = 80


def text(position: State | View, *, color: bool = False) -> str:
    """A position for the terminal, at most 80 columns wide.

    Args:
      position: one game, outside of a trace.
      color: hearts and diamonds in ANSI red.

    Raises:
      ValueError: a batch, traced arrays, or neither a State nor a View.
    """
    scene = _scene(position)
    lines = [f"{scene.rules} · {scene.progress} · {scene.status}", ""]
    if not scene.over:
        bottom, left, top, right = map(_text_hand, scene.seats)
        south, west, north, east = map(_text_slot, scene.seats)
        middle = ("", f"{north:^20}", f"{west:^9}  {east:^9}", f"{south:^20}", "")
        lines += [f"{'':30}{row}" for row in top]
        lines += [f"{a:30}{b:20}{c}" for a, b, c in zip(left, middle, right, strict=True)]
        lines += [*(f"{'':30}{row}" for row in bottom), ""]
    lines.append(f"{'points':>25}  captured")
    for seat in scene.seats:
        start = f"{seat.label:17}{_signed(seat.points):>8}  "
        lines += textwrap.wrap(start + _names(seat.captured), COLUMNS, subsequent_indent=" " * len(start))
    if scene.margin:
        lines.append(f"{scene.margin[0]:17}{_signed(scene.margin[1]):>8}")
    if scene.last:
        lines += ["", f"last trick  {_names(scene.last[0])}   {scene.last[1]}"]
    if scene.unseen is not None:
        rows = [f"{row:31}" for row in _suit_rows(scene.unseen)]
        lines += ["", f"unseen      {rows[0]}{rows[1]}", f"            {rows[2]}{rows[3]}"]
    drawn = "\n".join(line.rstrip() for line in lines)
    # Coloured last, so that escape codes never count as columns.
    return re.sub(f"[♥♦]( ?{_RANK}( {_RANK})*)?", "\033[31m\\g<0>\033[0m", drawn) if color else drawn


def svg(position: State | View) -> str:
    """A position as a self-contained SVG: no fonts, scripts, styles or ids that could clash with a page's.

    Args:
      position: one game, outside of a trace.

    Raises:
      ValueError: a batch, traced arrays, or neither a State nor a View.
    """
    scene = _scene(position)
    footer = list(_footer(scene))
    cut = _CARD_H + 8 if scene.over else 0  # no hands are left at the top and at the bottom
    end = _HEIGHT - 2 * cut
    height = end + (28 * len(footer) + 10 if footer else 0)
    body = [*_trick(scene)]
    for place, seat in enumerate(scene.seats):
        body += [*_hand(seat, place, scene.legal), *_plate(seat, place)]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" {_FONT} '
            f'style="display:block;width:100%;max-width:{_WIDTH}px;height:auto">',
            f"<title>{escape(f'Card table, {scene.rules}: {scene.progress}, {scene.status}')}</title>",
            f"<desc>{escape(_description(scene))}</desc>",
            _rect(1, 1, _WIDTH - 2, height - 2, 20, _FELT, f'stroke="{_RAIL}" stroke-width="2"'),
            *_header(scene),
            _shift(0, -cut, "\n".join(body)),
            *(_shift(0, end + 28 * i, row) for i, row in enumerate(footer)),
            "</svg>",
        )
    )


def html(position: State | View) -> str:
    """What notebooks show: :func:`svg` in a ``div``; one line of text for a batch or traced arrays."""
    problem = _not_one_game(position)
    return f"<div>{escape(problem) if problem else svg(position)}</div>"


# What is shown


@dataclasses.dataclass(frozen=True)
class _Seat:
    """What is shown of one seat. Cards are ids in the order in which they are shown.

    label: name and role, e.g. ``seat 2 (partner)``.
    hand: None when it is face down.
    size: cards left in it.
    void: suits 0..3 that a face-down hand has shown not to hold.
    captured: scoring cards.
    played: the card in the running trick.
    turn: it is this seat's turn.
    """

    label: str
    hand: tuple[int, ...] | None
    size: int
    void: tuple[int, ...]
    captured: tuple[int, ...]
    points: int
    played: int | None
    turn: bool


@dataclasses.dataclass(frozen=True)
class _Scene:
    """What is shown of a position.

    rules, progress, lead, status: words for which rules; trick and ply; who leads; what happens next.
    illegal, over: the game stands still after an illegal card or deal; all cards are played.
    seats: clockwise from the bottom.
    legal: what the mover may play, as far as the viewer may know it.
    margin: its label and points; None for individuals.
    last: the last trick in playing order, and who led and took it.
    unseen: in a View, the cards of the hidden hands together.
    """

    rules: str
    progress: str
    lead: str
    status: str
    illegal: bool
    over: bool
    seats: tuple[_Seat, ...]
    legal: frozenset[int]
    margin: tuple[str, int] | None
    last: tuple[tuple[int, ...], str] | None
    unseen: tuple[int, ...] | None


def _not_one_game(position: object) -> str | None:
    """What a position is that cannot be drawn, e.g. ``State batch of shape (1024,)``; None if it can."""
    kind, leaves = type(position).__name__, jax.tree.leaves(position)
    if not isinstance(position, State | View):
        return f"{kind}: neither a State nor a View"
    if not all(isinstance(leaf, jax.Array | np.ndarray | np.generic) for leaf in leaves):
        return f"{kind} without arrays"
    if position.ply.ndim:
        return f"{kind} batch of shape {tuple(position.ply.shape)}"
    return None if game.is_concrete(leaves) else f"{kind} inside a trace"


def _scene(position: State | View) -> _Scene:
    problem = _not_one_game(position)
    if problem:
        raise ValueError(f"render takes one game outside of a trace, not a {problem}")
    with jax.ensure_compile_time_eval():  # known arrays may be drawn from inside a function being traced
        return _collect(position)


def _collect(position: State | View) -> _Scene:
    rules, ply, over = position.rules, int(position.ply), bool(game.is_over(position))
    leader, mover = int(game.leader(position)) % 4, int(game.mover(position))
    table = [card for card in np.asarray(game.table(position)).tolist() if card >= 0]
    hands: list[tuple[int, ...] | None]
    unseen: tuple[int, ...] | None
    if isinstance(position, State):
        first, illegal, unseen, label = 0, bool(position.illegal), None, "team 0 − team 1"
        hands = [_ids(hand) for hand in cards.to_bools(position.hands)]
        sizes = np.asarray(cards.count(position.hands)).tolist()
        void = np.zeros((4, 4), bool)
        roles = [f" (team {team})" if len(set(rules.teams)) < 4 else "" for team in rules.teams]
    else:
        first, illegal, label = int(position.seat), False, "us − them"
        unseen = _ids(cards.to_bools(position.unseen))
        hands = [_ids(cards.to_bools(position.hand)), None, None, None]
        sizes = np.asarray(hand_sizes(position)).tolist()
        void = np.asarray(position.void) & (np.arange(4) > 0)[:, None]
        team = [rules.teams[(first + i) % 4] for i in range(4)]
        roles = [" (you)", *(" (partner)" if other == team[0] else "" for other in team[1:])]
    names = [f"seat {(first + i) % 4}" for i in range(4)]
    captured, points = np.asarray(game.captured(position)), np.asarray(game.scores(position)).tolist()
    seats = tuple(
        _Seat(
            label=names[i] + roles[i],
            hand=hands[i],
            size=sizes[i],
            void=tuple(np.flatnonzero(void[i]).tolist()),
            captured=tuple(card for card in _ids(captured[i]) if card in rules.scoring),
            points=points[i],
            played=table[(i - leader) % 4] if (i - leader) % 4 < len(table) else None,
            turn=i == mover and not over and not illegal,
        )
        for i in range(4)
    )
    last = None
    if ply >= 4:
        number, leaders, plays = ply // 4 - 1, np.asarray(position.leaders), np.asarray(position.plays)
        who = f"{names[leaders[number]]} led, {names[leaders[number + 1]]} took it"
        last = tuple(plays[4 * number : 4 * number + 4].tolist()), who
    lead = f"{names[leader]} {'led' if table else 'leads'}"
    status = f"{lead}, {names[mover]} to play" if table else "deal over" if over else lead
    try:
        margin = label, int(game.margin(position))
    except ValueError:  # these rules have no two teams
        margin = None
    return _Scene(
        # A name is free text: short enough for the line, and nothing that XML or a terminal cannot hold.
        rules="".join(c for c in rules.name if c.isprintable())[:16] + " rules",
        progress=f"trick {min(ply // 4 + 1, 13)} of 13, ply {ply}",
        lead=lead,
        status="ILLEGAL: the game stands still" if illegal else status,
        illegal=illegal,
        over=over,
        seats=seats,
        legal=frozenset(_ids(game.legal_cards(position))),
        margin=margin,
        last=last,
        unseen=unseen,
    )


def _ids(held: jax.Array | np.ndarray) -> tuple[int, ...]:
    """The ids of ``bool[52]`` as people sort a hand: by suit, high cards first."""
    return tuple(sorted(np.flatnonzero(held).tolist(), key=lambda card: (card // 13, -card)))


# Words

_RANK = f"(?:{'|'.join(cards.RANKS)})"


def _signed(points: int) -> str:
    return f"{points:+d}".replace("-", "−") if points else "0"


def _names(some: Iterable[int]) -> str:
    return " ".join(cards.SUIT_SYMBOLS[card // 13] + cards.RANKS[card % 13] for card in some)


def _suit_rows(some: Sequence[int]) -> list[str]:
    """One row a suit, e.g. ``♠ A Q 10``."""
    by_suit = (" ".join(cards.RANKS[card % 13] for card in some if card // 13 == suit) for suit in range(4))
    return [f"{cards.SUIT_SYMBOLS[suit]} {ranks or '—'}" for suit, ranks in enumerate(by_suit)]


def _size_text(seat: _Seat) -> str:
    return f"{seat.size} card{'' if seat.size == 1 else 's'}"


def _void_text(seat: _Seat) -> str:
    return "no " + " ".join(cards.SUIT_SYMBOLS[suit] for suit in seat.void) if seat.void else ""


def _text_hand(seat: _Seat) -> list[str]:
    """Five rows of at most 29 columns."""
    label = f"▸ {seat.label}" if seat.turn else seat.label
    if seat.hand is None:
        return [label, f"{_size_text(seat)} face down", _void_text(seat), "", ""]
    return [label, *_suit_rows(seat.hand)]


def _text_slot(seat: _Seat) -> str:
    """The middle of the table in front of a seat."""
    if seat.played is not None:
        return _names([seat.played])
    return "(?)" if seat.turn else "·"


def _description(scene: _Scene) -> str:
    """The position in sentences, for people who listen to it."""
    said = [f"{scene.rules}, {scene.progress}, {scene.status}"]
    for seat in scene.seats:
        holds = _size_text(seat) if seat.hand is None else f"holds {_names(seat.hand) or 'no cards'}"
        played = f"played {_names([seat.played])}" if seat.played is not None else ""
        captured = f"captured {_names(seat.captured)}" if seat.captured else ""
        facts = (f"{_signed(seat.points)} points", holds, _void_text(seat), captured, played)
        said.append(f"{seat.label}: {', '.join(filter(None, facts))}")
    if scene.margin:
        said.append(f"{scene.margin[0]}: {_signed(scene.margin[1])} points")
    if scene.last:
        said.append(f"last trick: {_names(scene.last[0])}, {scene.last[1]}")
    if scene.unseen is not None:
        said.append(f"unseen: {_names(scene.unseen) or 'no cards'}")
    return ". ".join(said) + "."


# The drawing. Places 0..3 are bottom, left, top, right; lengths are user units of the viewBox.

_WIDTH, _HEIGHT = 640, 552
_X, _Y = 320, 297  # the middle of the table
_CARD_W, _CARD_H = 52, 74
_MINI_W, _MINI_H = 31, 22
_PLATE_W = 128
_FELT, _RAIL, _CREAM, _SOFT, _GOLD, _ALARM = "#1f6650", "#123f31", "#fdf8ea", "#d3e5da", "#ffd166", "#b00020"
_PAPER, _EDGE, _BACK, _BACK_LINE = "#fffdf7", "#b9b2a0", "#34508c", "#9db4e6"
_INK = ("#1b1f3b", "#c1121f", "#c1121f", "#1b1f3b")
_INK_ON_FELT = (_CREAM, "#ffb4a8", "#ffb4a8", _CREAM)
# Fonts of one width on every system, so that words fit their plates.
_FONT = "font-family=\"'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', Roboto, sans-serif\""
_MIDDLE, _END, _BOLD = 'text-anchor="middle"', 'text-anchor="end"', 'font-weight="700"'
_OUTLINES = (  # the suits in the square −1..1: as letters, some systems would draw them as emoji
    "M0-1C.3-.5.95-.2.95.28.95.6.72.76.5.76.3.76.15.68.08.52.1.76.2.9.36 1H-.36C-.2.9-.1.76-.08.52"
    "-.15.68-.3.76-.5.76-.72.76-.95.6-.95.28-.95-.2-.3-.5 0-1Z",
    "M0 .95C-.35.5-1 .1-1-.42-1-.75-.76-.95-.5-.95-.26-.95-.08-.8 0-.58.08-.8.26-.95.5-.95.76-.95"
    " 1-.75 1-.42 1 .1.35.5 0 .95Z",
    "M0-1Q.32-.4.76 0 .32.4 0 1-.32.4-.76 0-.32-.4 0-1Z",
    "M-.12-.08A.45.45 0 1 1 .12-.08.45.45 0 1 1 .1.42Q.14.86.36 1H-.36Q-.14.86-.1.42A.45.45 0 1 1-.12-.08Z",
)


@dataclasses.dataclass(frozen=True)
class _Face:
    """How a card is drawn: its size, the middle of its rank, and where and how large its suit is."""

    width: int
    height: int
    radius: int
    rank: tuple[float, float, int]
    pips: tuple[tuple[float, float, float], ...]


_UPRIGHT = _Face(_CARD_W, _CARD_H, 6, (14, 22, 20), ((14, 34, 7), (34, 54, 13)))
_STACKED = _Face(_CARD_W, _CARD_H, 6, (15, 22, 20), ((39, 15, 7), (26, 50, 13)))  # for overlap downwards
_MINI = _Face(_MINI_W, _MINI_H, 4, (10, 16, 14), ((24.5, 11, 5),))


def _shift(x: float, y: float, drawn: str, more: str = "") -> str:
    return f'<g transform="translate({x:g} {y:g})"{more}>{drawn}</g>'


def _rect(x: float, y: float, width: float, height: float, radius: float, fill: str, more: str = "") -> str:
    size = f'width="{width:g}" height="{height:g}" rx="{radius:g}"'
    return f'<rect x="{x:g}" y="{y:g}" {size} fill="{fill}" {more}/>'


def _write(x: float, y: float, words: str, size: int = 15, fill: str = _CREAM, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" {more}>{escape(words)}</text>'


def _pip(suit: int, x: float, y: float, size: float, fill: str) -> str:
    place = f"translate({x:g} {y:g}) scale({size:g})"
    return f'<path d="{_OUTLINES[suit]}" fill="{fill}" transform="{place}"/>'


def _card(card: int, x: float, y: float, where: str, face: _Face, edge: str = f'stroke="{_EDGE}"') -> str:
    suit, ink = card // 13, _INK[card // 13]
    rank = _write(*face.rank[:2], cards.RANKS[card % 13], face.rank[2], ink, f"{_MIDDLE} {_BOLD}")
    pips = "".join(_pip(suit, *pip, ink) for pip in face.pips)
    sheet = _rect(0, 0, face.width, face.height, face.radius, _PAPER, edge)
    return _shift(x, y, sheet + rank + pips, f' data-card="{cards.name(card)}" data-where="{where}"')


def _back(x: float, y: float) -> str:
    sheet = _rect(0, 0, _CARD_W, _CARD_H, 6, _BACK, f'stroke="{_PAPER}" stroke-width="1.5"')
    frame = _rect(4, 4, _CARD_W - 8, _CARD_H - 8, 4, "none", f'stroke="{_BACK_LINE}"')
    diamond = _pip(2, _CARD_W / 2, _CARD_H / 2, 15, _BACK_LINE)
    return _shift(x, y, sheet + frame + diamond, ' data-where="back"')


def _hand(seat: _Seat, place: int, legal: frozenset[int]) -> Iterator[str]:
    """Overlapping cards along the seat's edge; what may be played is raised towards the middle."""
    stacked = place in (1, 3)
    middle, size, room, step = (_Y, _CARD_H, 330, 26.0) if stacked else (_X, _CARD_W, 410, 31.0)
    hand: Sequence[int | None] = [None] * seat.size if seat.hand is None else seat.hand
    suits = [0 if card is None else card // 13 for card in hand]
    spots = [i + 0.35 * len(set(suits[: i + 1])) for i in range(len(hand))]  # a gap between suits
    length = spots[-1] - spots[0] if hand else 0
    step = min(step / 2 if seat.hand is None else step, room / max(length, 1))
    edge = (_HEIGHT - 12 - _CARD_H, 14, 54, _WIDTH - 14 - _CARD_W)[place]
    for card, spot in zip(hand, spots, strict=True):
        raised = 0 if card not in legal else 8 if place in (1, 2) else -8
        along, across = middle - size / 2 + (spot - spots[0] - length / 2) * step, edge + raised
        x, y = (across, along) if stacked else (along, across)
        if card is None:
            yield _back(x, y)
        else:
            outline = f'stroke="{_GOLD}" stroke-width="2.5"' if raised else f'stroke="{_EDGE}"'
            yield _card(card, x, y, "hand", _STACKED if stacked else _UPRIGHT, outline)


def _plate(seat: _Seat, place: int) -> Iterator[str]:
    """The name plate of a seat and, below or beside it, the scoring cards that it has captured."""
    stacked, number, height = place in (1, 3), len(seat.captured), 64 if seat.void else 46
    usual, most = (4, 4) if stacked else (8, 2)  # columns and rows: sixteen cards fit, more would overlap
    columns = max(min(number, usual), -(-number // most), 1)
    rows, pitch = -(-number // columns), min(1, usual / columns) * (_MINI_W + 1)
    pile_height = rows * (_MINI_H + 2)
    if stacked:
        x = 86.0 if place == 1 else _WIDTH - 86.0 - _PLATE_W
        y = _Y - (height + 6 + pile_height if rows else height) / 2
        pile_x, pile_y = x, y + height + 6
    else:
        x = _X - (_PLATE_W + 8 + columns * pitch if rows else _PLATE_W) / 2
        y = _Y + (130 if place == 0 else -130) - height / 2
        pile_x, pile_y = x + _PLATE_W + 8, y + 1 + (height - pile_height) / 2

    middle = x + _PLATE_W / 2
    strong, soft, inks = (_INK[0], _INK[0], _INK) if seat.turn else (_CREAM, _SOFT, _INK_ON_FELT)
    yield _rect(x, y, _PLATE_W, height, 10, _GOLD if seat.turn else _RAIL)
    yield _write(middle, y + 19, seat.label, 15, strong, f"{_MIDDLE} {_BOLD}")
    closed = f" · {_size_text(seat)}" if seat.hand is None else ""
    yield _write(middle, y + 37, f"{_signed(seat.points)} pts{closed}", 14, soft, _MIDDLE)
    if seat.void:
        left = middle - 11 - 9 * len(seat.void)
        yield _write(left, y + 56, "no", 14, soft)
        for i, suit in enumerate(seat.void):
            yield _pip(suit, left + 28 + 18 * i, y + 51, 6.5, inks[suit])
    for i, card in enumerate(seat.captured):
        at = pile_x + i % columns * pitch, pile_y + i // columns * (_MINI_H + 2)
        yield _card(card, *at, "captured", _MINI)


def _trick(scene: _Scene) -> Iterator[str]:
    """The running trick in the middle, with a slot for each seat that has still to play."""
    yield f'<ellipse cx="{_X}" cy="{_Y}" rx="165" ry="150" fill="#ffffff" fill-opacity="0.05"/>'
    if scene.over:
        yield _write(_X, _Y - 14, "Deal over", 26, _CREAM, f"{_MIDDLE} {_BOLD}")
        if scene.margin:
            yield _write(_X, _Y + 12, scene.margin[0], 15, _SOFT, _MIDDLE)
            yield _write(_X, _Y + 44, _signed(scene.margin[1]), 30, _GOLD, f"{_MIDDLE} {_BOLD}")
        return
    for seat, (dx, dy) in zip(scene.seats, ((0, 55), (-66, 0), (0, -55), (66, 0)), strict=True):
        x, y = _X + dx - _CARD_W / 2, _Y + dy - _CARD_H / 2
        if seat.played is not None:
            yield _card(seat.played, x, y, "trick", _UPRIGHT)
            continue
        line = f'stroke="{_GOLD}" stroke-width="2"' if seat.turn else f'stroke="{_SOFT}" stroke-opacity="0.4"'
        yield _rect(x, y, _CARD_W, _CARD_H, 6, "none", f'{line} stroke-dasharray="5 4"')
        if seat.turn:
            yield from _two_lines(_X + dx, _Y + dy, "to play", _GOLD, f"{_MIDDLE} {_BOLD}")
    yield from _two_lines(_X, _Y, scene.lead, _SOFT, _MIDDLE)


def _two_lines(x: float, y: float, words: str, fill: str, more: str) -> Iterator[str]:
    above, below = words.rsplit(" ", 1)
    yield _write(x, y - 3, above, 14, fill, more)
    yield _write(x, y + 12, below, 14, fill, more)


def _header(scene: _Scene) -> Iterator[str]:
    """Trick and ply; the margin, or which rules where there is none, or that the game is illegal."""
    if scene.illegal:
        yield _rect(8, 8, _WIDTH - 16, 36, 14, _ALARM)
        yield _write(_WIDTH - 24, 32, scene.status, 17, _CREAM, f"{_END} {_BOLD}")
    elif scene.margin:
        points = _signed(scene.margin[1])
        yield _write(_WIDTH - 34 - 11 * len(points), 32, scene.margin[0], 15, _SOFT, _END)
        yield _write(_WIDTH - 24, 32, points, 17, _GOLD, f"{_END} {_BOLD}")
    else:
        yield _write(_WIDTH - 24, 32, scene.rules, 15, _SOFT, _END)
    yield _write(24, 32, scene.progress.capitalize(), 17, _CREAM, _BOLD)


def _footer(scene: _Scene) -> Iterator[str]:
    """Rows of 28 units below the table: the last trick, and in a View the unseen cards."""
    if scene.last:
        trick, who = scene.last
        drawn = "".join(_card(card, 104 + 34 * i, 2, "last", _MINI) for i, card in enumerate(trick))
        yield _write(24, 18, "last trick", 15, _SOFT) + drawn + _write(250, 18, who, 15, _SOFT)
    if scene.unseen is not None:
        held = []
        for suit, row in enumerate(_suit_rows(scene.unseen)):
            x = 112 + 260 * (suit % 2)
            held.append(_pip(suit, x, 13, 6.5, _INK_ON_FELT[suit]) + _write(x + 14, 18, row[2:]))
        yield _write(24, 18, "unseen", 15, _SOFT) + held[0] + held[1]
        yield held[2] + held[3]
