"""The game: parity with the plain-Python oracle, invariants, variants, and bad input."""

import dataclasses
import json
import os
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gongzhu_jax as gz
from gongzhu_jax import cards, game, rules
from tests.conftest import ROOT, at, hands_of
from tests.oracle import gongzhu as oracle

PARITY_DEALS = 20_480
BATCH = 2_048


def play_and_record(key: jax.Array) -> dict[str, jax.Array]:
    """One random deal: what the engine says at every ply."""
    state = gz.deal(key)

    def body(state: gz.State, key: jax.Array) -> tuple[gz.State, tuple[jax.Array, ...]]:
        seen = gz.legal_cards(state), game.mover(state), gz.scores(state), gz.margin(state)
        return gz.step(state, cards.random_card(key, game.legal_masks(state))), seen

    end, (legal, movers, scores, margins) = jax.lax.scan(body, state, jax.random.split(key, 52))
    return {
        "hands": cards.to_bools(state.hands),
        "plays": end.plays,
        "leaders": end.leaders,
        "captured": game.captured(end),
        "legal": legal,
        "movers": movers,
        "scores": jnp.concatenate([scores, gz.scores(end)[None]]),
        "margins": jnp.concatenate([margins, gz.margin(end)[None]]),
        "fine": gz.is_over(end) & ~end.illegal,
    }


