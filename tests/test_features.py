"""The network input, position by position, against positions read off the State in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gongzhu_jax as gz
from gongzhu_jax import cards, features, game, worlds
from tests.conftest import ROOT, at, hands_of


def expected(state: gz.State) -> np.ndarray:
    """The input written out by hand from the specification of the paper."""
    mover, ply = int(game.mover(state)), int(state.ply)
    hands = hands_of(state)
    taken = np.asarray(game.captured(state))
    plays = np.asarray(state.plays).tolist()
    found: list[float] = []
    for i in range(4):
        found += hands[(mover + i) % 4].tolist()
    running = plays[ply - ply % 4 : ply]
    for age in range(3):
        block = [0.0] * 54
        if age < len(running):
            card = running[-1 - age]
            for position in (card, card + 1, card + 2):
                block[position] = 1.0
        found += block
    for i in range(4):
        names = [f"H{rank}" for rank in cards.RANKS] + ["SQ", "DJ", "C10"]
        found += [float(taken[(mover + i) % 4, cards.parse(name)[0]]) for name in names]
    return np.array(found, np.float32)


def test_the_input_by_hand(random_games: tuple[gz.State, gz.State]) -> None:
    encode = jax.jit(features.encode)
    for ply in range(52):
        for which in (ply % 7, 100 + ply):
            state = at(random_games[1], which, ply)
            found = encode(state)
            assert found.shape == (434,)
            assert found.dtype == jnp.float32
            np.testing.assert_array_equal(found, expected(state))


def test_a_world_of_a_view_is_encoded_as_its_state(random_games: tuple[gz.State, gz.State]) -> None:
    for ply in (0, 13, 30, 47):
        state = at(random_games[1], 9, ply)
        mover = int(game.mover(state))
        hidden = cards.to_masks(jnp.array(hands_of(state)[[(mover + i) % 4 for i in (1, 2, 3)]]))
        world = worlds.to_state(gz.view(state, mover), hidden)
        np.testing.assert_array_equal(features.encode(world), features.encode(state))


def test_the_averaged_input(random_games: tuple[gz.State, gz.State]) -> None:
    """Others' hands hold a third of each unseen card; all else is as with open hands."""
    for ply in (0, 6, 25, 50):
        state = at(random_games[1], 12, ply)
        seen = gz.view(state, int(game.mover(state)))
        found, open_hands = np.asarray(features.encode_average(seen)), np.asarray(features.encode(state))
        np.testing.assert_array_equal(found[:52], open_hands[:52])
        np.testing.assert_array_equal(found[208:], open_hands[208:])
        hidden = open_hands[52:208].reshape(3, 52).sum(axis=0)
        for block in found[52:208].reshape(3, 52):
            np.testing.assert_allclose(block, hidden / 3, rtol=1e-6)


@pytest.mark.parametrize(("card", "positions"), [(0, (0, 1, 2)), (51, (51, 52, 53)), (10, (10, 11, 12))])
def test_the_diffuse_code_reaches_both_ends(card: int, positions: tuple[int, ...]) -> None:
    assert tuple(np.flatnonzero(features.diffuse(jnp.int8(card)))) == positions
    assert not features.diffuse(jnp.int8(-1)).any()


def test_the_documented_table_is_the_code_s() -> None:
    assert features.SIZE == 434
    text = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
    for block in features.BLOCKS:
        assert f"| {block.start} … {block.start + block.size - 1} | {block.size} | {block.holds} |" in text


def test_what_a_seat_sees_is_the_same_in_all_its_worlds(random_games: tuple[gz.State, gz.State]) -> None:
    """One step later: own hand and public cards as they are, the rest a third each, whatever the hidden hands."""
    for i, ply in enumerate((0, 9, 22, 39, 48)):
        state = at(random_games[1], 60 + i, ply)
        view = gz.view(state, int(game.mover(state)))
        card = int(jnp.argmax(gz.legal_cards(view)))
        inputs = []
        for hidden in worlds.sample(jax.random.key(i), view, 3):
            after = gz.step(worlds.to_state(view, hidden), card)
            found, true = np.asarray(features.encode_seen(after)), np.asarray(features.encode(after))
            inputs.append(found)
            np.testing.assert_array_equal(found[208:], true[208:])
            from_mover = [(seat - int(game.mover(after))) % 4 for seat in range(4)]
            blocks = found[:208].reshape(4, 52)
            np.testing.assert_array_equal(blocks[from_mover[0]], true[:208].reshape(4, 52)[from_mover[0]])
            unseen = np.asarray(cards.to_bools(view.unseen))
            for seat in (1, 2, 3):
                np.testing.assert_allclose(blocks[from_mover[seat]], unseen / 3, rtol=1e-6)
        np.testing.assert_array_equal(inputs[0], inputs[1])
        np.testing.assert_array_equal(inputs[0], inputs[2])
