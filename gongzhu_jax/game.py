"""The game: a State of one deal with all four hands, and the functions that make and advance it.

Every function here is pure, works on one game, and can be traced: batch with ``jax.vmap``. A deal is
always 52 plies, so a whole deal is one ``lax.scan`` of :func:`step`. Called outside of a trace the same
functions check their arguments and raise ``ValueError``; inside a trace bad input sets
``State.illegal`` instead, and that game stands still.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import cards, rules
from gongzhu_jax.rules import PAPER, Rules

if TYPE_CHECKING:
    from gongzhu_jax.view import View

NUM_PLIES = 52

inline_jit = functools.partial(jax.jit, inline=True)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """One deal in play, all hands open. 134 bytes; no random key, no weak types.

    Sets of cards are rank masks by suit (see :mod:`gongzhu_jax.cards`).

    Attributes:
      hands: ``uint16[4, 4]`` (seat, suit), the cards still held.
      taken: ``uint16[4, 4]`` (seat, suit), the cards of completed tricks by the seat that won them.
      plays: ``int8[52]``, the card played at each ply, −1 where none is yet.
      leaders: ``int8[14]``, who leads each trick; entry 13 is the winner of the last one; −1 not known yet.
      void: ``uint16[]``, bit ``4 · seat + suit`` is set once that seat did not follow that suit.
      ply: ``int8[]``, cards played so far, 0..52.
      illegal: ``bool[]``, an illegal card was played (or illegal hands dealt); nothing changes after that.
      rules: static.
    """

    hands: jax.Array
    taken: jax.Array
    plays: jax.Array
    leaders: jax.Array
    void: jax.Array
    ply: jax.Array
    illegal: jax.Array
    rules: Rules = dataclasses.field(default=PAPER, metadata={"static": True})

    def _repr_html_(self) -> str:
        from gongzhu_jax import render  # display only: render imports this module

        return render.html(self)


def deal(key: jax.Array, rules: Rules = PAPER) -> State:
    """A random deal: every deal equally likely, the leader by ``rules.first_leader``.

    Args:
      key: a JAX random key.
      rules: static.
    """
    return _deal(key, rules)


@functools.partial(inline_jit, static_argnames="rules")
def _deal(key: jax.Array, rules: Rules) -> State:
    key_cards, key_leader = jax.random.split(key)
    hands = cards.to_masks(random_hands(key_cards))
    if rules.first_lead_card is not None:
        leader = _holder(hands, rules.first_lead_card)
    elif rules.first_leader == "random":
        leader = cards.below(jax.random.bits(key_leader, (), jnp.uint32), jnp.int32(4))
    else:
        leader = jnp.int8(rules.first_leader)
    return _start(hands, leader, rules)


def random_hands(key: jax.Array) -> jax.Array:
    """Four uniformly random hands: ``bool[4, 52]``.

    Card by card, a seat gets it with probability (room left in its hand) / (cards left): every deal is
    equally likely, with no sorting, which is slow on CPUs.
    """

    Rooms = tuple[Any, ...]

    def give(rooms: Rooms, draw: tuple[jax.Array, jax.Array]) -> tuple[Rooms, jax.Array]:
        word, cards_left = draw
        number = cards.below(word, cards_left)
        seat, taken = jnp.int8(0), rooms[0]
        for room in rooms[1:]:
            seat += (number >= taken).astype(jnp.int8)
            taken += room
        rooms = tuple(room - (seat == s).astype(jnp.int32) for s, room in enumerate(rooms))
        return rooms, seat

    draws = jax.random.bits(key, (52,), jnp.uint32), jnp.arange(52, 0, -1, dtype=jnp.int32)
    start: Rooms = (jnp.int32(13),) * 4
    _, owner = jax.lax.scan(give, start, draws)
    return owner == jnp.arange(4, dtype=jnp.int8)[:, None]


def from_hands(hands: Any, leader: Any, rules: Rules = PAPER) -> State:
    """The start of a deal with given hands.

    Args:
      hands: ``bool[4, 52]``, seat by card.
      leader: the seat 0..3 that leads the first trick; integer ``[]``.
      rules: static.

    Raises:
      ValueError: not 13 cards a seat, a card in two hands or in none, or no such leader. Inside a trace
        the State's ``illegal`` flag is set instead.
    """
    hands = hands if isinstance(hands, jax.Array) else np.asarray(hands)
    if hands.shape != (4, 52) or hands.dtype != np.bool_:
        raise ValueError(f"hands must be bool[4, 52] (seat by card), not {hands.dtype}{list(hands.shape)}")
    if is_concrete(hands, leader):
        check_hands(np.asarray(hands), leader, rules)
    return _from_hands(hands, jnp.asarray(leader, jnp.int8), rules)


@functools.partial(inline_jit, static_argnames="rules")
def _from_hands(hands: jax.Array, leader: jax.Array, rules: Rules) -> State:
    fair = jnp.all(jnp.sum(hands, axis=0) == 1) & jnp.all(jnp.sum(hands, axis=1) == 13)
    fair &= (leader >= 0) & (leader < 4)
    state = _start(cards.to_masks(hands), leader, rules)
    if rules.first_lead_card is not None:
        fair &= leader == _holder(state.hands, rules.first_lead_card)
    return dataclasses.replace(state, illegal=~fair)


def check_hands(hands: np.ndarray, leader: Any, rules: Rules) -> None:
    """Raise what :func:`from_hands` raises, if hands ``bool[4, 52]`` or leader cannot start a deal."""
    held = hands.sum(axis=0)
    if held.max() > 1:
        twice = np.flatnonzero(held > 1)
        seats = "; ".join(f"{cards.name(c)} by seats {np.flatnonzero(hands[:, c]).tolist()}" for c in twice)
        raise ValueError(f"a card may be held once: {seats}")
    for seat, size in enumerate(hands.sum(axis=1)):
        if size != 13:
            raise ValueError(f"seat {seat} holds {size} cards: every seat must hold 13")
    if np.shape(leader) != () or int(leader) not in range(4):
        raise ValueError(f"leader {leader} is not a seat: seats are 0..3")
    first = rules.first_lead_card
    if first is not None and not hands[int(leader), first]:
        holder = int(np.flatnonzero(hands[:, first])[0])
        raise ValueError(f"leader {leader}: the holder of {cards.name(first)}, seat {holder}, leads first")


def _holder(hands: jax.Array, card: int) -> jax.Array:
    suit, rank = divmod(card, 13)
    return jnp.argmax((hands[:, suit] >> rank) & 1).astype(jnp.int8)


def _start(hands: jax.Array, leader: jax.Array, rules: Rules) -> State:
    return State(
        hands=hands,
        taken=jnp.zeros((4, 4), jnp.uint16),
        plays=jnp.full(52, -1, jnp.int8),
        leaders=jnp.where(jnp.arange(14) == 0, leader.astype(jnp.int8), jnp.int8(-1)),
        void=jnp.zeros((), jnp.uint16),
        ply=jnp.zeros((), jnp.int8),
        illegal=jnp.zeros((), jnp.bool_),
        rules=rules,
    )


def table(game: State | View) -> jax.Array:
    """The cards on the table in playing order: ``int8[4]``, −1 where none is played yet.

    After the last card of a trick the table is empty.
    """
    now = jnp.arange(13, dtype=jnp.int8)[:, None] == game.ply >> 2
    # −1 is the largest uint8, so that a masked sum of one row keeps it without a special case.
    row = jnp.sum(jnp.where(now, game.plays.reshape(13, 4).astype(jnp.uint8), 0), axis=0, dtype=jnp.uint8)
    return jnp.where(game.ply < NUM_PLIES, row.astype(jnp.int8), jnp.int8(-1))


def leader(game: State | View) -> jax.Array:
    """Who leads the running trick: ``int8[]``; at the end of the deal the winner of the last one.

    Seats of a View are counted from the viewer.
    """
    now = jnp.arange(14, dtype=jnp.int8) == game.ply >> 2
    return jnp.sum(jnp.where(now, game.leaders, 0), dtype=jnp.int8)


def mover(game: State | View) -> jax.Array:
    """Whose turn it is: ``int8[]``; at the end of the deal the winner of the last trick."""
    return (leader(game) + (game.ply & 3)) & 3


def mover_team(game: State | View) -> jax.Array:
    """The team of the player to move: ``int8[]``."""
    return rules.team_of(mover(game), game.rules)


def legal_cards(game: State | View) -> jax.Array:
    """The cards that the player to move may play: ``bool[52]``.

    None at the end of the deal, in a game flagged ``illegal``, and for a View on another seat's turn.
    """
    return _legal_cards(game)


@inline_jit
def _legal_cards(game: State | View) -> jax.Array:
    return cards.to_bools(legal_masks(game))


def legal_masks(game: State | View) -> jax.Array:
    """:func:`legal_cards` as ``uint16[4]``."""
    if isinstance(game, State):
        ours = jnp.arange(4, dtype=jnp.int8) == mover(game)
        hand = jnp.sum(jnp.where(ours[:, None], game.hands, 0), axis=0, dtype=jnp.uint16)
        may_play = ~game.illegal
    else:
        hand, may_play = game.hand, mover(game) == 0
    legal = rules.legal_masks(hand, cards.suit(table(game)[0]))
    first = game.rules.first_lead_card
    if game.rules.first_card_forced and first is not None:
        forced = legal & cards.mask_of(jnp.int8(first))
        legal = jnp.where(game.ply == 0, forced, legal)
    return jnp.where(may_play, legal, 0).astype(jnp.uint16)


def step(state: State, card: Any) -> State:
    """Play a card.

    Args:
      state: one game (``vmap`` for a batch).
      card: a card id; integer ``[]``. Outside of a trace a name such as ``"SQ"`` is fine too.

    Raises:
      ValueError: the card may not be played; the text names the seat, the rule and the legal cards. Inside
        a trace the State's ``illegal`` flag is set instead, and nothing else changes, then or later.
    """
    if state.ply.ndim:
        raise ValueError(
            f"step takes one game, not a batch of shape {state.ply.shape}: use jax.vmap(gz.step)"
        )
    if isinstance(card, str):
        ids = cards.parse(card)
        if len(ids) != 1:
            raise ValueError(f"step plays one card, not {card!r}")
        card = ids[0]
    if is_concrete(state, card):
        problem = why_illegal(state, int(card))
        if problem:
            raise ValueError(problem)
    return _step(state, jnp.asarray(card, jnp.int32))


@inline_jit
def _step(state: State, card: jax.Array) -> State:
    trick_number, position = state.ply >> 2, state.ply & 3
    first = leader(state)
    seat = (first + position) & 3

    suit, rank = cards.suit(card), cards.rank(card)
    in_suit = jnp.arange(4, dtype=jnp.int8) == suit
    legal = jnp.any(in_suit & (legal_masks(state) & cards.bit(rank) != 0))

    before = table(state)
    led = cards.suit(before[0])
    trick = [jnp.where((position == p) & legal, card.astype(jnp.int8), before[p]) for p in range(4)]
    winner = (first + rules.trick_winner(jnp.stack(trick))) & 3
    done = legal & (position == 3)
    discard = legal & (led >= 0) & (suit != led)
    shown = jnp.where(discard, jnp.uint16(1) << (4 * seat + led).astype(jnp.uint16), jnp.uint16(0))

    # Selects over rows of 4 and of 2 become vector code on CPUs, several times faster than over rows of 16 or 14.
    cell = jnp.arange(16, dtype=jnp.int8).reshape(4, 4)
    hands = jnp.where((cell == 4 * seat + suit) & legal, state.hands & ~cards.bit(rank), state.hands)
    # What is in no hand and in no pile lies on the table: no need to look at the trick card by card.
    on_table = ~functools.reduce(jnp.bitwise_or, [*hands, *state.taken]) & jnp.uint16(cards.FULL_SUIT)
    wins = (jnp.arange(4, dtype=jnp.int8) == winner) & done
    leads = jnp.arange(14, dtype=jnp.int8).reshape(7, 2) == trick_number + 1
    return State(
        hands=hands,
        taken=state.taken | on_table * wins[:, None].astype(jnp.uint16),
        plays=jnp.where(
            legal & (jnp.arange(NUM_PLIES, dtype=jnp.int8) == state.ply), card.astype(jnp.int8), state.plays
        ),
        leaders=jnp.where(leads & done, winner, state.leaders.reshape(7, 2)).reshape(14),
        void=state.void | shown,
        ply=state.ply + legal.astype(jnp.int8),
        illegal=state.illegal | ~legal,
        rules=state.rules,
    )


@jax.jit
def play(state: State, plays: jax.Array) -> State:
    """Play several cards one after the other.

    Args:
      plays: integer ``[N]``; entries of −1 are skipped.

    Returns:
      The State after them. If a card was illegal, the ``illegal`` State in which it was to be played.
    """

    def body(state: State, card: jax.Array) -> tuple[State, None]:
        after = _step(state, card)
        return jax.tree.map(lambda new, old: jnp.where(card == -1, old, new), after, state), None

    return jax.lax.scan(body, state, plays.astype(jnp.int32))[0]


def play_random(key: jax.Array, state: State, plies: int = NUM_PLIES) -> tuple[State, State]:
    """Play uniformly random legal cards, so many or to the end of a new deal.

    Returns:
      The last State, and the States before each ply, ``[plies, …]``.
    """

    def ply(state: State, key: jax.Array) -> tuple[State, State]:
        return step(state, cards.random_card(key, legal_masks(state))), state

    return jax.lax.scan(ply, state, jax.random.split(key, plies))


def dealt(state: State) -> State:
    """The same game before its first card: a State at ply 0, from which ``play(dealt(s), s.plays)`` is s again."""
    seat = (jnp.repeat(state.leaders[:13], 4, total_repeat_length=NUM_PLIES) + jnp.arange(NUM_PLIES)) % 4
    mine = seat == jnp.arange(4)[:, None]
    played = jnp.sum(jnp.where(mine[:, :, None], cards.mask_of(state.plays), 0), axis=1, dtype=jnp.uint16)
    return _start(state.hands | played, state.leaders[0], state.rules)


def why_illegal(state: State, card: int) -> str | None:
    """What is wrong with playing ``card`` now, naming seat, rule and legal cards; None if nothing is.

    Args:
      state: one game outside of a trace. A State that an illegal card froze is explained as it stood.
    """
    ply = int(state.ply)
    if ply >= NUM_PLIES:
        return f"ply {ply}: the deal is over after 52 cards"
    seat = int(mover(state))
    where = f"ply {ply}, seat {seat}"
    if not 0 <= card < 52:
        return f"{where}: {card} is not a card id: ids are 0..51"
    hands = np.asarray(cards.to_bools(state.hands))
    legal = np.asarray(_legal_cards(dataclasses.replace(state, illegal=jnp.zeros((), jnp.bool_))))
    allowed = f"legal: {cards.names(np.flatnonzero(legal))}"
    if legal[card]:
        return f"{where}: an illegal card was played before" if bool(state.illegal) else None
    if not hands[seat, card]:
        plays = np.asarray(state.plays).tolist()
        if card in plays:
            return f"{where}: {cards.name(card)} was already played at ply {plays.index(card)}; {allowed}"
        return f"{where}: {cards.name(card)} is not in this hand but in seat {hands[:, card].argmax()}'s; {allowed}"
    if ply == 0:
        return f"{where}: {cards.name(card)} may not lead the first trick; {allowed}"
    led = cards.SUITS[int(cards.suit(table(state)[0]))]
    return f"{where}: {cards.name(card)} does not follow suit {led}; {allowed}"


def captured(game: State | View) -> jax.Array:
    """The cards of the tricks that each seat has won: ``bool[4, 52]``."""
    return cards.to_bools(game.taken)


def scores(game: State | View) -> jax.Array:
    """Points of each seat for what is captured so far: ``int32[4]``. Check ``State.illegal`` before use."""
    return _scores(game)


@inline_jit
def _scores(game: State | View) -> jax.Array:
    return rules.scores(captured(game), game.rules)


def margin(game: State | View) -> jax.Array:
    """Points of team 0 minus points of team 1, captured so far: ``int32[]``.

    In a View team 0 is the viewer's.

    Raises:
      ValueError: the rules are not played by two teams.
    """
    signs = team_signs(game.rules)
    if not isinstance(game, State) and game.rules.teams != (0, 1, 0, 1):
        raise ValueError(
            f"the margin of a View needs partners who sit opposite, not teams {game.rules.teams}"
        )
    return jnp.sum(signs * scores(game), dtype=jnp.int32)


def team_signs(rules: Rules) -> jax.Array:
    """What a seat's points count in the margin, 1 for those of team 0 and −1 for team 1: ``int32[4]``.

    Raises:
      ValueError: the rules are not played by two teams.
    """
    if set(rules.teams) != {0, 1}:
        raise ValueError(
            f"rules {rules.name!r} have teams {rules.teams}: a margin needs two teams, use scores"
        )
    return jnp.where(jnp.array(rules.teams) == 0, 1, -1).astype(jnp.int32)


def is_over(game: State | View) -> jax.Array:
    """Whether all 52 cards are played: ``bool[]``."""
    return game.ply == NUM_PLIES


def state_bytes(state: State) -> int:
    """Bytes of a State's arrays (or of their shapes, from ``jax.eval_shape``)."""
    return sum(x.dtype.itemsize * int(np.prod(x.shape)) for x in jax.tree.leaves(state))


def is_concrete(*values: Any) -> bool:
    """Whether no array in ``values`` is being traced, so that its content can be checked."""
    return not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(values))
