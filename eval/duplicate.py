"""Duplicate play: every deal twice, so that both teams play the same cards (ScrofaZero, section 5).

At the first table player A sits North–South (seats 0 and 2), at the second East–West, with the same hands and
leader. That is the paper's way of moving hands and leader one seat, told from the cards' side: seats are
relative in a View, so nobody can tell the difference, and a (deal, seat, ply) keeps its luck at both tables.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

import gongzhu_jax as gz
from gongzhu_jax import cards, game
from gongzhu_jax import deals as deal_files
from gongzhu_jax.game import NUM_PLIES, State
from gongzhu_jax.players import Player
from gongzhu_jax.rules import PAPER, Rules

T = TypeVar("T")


def default_batch() -> int:
    """Pairs in one compiled call: few enough for a processor's cache and threads, many for an accelerator."""
    return 256 if jax.default_backend() == "cpu" else 8192


@dataclasses.dataclass(frozen=True)
class Deals:
    """Some deals.

    ids: ``int32[N]``, numbers from which random keys are derived.
    hands: ``bool[N, 4, 52]``.
    leaders: ``int8[N]``, who leads the first trick.
    """

    ids: np.ndarray
    hands: np.ndarray
    leaders: np.ndarray

    def __len__(self) -> int:
        return self.ids.shape[0]

    def slice(self, start: int, stop: int) -> Deals:
        """Deals ``start`` to ``stop``."""
        return Deals(self.ids[start:stop], self.hands[start:stop], self.leaders[start:stop])


def random_deals(seed: int, count: int, rules: Rules = PAPER, first: int = 0) -> Deals:
    """Deals ``first`` … ``first + count − 1`` of a seed: each is the same however many are asked for."""
    ids = np.arange(first, first + count, dtype=np.int32)
    states = _deal_batch(jax.random.key(seed), ids, rules)
    hands = np.asarray(jax.vmap(cards.to_bools)(states.hands))
    return Deals(ids, hands, np.asarray(states.leaders[:, 0]))


@functools.partial(jax.jit, static_argnames="rules")
def _deal_batch(key: jax.Array, ids: jax.Array, rules: Rules) -> State:
    return jax.vmap(lambda i: gz.deal(jax.random.fold_in(key, i), rules))(ids)


def file_deals(path: str | Path, count: int | None = None) -> Deals:
    """The deals of a file, in its order; where it names no leader, deal number i is led by seat i mod 4.

    Raises:
      ValueError: the file cannot be read, or has fewer deals than asked for.
    """
    hands, leaders = [], []
    for i, deal in enumerate(deal_files.read_deals(path)):
        if count is not None and i == count:
            break
        hands.append(deal.hands)
        leaders.append(i % 4 if deal.leader is None else deal.leader)
    if not hands or (count is not None and len(hands) < count):
        raise ValueError(f"{path}: {len(hands)} deals, fewer than the {count or 1} asked for")
    return Deals(np.arange(len(hands), dtype=np.int32), np.stack(hands), np.array(leaders, np.int8))


class Tables(NamedTuple):
    """Both tables of some deals.

    margins: ``int32[N, 2]``, points of A's team minus points of B's at the first and second table.
    ends: the State at the end of each, ``[N, 2]``.
    cards: ``int8[N, 2, 52]``, the cards that players returned.
    """

    margins: np.ndarray
    ends: State
    cards: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class OpenHanded:
    """Who sees all hands: no player, but what players can be measured against.

    choose: ``(keys[B], states[B]) -> int8[B]`` cards of the movers.
    """

    name: str
    choose: Callable[[jax.Array, State], jax.Array]
    chunk: int = 1024
    models: tuple[str, ...] = ()


Contestant = Player | OpenHanded
"""Whoever can play a match."""


class IllegalCardError(ValueError):
    """A player returned a card that may not be played."""


def play_pairs(a: Contestant, b: Contestant, deals: Deals, seed: int, rules: Rules = PAPER) -> Tables:
    """Play deals at both tables.

    Args:
      seed: of the players' luck, which depends on (seed, deal, seat, ply) only, whoever plays.

    Raises:
      IllegalCardError: naming player, deal, table, ply and card.
    """
    ends, played, margins = _tables(luck(seed), deals.ids, deals.hands, deals.leaders, a, b, rules)
    ends, played, margins = jax.device_get((ends, played, margins))
    if ends.illegal.any():
        _raise_illegal(a, b, deals, ends, played)
    return Tables(margins, ends, played)


def _raise_illegal(a: Contestant, b: Contestant, deals: Deals, ends: State, played: np.ndarray) -> None:
    deal, table = (int(i[0]) for i in np.nonzero(ends.illegal))
    state = jax.tree.map(lambda x: jnp.asarray(x[deal, table]), ends)
    team = int(game.mover_team(state))
    name = (a if team == table else b).name
    problem = game.why_illegal(state, int(played[deal, table, int(state.ply)]))
    raise IllegalCardError(f"player {name!r}, deal {deals.ids[deal]}, table {table + 1}: {problem}")


def luck(seed: int) -> jax.Array:
    """The key of the players' luck, apart from the keys that deal."""
    return jax.random.fold_in(jax.random.key(seed), 0x6C75636B)


