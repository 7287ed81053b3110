"""Views: what a seat may know, and nothing else."""

import dataclasses
import random

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gongzhu_jax as gz
from gongzhu_jax import cards, game
from gongzhu_jax.view import hand_sizes, players, rewind
from tests.conftest import at, hands_of

positions = st.tuples(st.integers(0, 255), st.integers(0, 51), st.integers(0, 3))


@given(positions, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_permuting_hidden_cards_leaves_the_view_unchanged(
    random_games: tuple[gz.State, gz.State], position: tuple[int, int, int], rng: random.Random
) -> None:
    which, ply, seat = position
    state = at(random_games[1], which, ply)
    hands = hands_of(state)
    others = [s for s in range(4) if s != seat]
    hidden = [c for s in others for c in np.flatnonzero(hands[s])]
    rng.shuffle(hidden)
    for s in others:
        size = hands[s].sum()
        hands[s] = np.isin(np.arange(52), hidden[:size])
        hidden = hidden[size:]
    other_world = dataclasses.replace(state, hands=cards.to_masks(jnp.array(hands)))
    chex.assert_trees_all_equal(gz.view(state, seat), gz.view(other_world, seat))


@given(positions)
@settings(max_examples=80, deadline=None)
def test_fields_of_a_view(random_games: tuple[gz.State, gz.State], position: tuple[int, int, int]) -> None:
    which, ply, seat = position
    state = at(random_games[1], which, ply)
    seen = gz.view(state, seat)
    hands = hands_of(state)
    order = [(seat + i) % 4 for i in range(4)]
    np.testing.assert_array_equal(cards.to_bools(seen.hand), hands[seat])
    np.testing.assert_array_equal(cards.to_bools(seen.unseen), hands[order[1:]].any(axis=0))
    np.testing.assert_array_equal(cards.to_bools(seen.taken), np.asarray(game.captured(state))[order])
    np.testing.assert_array_equal(hand_sizes(seen), hands.sum(axis=1)[order])
    assert (int(game.mover(seen)) + seat) % 4 == int(game.mover(state))
    assert int(seen.ply) == ply
    np.testing.assert_array_equal(gz.scores(seen), np.asarray(gz.scores(state))[order])
    sign = 1 if seat % 2 == 0 else -1
    assert int(gz.margin(seen)) == sign * int(gz.margin(state))

    # who played what, and who showed a void, told again from the plays alone
    who_played, void = players(seen), np.zeros((4, 4), bool)
    plays, leaders = np.asarray(state.plays), np.asarray(state.leaders)
    for t in range(52):
        if t >= ply:
            assert int(who_played[t]) == -1
            continue
        who = (leaders[t // 4] + t % 4) % 4
        assert int(who_played[t]) == (who - seat) % 4
        led = plays[t - t % 4] // 13
        if plays[t] // 13 != led:
            void[(who - seat) % 4, led] = True
    np.testing.assert_array_equal(seen.void, void)


def test_legal_cards_of_a_view_are_those_of_the_state_on_its_turn(
    random_games: tuple[gz.State, gz.State],
) -> None:
    before = random_games[1]
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), before)
    legal = jax.vmap(gz.legal_cards)(flat)
    for seat in range(4):
        seen = jax.vmap(gz.legal_cards)(jax.vmap(gz.view, (0, None))(flat, seat))
        turn = np.asarray(jax.vmap(game.mover)(flat)) == seat
        np.testing.assert_array_equal(seen, np.asarray(legal) & turn[:, None])


def test_traced_seats(random_games: tuple[gz.State, gz.State]) -> None:
    state = at(random_games[1], 5, 30)
    views = jax.jit(jax.vmap(gz.view, (None, 0)))(state, jnp.arange(4))
    for seat in range(4):
        chex.assert_trees_all_equal(at(views, seat), gz.view(state, seat))
    assert not any(x.weak_type for x in jax.tree.leaves(views))
    with pytest.raises(ValueError, match="seat 4 is not a seat"):
        gz.view(state, 4)


@given(positions)
@settings(max_examples=60, deadline=None)
def test_typed_in_views_are_the_true_ones(
    random_games: tuple[gz.State, gz.State], position: tuple[int, int, int]
) -> None:
    which, ply, seat = position
    state = at(random_games[1], which, ply)
    plays, leaders = np.asarray(state.plays), np.asarray(state.leaders)
    rounds = [[int(leaders[k]), *plays[4 * k : min(4 * k + 4, ply)].tolist()] for k in range(ply // 4 + 1)]
    hand = np.flatnonzero(hands_of(state)[seat]).tolist()
    typed = gz.view_from(seat, hand, rounds[:-1], rounds[-1])
    chex.assert_trees_all_equal(typed, gz.view(state, seat))
    chex.assert_trees_all_equal_dtypes(typed, gz.view(state, seat))
    named = gz.view_from(
        seat, cards.names(hand), [[k, *map(cards.name, t)] for k, *t in rounds[:-1]], rounds[-1]
    )
    chex.assert_trees_all_equal(typed, named)


HAND = "S2 S3 S4 H2 H3 H4 D2 D3 D4 C2 C3 C4 C5"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((4, HAND), "seat 4 is not a seat"),
        ((0, HAND[3:]), "seat 0 must hold 13 cards after these tricks, not 12"),
        ((0, HAND + " C6"), "must hold 13 cards after these tricks, not 14"),
        ((0, HAND.replace("S3", "S2")), "S2 stands there more than once"),
        ((0, HAND.replace("S3", "Q9")), "'Q9' is not a card"),
        ((0, HAND, [[1, "S5", "S6", "S7"]]), "trick 0: a completed trick has 4 cards, not 3"),
        ((0, HAND, [], [1, "S5", "S6", "S7", "S8"]), "table: at most 3 cards"),
        ((0, HAND, [], [5]), "table: write .*leader 0..3"),
        ((0, HAND, [], [1, "S5", "Z9"]), "table: 'Z9' is not a card"),
        ((0, HAND, [], [1, "S5", "S2"]), "trick 0, seat 2: S2 is played, but seat 0 still holds it"),
        ((0, HAND, [], [1, "S5", "S5"]), "trick 0, seat 2: S5 was already played at ply 0"),
        ((0, HAND[:-3], [[1, "S5", "S6", "S7", "S8"]], [2]), "table: led by seat 2, but seat 0 won"),
        ((0, HAND[:-3], [[1, "S5", "S6", "S7", "C6"]]), "seat 0: did not follow S and still holds S2 S3 S4"),
        (
            (0, HAND[:-6], [[1, "S5", "S6", "H7", "S8"], [0, "C6", "C7", "C8", "C9"]], [3, "S9"]),
            "trick 2, seat 3: S9 was played after not following S",
        ),
        ((0, HAND, [[0]] * 14), "a deal has 13"),
    ],
)
def test_contradictions_are_named(arguments: tuple, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gz.view_from(*arguments)


def test_a_history_that_no_hidden_hands_fit() -> None:
    """From the test code of the paper's authors, who asked their players about this position."""
    tricks = """0 C10 C5 CA C9 | 2 DK D10 D7 D8 | 2 DJ DQ D5 DA | 1 H5 H6 H4 H10 | 0 H8 H3 HJ H9
                2 CK HA CJ CQ | 2 S9 S3 S10 SJ | 1 C2 C7 HK C8 | 0 S6 S4 S5 H7""".replace("\n", "|")
    rounds = [[int(words[0]), *words[1:]] for words in map(str.split, tricks.split("|"))]
    with pytest.raises(ValueError, match="seat 3 needs 4 cards and only H2 D2 D3 are possible"):
        gz.view_from(1, "D4 D6 D9 HQ", rounds, [0, "C4"])


@given(positions, st.integers(0, 50))
@settings(max_examples=80, deadline=None)
def test_rewinding_with_the_true_hands_gives_the_views_of_that_time(
    random_games: tuple[gz.State, gz.State], position: tuple[int, int, int], earlier: int
) -> None:
    which, ply, seat = position
    earlier = min(earlier, ply - 1)
    if earlier < 0:
        return
    now, then = at(random_games[1], which, ply), at(random_games[1], which, earlier)
    order = jnp.array([(seat + i) % 4 for i in (1, 2, 3)])
    found = jax.jit(rewind)(gz.view(now, seat), now.hands[order], earlier)
    chex.assert_trees_all_equal(found, gz.view(then, int(game.mover(then))))
