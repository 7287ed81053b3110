"""Scores, legal cards and trick winners as formulas; every exact case of the written rules."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gongzhu_jax as gz
from gongzhu_jax import cards, rules
from tests.oracle import gongzhu as oracle
from tests.oracle.cases import EXACT_CASES, HEARTS


def score(names: str, variant: gz.Rules = rules.PAPER) -> int:
    return int(gz.score(jnp.array(cards.to_set(names)), variant))


@pytest.mark.parametrize(
    ("captured", "points"),
    [
        *EXACT_CASES,
        # the same with cards that do not score in the pile
        ("C10 S2 SA D10 C9", 50),
        (HEARTS + " C2 C3 SK DA", 200),
        ("SQ SA SK C10 CA", -200),
    ],
)
def test_exact_cases(captured: str, points: int) -> None:
    assert score(captured) == points


piles = st.sets(st.integers(0, 51)) | st.sets(st.integers(0, 51)).map(lambda s: s | set(cards.HEARTS))


def flags(pile: set[int]) -> jnp.ndarray:
    return jnp.array(np.isin(np.arange(52), list(pile)))


@given(piles)
@settings(max_examples=300, deadline=None)
def test_score_and_its_variants_against_the_oracle(pile: set[int]) -> None:
    captured = flags(pile)
    assert int(gz.score(captured)) == oracle.score(pile)
    assert int(gz.score(captured, rules.VARIANTS["h4"])) == oracle.score(
        pile, points=oracle.POINTS_H4, all_hearts=210
    )
    assert int(gz.score(captured, rules.VARIANTS["pig200"])) == oracle.score(
        pile, points=oracle.POINTS_PIG_200
    )
    assert int(gz.score(captured, rules.VARIANTS["pigflip"])) == oracle.score(pile, hearts_and_pig=300)


@given(st.lists(st.integers(0, 3), min_size=52, max_size=52), st.booleans())
@settings(max_examples=200, deadline=None)
def test_hearts_scores_against_the_oracle(owner: list[int], moon: bool) -> None:
    seat_of = np.array(owner)
    if moon:
        seat_of[[*cards.HEARTS, cards.PIG]] = owner[0]
    captured = seat_of == np.arange(4)[:, None]
    found = rules.scores(jnp.array(captured), rules.HEARTS)
    assert found.tolist() == oracle.hearts_scores([set(np.flatnonzero(row)) for row in captured])


def test_variants_by_hand() -> None:
    assert score("H4", rules.VARIANTS["h4"]) == -10
    assert score("H4 C10", rules.VARIANTS["h4"]) == -20
    assert score("SQ", rules.VARIANTS["pig200"]) == -200
    assert score("SQ C10 DJ", rules.VARIANTS["pig200"]) == -200
    assert score(HEARTS + " SQ", rules.VARIANTS["pigflip"]) == 300
    assert score(HEARTS + " SQ DJ C10", rules.VARIANTS["pigflip"]) == 800
    assert score("SQ HA", rules.HEARTS) == -14
    assert score(HEARTS + " SQ", rules.HEARTS) == 0


def test_score_takes_any_leading_axes() -> None:
    piles = jnp.array(np.random.default_rng(0).random((3, 5, 4, 52)) < 0.5)
    found = gz.score(piles)
    assert found.shape == (3, 5, 4)
    assert found.dtype == jnp.int32
    assert int(found[2, 3, 1]) == int(gz.score(piles[2, 3, 1]))


def test_trick_winner_against_the_oracle() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        trick = rng.permutation(52)[:4]
        assert int(rules.trick_winner(jnp.array(trick, jnp.int8))) == oracle.winning_position(trick.tolist())
    assert int(rules.trick_winner(jnp.array([3, 9, -1, -1], jnp.int8))) == 1
    assert int(rules.trick_winner(jnp.full(4, -1, jnp.int8))) == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"points": (0,) * 51}, "52 integers"),
        ({"points": (0.5,) * 52}, "52 integers"),
        ({"points": (100_000,) * 52}, "too large"),
        ({"teams": (0, 1, 0)}, "four numbers"),
        ({"scoring": (1, 1)}, "different card ids"),
        ({"doubler": 51}, "one of the scoring cards"),
        ({"sweeps": (rules.Sweep((52,)),)}, "different card ids"),
        ({"first_leader": 4}, "first_leader"),
        ({"first_leader": "C2 C3"}, "first_leader"),
        ({"first_leader": "X2"}, "not a card"),
        ({"first_card_forced": True}, "needs the name of a card"),
    ],
)
def test_rules_refuse(change: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        dataclasses.replace(gz.Rules(), **change)


def test_rules_are_static_and_hashable() -> None:
    assert hash(gz.Rules()) == hash(gz.Rules())
    assert gz.Rules() == rules.PAPER
    assert len(set(rules.VARIANTS.values())) == len(rules.VARIANTS)
    assert gz.Rules().with_points({"H4": -10}, name="h4") == rules.VARIANTS["h4"]
