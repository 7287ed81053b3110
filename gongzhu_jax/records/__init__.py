"""Game records: one JSON object a line, one deal a line, checked by replaying it through the engine.

    {"v":1,"rules":"paper","deal":["S2 SQ …","…","…","…"],"leader":0,
     "tricks":[[0,"S10","S6","SJ","SK"],…],"scores":[…],"players":["…",…],"seed":…}

A trick is its leader and its cards in playing order; the last one of an unfinished game may be shorter. The
fields ``scores``, ``players`` and ``seed`` may be missing; fields with other names are kept.

>>> from gongzhu_jax import records
>>> for record in records.read("games.jsonl"):  # doctest: +SKIP
...     end = records.replay(record)

From a shell: ``python -m gongzhu_jax.records check games.jsonl``.
"""

from gongzhu_jax.records._format import Record, Trick, Writer, from_json, read, to_json, write
from gongzhu_jax.records._replay import Counts, check, from_state, replay

__all__ = [
    "Counts",
    "Record",
    "Trick",
    "Writer",
    "check",
    "from_json",
    "from_state",
    "read",
    "replay",
    "to_json",
    "write",
]