def tables(
    key: jax.Array,
    ids: jax.Array,
    hands: jax.Array,
    leaders: jax.Array,
    a: Contestant,
    b: Contestant,
    rules: Rules = PAPER,
) -> tuple[State, jax.Array, jax.Array]:
    """What :func:`play_pairs` traces: States at the end, cards and A's margins, ``[N, 2]`` each.

    For whoever compiles play together with something else, such as players made from parameters inside jit.
    """
    num = ids.shape[0]
    start = jax.vmap(lambda h, leader: game.from_hands(h, leader, rules))(hands, leaders)
    states = jax.tree.map(lambda x: jnp.concatenate([x, x]), start)
    a_team = jnp.repeat(jnp.arange(2, dtype=jnp.int8), num)
    deal_keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.concatenate([ids, ids]))

    def ply(states: State, _: None) -> tuple[State, jax.Array]:
        seats = jax.vmap(game.mover)(states)
        keys = jax.vmap(jax.random.fold_in)(deal_keys, 4 * states.ply.astype(jnp.int32) + seats)
        plays_a = jax.vmap(game.mover_team)(states) == a_team
        played = _choose(a, b, plays_a, keys, states, seats)
        return jax.vmap(game.step)(states, played), played

    ends, played = jax.lax.scan(ply, states, None, length=NUM_PLIES)
    margins = jax.vmap(game.margin)(ends) * jnp.where(a_team == 0, 1, -1)
    by_deal = functools.partial(jax.tree.map, lambda x: jnp.swapaxes(x.reshape(2, num, *x.shape[1:]), 0, 1))
    return by_deal(ends), by_deal(played.T), by_deal(margins)


_tables = jax.jit(tables, static_argnames=("a", "b", "rules"))


def _choose(
    a: Contestant,
    b: Contestant,
    plays_a: jax.Array,
    keys: jax.Array,
    states: State,
    seats: jax.Array,
) -> jax.Array:
    """Every mover's card, ``int8[G]``; each player is run on the games where it moves, in its chunks.

    A chunk at the end may run over into the other player's games; those cards are then overwritten.
    """

    def ask(player: Contestant, keys: jax.Array, states: State, seats: jax.Array) -> jax.Array:
        if isinstance(player, OpenHanded):
            return player.choose(keys, states)
        cards: jax.Array = player(keys, jax.vmap(gz.view)(states, seats))
        return cards

    if a is b:
        return ask(a, keys, states, seats)
    num = seats.shape[0]
    order = jnp.argsort(~plays_a, stable=True)  # A's games first
    order = jnp.concatenate([order, jnp.full(num, num)])  # past the end: dropped when cards are set
    num_a = jnp.sum(plays_a, dtype=jnp.int32)

    def run(player: Contestant, first: jax.Array, count: jax.Array, played: jax.Array) -> jax.Array:
        chunk = min(player.chunk, num) if jax.default_backend() == "cpu" else num

        def one_chunk(i: jax.Array, played: jax.Array) -> jax.Array:
            rows = jax.lax.dynamic_slice(order, (first + i * chunk,), (chunk,))
            mine = jax.tree.map(lambda x: x[jnp.minimum(rows, num - 1)], (keys, states, seats))
            return played.at[rows].set(ask(player, *mine), mode="drop")

        return jax.lax.fori_loop(0, (count + chunk - 1) // chunk, one_chunk, played)

    played = run(a, jnp.int32(0), num_a, jnp.full(num, -1, jnp.int8))
    return run(b, num_a, num - num_a, played)


class Summary(NamedTuple):
    """A match in numbers, from A's side; margins in points per deal, averaged over the two tables of a pair."""

    pairs: int
    margin: float
    stderr: float
    won: int
    drawn: int
    lost: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the margin."""
        return self.margin - 1.96 * self.stderr, self.margin + 1.96 * self.stderr


def summarize(margins: np.ndarray) -> Summary:
    """The summary of ``int32[N, 2]`` margins; the standard error is over pairs (NaN for a single one)."""
    pairs = margins.mean(axis=1)
    n = len(pairs)
    stderr = float(pairs.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    mean = float(pairs.mean()) if n else math.nan
    return Summary(n, mean, stderr, int((pairs > 0).sum()), int((pairs == 0).sum()), int((pairs < 0).sum()))


def in_threads(play: Callable[[Deals], T], parts: Iterable[Deals]) -> Iterator[T]:
    """``map`` in order, on a CPU with as many threads as cores: much of a player runs on one core only.

    The first part runs alone, so that what it compiles serves the others.
    """
    parts = iter(parts)
    yield from map(play, itertools.islice(parts, 1))
    workers = (os.cpu_count() or 1) if jax.devices()[0].platform == "cpu" else 1
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting = collections.deque(pool.submit(play, part) for part in itertools.islice(parts, workers))
        try:
            while waiting:
                done = waiting.popleft().result()
                waiting.extend(pool.submit(play, part) for part in itertools.islice(parts, 1))
                yield done
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def batches(deals: Deals, size: int) -> Iterator[Deals]:
    """Deals in batches of ``size``; the last may be smaller."""
    for start in range(0, len(deals), size):
        yield deals.slice(start, start + size)
