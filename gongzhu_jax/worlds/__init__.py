"""Worlds: full assignments of the unseen cards to the three hidden hands, counted, sampled and listed exactly.

A world respects hand sizes and shown voids. There are four ways to get some:

* :func:`sample`: uniformly at random;
* :func:`sample_strata`: at random, but for every placement of the key cards, with weights;
* :func:`sample_weighted`: at random by a belief about single cards, with their probabilities;
* :func:`nth_world`, :func:`every_world`: by number, late in a deal, where there are few; with
  :func:`sample_or_all` at random until there are few.
"""

from gongzhu_jax.worlds._numbered import every_world, nth_world, sample_or_all
from gongzhu_jax.worlds._sampling import count_worlds, is_possible, log_count, sample, to_state
from gongzhu_jax.worlds._strata import StrataWeights, key_cards, sample_strata
from gongzhu_jax.worlds._weighted import Weighted, sample_weighted

__all__ = [
    "StrataWeights",
    "Weighted",
    "count_worlds",
    "every_world",
    "is_possible",
    "key_cards",
    "log_count",
    "nth_world",
    "sample",
    "sample_or_all",
    "sample_strata",
    "sample_weighted",
    "to_state",
]
