"""Gongzhu (拱猪) as pure JAX functions: fixed-shape States, Views of one seat, records and players.

>>> import gongzhu_jax as gz, jax
>>> state = gz.deal(jax.random.key(0))
>>> int(gz.legal_cards(state).sum())
13
"""

from gongzhu_jax import cards, players, records, render, worlds
from gongzhu_jax.game import State, deal, from_hands, is_over, legal_cards, margin, play, scores, step
from gongzhu_jax.rules import Rules, score
from gongzhu_jax.view import View, view, view_from

__version__ = "0.1.0"

__all__ = [
    "Rules",
    "State",
    "View",
    "cards",
    "deal",
    "from_hands",
    "is_over",
    "legal_cards",
    "margin",
    "play",
    "players",
    "records",
    "render",
    "score",
    "scores",
    "step",
    "view",
    "view_from",
    "worlds",
]
