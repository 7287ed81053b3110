"""Cards: names, ids and sets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gongzhu_jax as gz
from gongzhu_jax import cards

hand_flags = st.lists(st.booleans(), min_size=52, max_size=52).map(np.array)


def test_known_ids() -> None:
    assert [cards.parse(n)[0] for n in ("S2", "SQ", "SA", "H2", "DJ", "C10", "CA")] == [
        0,
        10,
        12,
        13,
        35,
        47,
        51,
    ]


def test_names_and_ids_are_inverse() -> None:
    assert len(set(cards.NAMES)) == 52
    assert [cards.parse(cards.name(c)) for c in range(52)] == [[c] for c in range(52)]


def test_parse_what_people_type() -> None:
    assert gz.cards.parse("SQ s10 HT") == [10, 8, 21]
    assert cards.parse(["sq", 8, "dj,c10"]) == [10, 8, 35, 47]
    assert cards.parse("") == []


@pytest.mark.parametrize("word", ["", "Q", "SS", "S1", "S11", "X9", "10S", "♠Q", "S-2"])
def test_unknown_names_are_named(word: str) -> None:
    with pytest.raises(ValueError, match="is not a card"):
        cards.parse(["S2", f"{word or '?'}"])


@pytest.mark.parametrize("card", [-1, 52, 1000])
def test_unknown_ids_are_named(card: int) -> None:
    with pytest.raises(ValueError, match=f"{card} is not a card id"):
        cards.name(card)
    with pytest.raises(ValueError, match=f"{card} is not a card id"):
        cards.parse(card)


def test_a_set_refuses_a_card_twice() -> None:
    with pytest.raises(ValueError, match="SQ"):
        cards.to_set("SQ S2 sq")


@given(hand_flags)
@settings(max_examples=50, deadline=None)
def test_masks_hold_the_same_cards(flags: np.ndarray) -> None:
    masks = cards.to_masks(jnp.array(flags))
    np.testing.assert_array_equal(cards.to_bools(masks), flags)
    assert int(cards.count(masks)) == flags.sum()
    held = np.flatnonzero(flags)
    found = jax.vmap(cards.nth, (None, 0))(masks, jnp.arange(52))
    np.testing.assert_array_equal(found[: len(held)], held)


def test_suit_rank_and_mask_of_every_card() -> None:
    ids = jnp.arange(52, dtype=jnp.int8)
    np.testing.assert_array_equal(cards.suit(ids), np.arange(52) // 13)
    np.testing.assert_array_equal(cards.rank(ids), np.arange(52) % 13)
    np.testing.assert_array_equal(cards.to_bools(cards.mask_of(ids)), np.eye(52, dtype=bool))
    assert int(cards.suit(jnp.int8(-1))) == -1
    for outside in (-1, 52, 60, 127, 1000):
        assert not cards.mask_of(jnp.int32(outside)).any(), outside


@given(st.integers(0, 2**32 - 1), st.integers(1, 65535))
@settings(max_examples=200, deadline=None)
def test_below_is_the_exact_scaling(bits: int, n: int) -> None:
    assert int(cards.below(jnp.uint32(bits), jnp.int32(n))) == bits * n >> 32


def test_random_card_is_uniform() -> None:
    """Chi-square over the five cards of a set, 20,000 draws: false alarm 1e-6 (fixed key: none at all)."""
    held = cards.parse("S2 SA H7 C2 CA")
    masks = cards.to_masks(jnp.array(cards.to_set("S2 SA H7 C2 CA")))
    drawn = jax.vmap(cards.random_card, (0, None))(jax.random.split(jax.random.key(3), 20_000), masks)
    counts = np.bincount(drawn, minlength=52)
    assert counts[held].sum() == 20_000
    assert (((counts[held] - 4000) ** 2) / 4000).sum() < 33.4  # chi2.isf(1e-6, 4)
