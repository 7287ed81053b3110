"""What one seat may know: its own hand and the public history, with seats counted from itself.

Players that compete are given Views, never States, so that they cannot see hidden cards.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, game, rules
from gongzhu_jax.rules import PAPER, Rules


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class View:
    """One deal as one seat sees it. Seats inside are counted from the viewer: 0 me, 1 next, 2 partner, 3 last.

    Sets of cards are rank masks by suit (see :mod:`gongzhu_jax.cards`).

    Attributes:
      seat: ``int8[]``, the viewer's seat at the table (the only absolute seat; for labels, not for play).
      hand: ``uint16[4]`` (suit), the viewer's own cards.
      unseen: ``uint16[4]`` (suit), the cards in the other three hands.
      taken: ``uint16[4, 4]`` (seat, suit), the cards of completed tricks by the seat that won them.
      plays: ``int8[52]``, the card played at each ply, −1 where none is yet.
      leaders: ``int8[14]``, who led each trick; −1 not known yet.
      void: ``bool[4, 4]`` (seat, suit), shown by not following.
      ply: ``int8[]``, cards played so far.
      rules: static.
    """

    seat: jax.Array
    hand: jax.Array
    unseen: jax.Array
    taken: jax.Array
    plays: jax.Array
    leaders: jax.Array
    void: jax.Array
    ply: jax.Array
    rules: Rules = dataclasses.field(default=PAPER, metadata={"static": True})

    def _repr_html_(self) -> str:
        from gongzhu_jax import render  # display only: render imports this module

        return render.html(self)


def view(state: game.State, seat: Any) -> View:
    """What ``seat`` (0..3, integer ``[]``) may know of a State.

    Raises:
      ValueError: no such seat (outside of a trace).
    """
    if game.is_concrete(seat) and (np.shape(seat) != () or int(seat) not in range(4)):
        raise ValueError(f"seat {seat} is not a seat: seats are 0..3")
    return _view(state, jnp.asarray(seat, jnp.int8))


@game.inline_jit
def _view(state: game.State, seat: jax.Array) -> View:
    hands = _from_seat(state.hands, seat)
    return View(
        seat=seat,
        hand=hands[0],
        unseen=hands[1] | hands[2] | hands[3],
        taken=_from_seat(state.taken, seat),
        plays=state.plays,
        leaders=jnp.where(state.leaders >= 0, (state.leaders - seat) % 4, jnp.int8(-1)),
        void=_void_table(state.void, seat),
        ply=state.ply,
        rules=state.rules,
    )


def _from_seat(by_seat: jax.Array, seat: jax.Array) -> jax.Array:
    """``[4, …]`` with the seats counted from ``seat``: two conditional rolls, cheaper than a gather."""
    by_seat = jnp.where(seat & 1, jnp.roll(by_seat, -1, axis=0), by_seat)
    return jnp.where(seat & 2, jnp.roll(by_seat, -2, axis=0), by_seat)


def _void_table(bits: jax.Array, seat: jax.Array) -> jax.Array:
    """``State.void`` as ``bool[4, 4]`` (seat, suit) with the seats counted from ``seat``."""
    cell = (jnp.arange(16, dtype=jnp.int8) + 4 * seat) & 15
    return ((bits >> cell.astype(jnp.uint16)) & 1).astype(jnp.bool_).reshape(4, 4)


def players(view: View) -> jax.Array:
    """Who played at each ply, counted from the viewer: ``int8[52]``, −1 where nothing is played yet."""
    seats = (view.leaders[:13, None] + jnp.arange(4, dtype=jnp.int8)).reshape(52) % 4
    return jnp.where(view.plays >= 0, seats, jnp.int8(-1))


def hand_sizes(view: View) -> jax.Array:
    """Cards left in each hand, counted from the viewer: ``int32[4]``."""
    before = (jnp.arange(4, dtype=jnp.int8) - game.leader(view)) % 4 < view.ply % 4
    return 13 - view.ply.astype(jnp.int32) // 4 - before.astype(jnp.int32)


def rewind(view: View, hidden: jax.Array, ply: jax.Array) -> View:
    """What the player who moved at an earlier ply knew then, if the hidden hands are these: belief about a hand.

    Args:
      view: a View now.
      hidden: ``uint16[3, 4]``, a world: the hands of seats 1..3 now, counted from the viewer.
      ply: integer ``[]``, less than ``view.ply``.

    Returns:
      The View of that player, on its turn.
    """
    number = jnp.arange(game.NUM_PLIES, dtype=jnp.int8)
    ply = jnp.asarray(ply).astype(jnp.int8)
    who, trick = players(view), ply >> 2
    seat = jnp.sum(jnp.where(number == ply, who, 0), dtype=jnp.int8)
    sets = cards.mask_of(view.plays)  # uint16[52, 4]

    def union(which: jax.Array) -> jax.Array:
        """The cards of some plies ``bool[52]``; cards are played once, so a sum is a union."""
        return jnp.sum(jnp.where(which[:, None], sets, 0), axis=0, dtype=jnp.uint16)

    now = jnp.concatenate([view.hand[None], hidden])
    mine = jnp.arange(4, dtype=jnp.int8) == seat
    hand = jnp.sum(jnp.where(mine[:, None], now, 0), axis=0, dtype=jnp.uint16)
    hand |= union((who == seat) & (number >= ply))
    unseen = (jnp.uint16(cards.FULL_SUIT) & ~union(number < ply)) & ~hand

    from_seat = (seat + jnp.arange(4, dtype=jnp.int8)) % 4
    winner = jnp.repeat(view.leaders[1:], 4, total_repeat_length=game.NUM_PLIES)
    taken = jax.vmap(lambda s: union((winner == s) & (number < 4 * trick)))(from_seat)
    suits = cards.suit(view.plays)
    led = jnp.repeat(suits[::4], 4, total_repeat_length=game.NUM_PLIES)
    failed = (number < ply) & (suits != led)
    suit_of = led == jnp.arange(4, dtype=led.dtype)[:, None]
    void = jax.vmap(lambda s: jnp.any(suit_of & failed & (who == s), axis=1))(from_seat)
    known = jnp.arange(14, dtype=jnp.int8) <= trick
    return View(
        seat=(view.seat + seat) % 4,
        hand=hand,
        unseen=unseen,
        taken=taken,
        plays=jnp.where(number < ply, view.plays, jnp.int8(-1)),
        leaders=jnp.where(known, (view.leaders - seat) % 4, jnp.int8(-1)),
        void=void,
        ply=ply,
        rules=view.rules,
    )


def view_from(
    seat: int,
    hand: str | Sequence[str | int],
    tricks: Sequence[Sequence[Any]] = (),
    table: Sequence[Any] | None = None,
    rules: Rules = PAPER,
) -> View:
    """A View from what a person at a table can type in.

    Args:
      seat: the viewer, 0..3.
      hand: the cards that the viewer still holds, names or ids.
      tricks: the completed tricks, each ``[leader, card, card, card, card]`` in playing order.
      table: the running trick, ``[leader, card…]``, or ``[leader]`` when nobody has played. Default: the
        winner of the last trick leads; before the first trick the viewer does.
      rules: static.

    Raises:
      ValueError: a contradiction: a card that is there twice, a hand of the wrong size, a leader who did not
        win the trick before, a suit played after it was shown void, cards that no hidden hands can hold. The
        text names the trick, seat and card.
    """
    if seat not in range(4):
        raise ValueError(f"seat {seat} is not a seat: seats are 0..3")
    held = cards.to_set(hand)
    if table is None:
        table = [seat] if not tricks else [_check_tricks([*tricks, []])[-1][0]]
    rounds = _check_tricks([*tricks, table])
    plays, void = _check_plays(seat, held, rounds)
    _check_size(seat, held, rounds)

    taken = np.zeros((4, 52), bool)
    for (_, trick), (winner, _) in itertools.pairwise(rounds):
        taken[winner, trick] = True
    gone = held.copy()
    gone[plays] = True
    leaders = [(first - seat) % 4 for first, _ in rounds]
    from_me = np.roll(np.arange(4), -seat)
    typed = View(
        seat=jnp.int8(seat),
        hand=cards.to_masks(jnp.array(held)),
        unseen=cards.to_masks(jnp.array(~gone)),
        taken=cards.to_masks(jnp.array(taken[from_me])),
        plays=jnp.array(plays + [-1] * (52 - len(plays)), jnp.int8),
        leaders=jnp.array(leaders + [-1] * (14 - len(leaders)), jnp.int8),
        void=jnp.array(void[from_me]),
        ply=jnp.int8(len(plays)),
        rules=rules,
    )
    problem = why_impossible(typed)
    if problem:
        raise ValueError(problem)
    return typed


Round = tuple[int, list[int]]  # (leader, cards in playing order)


def _check_tricks(rounds: Sequence[Sequence[Any]]) -> list[Round]:
    """Parsed tricks, the last one unfinished; every leader must have won the trick before."""
    parsed: list[Round] = []
    if len(rounds) > 14:
        raise ValueError(f"{len(rounds) - 1} tricks: a deal has 13")
    for number, entry in enumerate(rounds):
        where = f"trick {number}" if number < len(rounds) - 1 else "table"
        winner = _winner(*parsed[-1]) if parsed else None
        if not len(entry) and winner is not None:
            entry = [winner]
        if not len(entry) or isinstance(entry, str) or entry[0] not in range(4):
            raise ValueError(f"{where}: write [leader, card, …] with a leader 0..3, not {list(entry)}")
        try:
            trick = cards.parse(entry[1:])
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if where != "table" and len(trick) != 4:
            raise ValueError(f"{where}: a completed trick has 4 cards, not {len(trick)}")
        if len(trick) > 3 and where == "table":
            raise ValueError(f"table: at most 3 cards before the trick is complete, not {len(trick)}")
        first = int(entry[0])
        if winner is not None and first != winner:
            raise ValueError(f"{where}: led by seat {first}, but seat {winner} won the trick before")
        parsed.append((first, trick))
    return parsed


def _winner(first: int, trick: list[int]) -> int:
    return (first + int(rules.trick_winner(jnp.array(trick, jnp.int8)))) % 4


def _check_plays(seat: int, held: np.ndarray, rounds: list[Round]) -> tuple[list[int], np.ndarray]:
    """All cards in playing order and the voids shown, ``bool[4, 4]`` by absolute seat."""
    plays: list[int] = []
    void = np.zeros((4, 4), bool)
    for number, (first, trick) in enumerate(rounds):
        for position, card in enumerate(trick):
            player, where = (first + position) % 4, f"trick {number}, seat {(first + position) % 4}"
            if card in plays:
                raise ValueError(f"{where}: {cards.name(card)} was already played at ply {plays.index(card)}")
            if held[card]:
                raise ValueError(f"{where}: {cards.name(card)} is played, but seat {seat} still holds it")
            if void[player, card // 13]:
                raise ValueError(f"{where}: {cards.name(card)} was played after not following {_suit(card)}")
            if card // 13 != trick[0] // 13:
                void[player, trick[0] // 13] = True
                kept = [c for c in np.flatnonzero(held) if c // 13 == trick[0] // 13]
                if player == seat and kept:
                    raise ValueError(
                        f"{where}: did not follow {_suit(trick[0])} and still holds {cards.names(kept)}"
                    )
            plays.append(card)
    return plays, void


def _suit(card: int) -> str:
    return cards.SUITS[card // 13]


def _check_size(seat: int, held: np.ndarray, rounds: list[Round]) -> None:
    first, trick = rounds[-1]
    size = 14 - len(rounds) - ((seat - first) % 4 < len(trick))
    if held.sum() != size:
        raise ValueError(
            f"seat {seat} must hold {size} cards after these tricks, not {held.sum()}:"
            f" {cards.names(np.flatnonzero(held))}"
        )


def why_impossible(view: View) -> str | None:
    """Why no hidden hands fit a View, naming the seat, its need and the cards it can hold; None if some fit.

    By Hall's theorem hands exist exactly if every group of hidden seats finds enough cards.

    Args:
      view: one View outside of a trace.
    """
    unseen = np.flatnonzero(cards.to_bools(view.unseen))
    sizes, void = np.asarray(hand_sizes(view)), np.asarray(view.void)
    groups = [group for size in (1, 2, 3) for group in itertools.combinations((1, 2, 3), size)]
    for group in groups:
        possible = [card for card in unseen if any(not void[seat, card // 13] for seat in group)]
        need = sum(int(sizes[seat]) for seat in group)
        if need > len(possible):
            seats = [(int(view.seat) + seat) % 4 for seat in group]
            who = (
                f"seat {seats[0]} needs"
                if len(seats) == 1
                else f"seats {', '.join(map(str, seats))} together need"
            )
            return f"{who} {need} cards and only {cards.names(possible) or 'none'} are possible"
    if sizes[1:].sum() != len(unseen):
        return f"the other seats hold {sizes[1:].sum()} cards, but {len(unseen)} are unseen"
    return None