@pytest.mark.parametrize("batch", range(PARITY_DEALS // BATCH))
def test_parity_with_the_oracle(batch: int) -> None:
    """Full deals: legal set, mover and running score at every ply; winners, piles and scores at the end."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(2024), batch), BATCH)
    deals = jax.device_get(jax.jit(jax.vmap(play_and_record))(keys))
    assert deals["fine"].all()
    for i in range(BATCH):
        deal = {name: array[i] for name, array in deals.items()}
        truth = oracle.Game(
            [np.flatnonzero(hand).tolist() for hand in deal["hands"]], int(deal["leaders"][0])
        )
        for ply, card in enumerate(deal["plays"].tolist()):
            assert truth.mover == deal["movers"][ply]
            assert truth.legal() == np.flatnonzero(deal["legal"][ply]).tolist()
            if ply % 4 == 0:  # captures change with tricks only
                assert truth.scores() == deal["scores"][ply].tolist()
                assert truth.margin() == deal["margins"][ply]
            truth.play(card)
        assert truth.over
        assert [first for first, _ in truth.tricks] == deal["leaders"][:13].tolist()
        assert truth.leader == deal["leaders"][13]
        assert [sorted(pile) for pile in truth.captured] == [
            np.flatnonzero(p).tolist() for p in deal["captured"]
        ]
        assert truth.scores() == deal["scores"][52].tolist()
        assert truth.margin() == deal["margins"][52]


def test_deals_are_fair() -> None:
    """Each card at each seat in a quarter of 40,000 deals; and C10 beside SQ in 12/51 of them.

    False alarm: 208 cells at 5.5 standard errors, below 1e-5 in all (and none with the fixed key).
    """
    n = 40_000
    hands = np.asarray(jax.jit(jax.vmap(game.random_hands))(jax.random.split(jax.random.key(0), n)))
    assert (hands.sum(axis=1) == 1).all()
    assert (hands.sum(axis=2) == 13).all()
    assert np.abs(hands.mean(axis=0) - 0.25).max() < 5.5 * np.sqrt(0.25 * 0.75 / n)
    together = (hands[:, :, cards.PIG] & hands[:, :, cards.DOUBLER]).any(axis=1).mean()
    assert abs(together - 12 / 51) < 5.5 * np.sqrt(12 / 51 * 39 / 51 / n)


def test_first_leader_policies() -> None:
    keys = jax.random.split(jax.random.key(5), 400)

    def leaders(first: int | str) -> tuple[np.ndarray, np.ndarray]:
        policy = dataclasses.replace(gz.Rules(), first_leader=first)
        states = jax.vmap(lambda key: gz.deal(key, policy))(keys)
        return np.asarray(states.leaders[:, 0]), hands_of(states)

    assert np.bincount(leaders("random")[0], minlength=4).min() > 60
    assert (leaders(2)[0] == 2).all()
    for name in ("S2", "S7", "C2"):
        first, hands = leaders(name)
        assert hands[np.arange(400), first, cards.parse(name)[0]].all()


def test_hearts_opens_with_the_two_of_clubs() -> None:
    state = gz.deal(jax.random.key(0), rules.HEARTS)
    assert cards.names(np.flatnonzero(gz.legal_cards(state))) == "C2"
    hand = np.flatnonzero(hands_of(state)[int(game.mover(state))])
    other = int(hand[hand != cards.parse("C2")[0]][0])
    with pytest.raises(ValueError, match="may not lead the first trick; legal: C2"):
        gz.step(state, other)
    assert int(gz.legal_cards(gz.step(state, "C2")).sum()) >= 1
    with pytest.raises(ValueError, match="holder of C2"):
        gz.from_hands(hands_of(state), (int(game.mover(state)) + 1) % 4, rules.HEARTS)


@pytest.mark.parametrize("variant", rules.VARIANTS.values(), ids=lambda r: r.name)
def test_every_variant_plays_to_the_end(variant: gz.Rules) -> None:
    keys = jax.random.split(jax.random.key(11), 64)
    end, _ = jax.jit(jax.vmap(lambda key: game.play_random(key, gz.deal(key, variant))))(keys)
    assert gz.is_over(end).all()
    assert not end.illegal.any()
    piles = np.asarray(jax.vmap(game.captured)(end))
    for pile, found in zip(piles, np.asarray(jax.vmap(gz.scores)(end)), strict=True):
        sets = [set(np.flatnonzero(p)) for p in pile]
        if variant.name == "hearts":
            assert found.tolist() == oracle.hearts_scores(sets)
            assert found.sum() in (-26, -78)
        else:
            assert found.tolist() == [int(gz.score(jnp.array(p), variant)) for p in pile]


def test_invariants_of_random_play(random_games: tuple[gz.State, gz.State]) -> None:
    end, before = jax.device_get(random_games)
    assert (np.sort(end.plays, axis=1) == np.arange(52)).all(), "every card once"
    assert (before.ply == np.arange(52)).all()
    held, taken = hands_of(before), np.asarray(cards.to_bools(jnp.asarray(before.taken)))
    on_table = np.asarray(jax.vmap(jax.vmap(game.table))(before))
    tables = (on_table >= 0).sum(axis=2)
    assert (tables == np.arange(52) % 4).all()
    assert (held.sum(axis=(2, 3)) + taken.sum(axis=(2, 3)) + tables == 52).all(), "every card in one place"
    places = held.sum(axis=2) + taken.sum(axis=2) + (on_table[..., None] == np.arange(52)).sum(axis=2)
    assert (places == 1).all()
    won = np.asarray(cards.to_bools(jnp.asarray(end.taken)))
    assert (won.sum(axis=1) == 1).all(), "captured cards partition the pack"
    assert (won.sum(axis=2) % 4 == 0).all(), "in whole tricks"


@given(st.integers(0, 255), st.integers(0, 51))
@settings(max_examples=60, deadline=None)
def test_players_follow_suit(random_games: tuple[gz.State, gz.State], which: int, ply: int) -> None:
    state = at(random_games[1], which, ply)
    hand = hands_of(state)[int(game.mover(state))]
    legal = np.asarray(gz.legal_cards(state))
    led = int(game.table(state)[0])
    same_suit = hand & (np.arange(52) // 13 == led // 13)
    np.testing.assert_array_equal(legal, same_suit if led >= 0 and same_suit.any() else hand)


def test_scores_sum_to_the_points_of_the_pack_when_nothing_doubles_or_flips(
    random_games: tuple[gz.State, gz.State],
) -> None:
    end = random_games[0]
    scores = np.asarray(jax.vmap(gz.scores)(end))
    piles = np.asarray(jax.vmap(game.captured)(end))
    scoring = np.array(rules.PAPER.scoring)
    holder = piles[:, :, cards.DOUBLER].argmax(axis=1)
    alone = piles[np.arange(256), holder][:, scoring].sum(axis=1) == 1
    swept = piles[:, :, 13:26].all(axis=2).any(axis=1)
    assert alone.any()
    assert (scores[alone & ~swept].sum(axis=1) == -200 + 50).all()
    others = ~alone & ~swept
    doubled = scores[np.arange(256), holder] / 2
    assert (scores[others].sum(axis=1) - doubled[others] == -200).all()


def test_vmap_equals_one_by_one(random_games: tuple[gz.State, gz.State]) -> None:
    before = at(random_games[1], slice(0, 8))
    for ply in (0, 3, 17, 51):
        batch = at(before, slice(None), ply)
        played = random_games[0].plays[:8, ply]
        stepped = jax.vmap(gz.step)(batch, played)
        for i in range(8):
            chex.assert_trees_all_equal(at(stepped, i), gz.step(at(batch, i), int(played[i])))


def test_one_trace_serves_all_plies() -> None:
    @jax.jit
    @chex.assert_max_traces(n=1)
    def step(state: gz.State, card: jax.Array) -> gz.State:
        return gz.step(state, card)

    state = gz.deal(jax.random.key(4))
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), state)
    for _ in range(52):
        state = step(state, jnp.argmax(gz.legal_cards(state)).astype(jnp.int32))
        assert not any(x.weak_type for x in jax.tree.leaves(state))
        assert jax.tree.map(lambda x: (x.shape, x.dtype), state) == shapes
    assert bool(gz.is_over(state))
    assert not gz.legal_cards(state).any()


def test_bytes_of_a_state() -> None:
    state = gz.deal(jax.random.key(0))
    assert game.state_bytes(state) == sum(np.asarray(x).nbytes for x in jax.tree.leaves(state)) == 134


X64_SCRIPT = """
import json, sys, jax, jax.numpy as jnp, numpy as np
import gongzhu_jax as gz
from gongzhu_jax import game
keys = jax.random.split(jax.random.key(9), 32)
end, before = jax.jit(jax.vmap(lambda key: game.play_random(key, gz.deal(key))))(keys)
views = jax.vmap(jax.vmap(gz.view, (0, None)), (0, None))(before, 3)
out = dict(scores=jax.vmap(gz.scores)(end), margin=jax.vmap(gz.margin)(end), plays=end.plays)
leaves = [*jax.tree.leaves(end), *jax.tree.leaves(views), *out.values()]
sums = [int(np.asarray(x).astype(np.int64).sum()) for x in leaves]
json.dump([sums, [str(x.dtype) for x in leaves], np.asarray(end.plays).tolist()], sys.stdout)
"""


def test_same_results_and_dtypes_with_x64() -> None:
    def run(x64: str) -> list:
        env = os.environ | {"JAX_ENABLE_X64": x64, "PYTHONPATH": str(ROOT)}
        found = subprocess.run(
            [sys.executable, "-c", X64_SCRIPT], env=env, capture_output=True, text=True, check=True, cwd=ROOT
        )
        return json.loads(found.stdout)

    assert run("0") == run("1")


# ------------------------------------------------------------------------------------------------ bad input


def good_hands() -> np.ndarray:
    return np.arange(52) // 13 == np.arange(4)[:, None]


def changed(*cells: tuple[int, int, bool]) -> np.ndarray:
    hands = good_hands()
    for seat, card, held in cells:
        hands[seat, card] = held
    return hands


@pytest.mark.parametrize(
    ("hands", "leader", "text"),
    [
        (changed((0, 20, True)), 0, r"H9 by seats \[0, 1\]"),
        (changed((0, 0, False)), 0, "seat 0 holds 12 cards"),
        (changed((0, 0, False), (1, 0, True)), 0, "seat 0 holds 12 cards"),
        (good_hands(), 4, "leader 4 is not a seat"),
        (good_hands(), -1, "leader -1 is not a seat"),
        (good_hands()[:3], 0, r"bool\[4, 52\]"),
        (good_hands().astype(int), 0, r"bool\[4, 52\]"),
    ],
)
def test_wrong_hands(hands: np.ndarray, leader: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gz.from_hands(hands, leader)
    if hands.shape == (4, 52) and hands.dtype == bool:
        assert bool(jax.jit(gz.from_hands)(hands, leader).illegal), "a flag inside of a trace"


def test_right_hands_are_not_flagged() -> None:
    assert not bool(gz.from_hands(good_hands(), 3).illegal)
    assert not bool(jax.jit(gz.from_hands)(good_hands(), 3).illegal)


def test_illegal_plays_are_explained() -> None:
    state = gz.step(
        gz.from_hands(changed((0, 0, False), (1, 13, False), (0, 13, True), (1, 0, True)), 0), "S3"
    )
    with pytest.raises(ValueError, match=r"ply 1, seat 1: H3 does not follow suit S; legal: S2"):
        gz.step(state, "H3")
    with pytest.raises(ValueError, match="S3 was already played at ply 0"):
        gz.step(state, "S3")
    with pytest.raises(ValueError, match="S4 is not in this hand but in seat 0's"):
        gz.step(state, "S4")
    with pytest.raises(ValueError, match="52 is not a card id"):
        gz.step(state, 52)
    with pytest.raises(ValueError, match="one card"):
        gz.step(state, "S2 S3")
    with pytest.raises(ValueError, match="one game, not a batch"):
        gz.step(jax.vmap(gz.deal)(jax.random.split(jax.random.key(0), 2)), 3)


def test_playing_after_the_end(random_games: tuple[gz.State, gz.State]) -> None:
    with pytest.raises(ValueError, match="ply 52: the deal is over"):
        gz.step(at(random_games[0], 0), 0)


@given(st.integers(0, 255), st.integers(0, 51), st.integers(-3, 300))
@settings(max_examples=100, deadline=None)
def test_an_illegal_card_in_a_trace_sets_the_flag_and_nothing_else(
    random_games: tuple[gz.State, gz.State], which: int, ply: int, card: int
) -> None:
    state = at(random_games[1], which, ply)
    after = jax.jit(gz.step)(state, jnp.int32(card))
    if 0 <= card < 52 and bool(gz.legal_cards(state)[card]):
        assert not bool(after.illegal)
        assert int(after.ply) == ply + 1
    else:
        assert bool(after.illegal)
        chex.assert_trees_all_equal(dataclasses.replace(after, illegal=state.illegal), state)
        legal = jnp.argmax(gz.legal_cards(state)).astype(jnp.int32)
        chex.assert_trees_all_equal(jax.jit(gz.step)(after, legal), after)
        with pytest.raises(ValueError, match="ply"):
            gz.step(after, int(legal))


def test_play_stops_where_a_card_is_illegal(random_games: tuple[gz.State, gz.State]) -> None:
    start, end = at(random_games[1], 3, 0), at(random_games[0], 3)
    chex.assert_trees_all_equal(gz.play(start, end.plays), end)
    chex.assert_trees_all_equal(gz.play(start, end.plays.at[20:].set(-1)), at(random_games[1], 3, 20))
    bad = gz.play(start, end.plays.at[20].set(end.plays[3]))
    assert bool(bad.illegal)
    assert int(bad.ply) == 20


def test_a_margin_needs_two_teams() -> None:
    with pytest.raises(ValueError, match="needs two teams"):
        gz.margin(gz.deal(jax.random.key(0), rules.HEARTS))


def test_dealt_undoes_play(random_games: tuple[gz.State, gz.State]) -> None:
    for states in (random_games[0], at(random_games[1], slice(None), 22)):
        start = jax.vmap(game.dealt)(states)
        chex.assert_trees_all_equal(start, at(random_games[1], slice(None), 0))
        chex.assert_trees_all_equal(jax.vmap(gz.play)(start, states.plays), states)
