"""What defines a training run: every field is a flag of ``python -m train.selfplay`` and is saved with the run."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import jax

from gongzhu_jax import search

FORMAT = 1
"""Of run folders; raised when an older run can no longer be continued."""

Network = Literal["fc24", "fc16", "fc-small", "resnet18"]


@dataclasses.dataclass(frozen=True)
class Config:
    """A self-play run (ScrofaZero, sections 3 to 5); two runs with equal fields on one device end equal."""

    preset: Literal["quick", "small", "paper"] = "paper"
    """Where the defaults of the other flags come from."""
    seed: int = 0
    """Of the first parameters, the deals and all luck."""
    network: Network = "fc24"
    """fc24 and fc16: the paper's 24 and 16 layers; fc-small: about 1 M parameters; resnet18: its third topology."""
    mixed: bool = False
    """Multiply in bfloat16 and accumulate in float32. Parameters stay float32."""
    games: int = 64
    """Games in a batch, played in lockstep over all devices."""
    buffer: int = 3
    """Learn from the samples of so many last batches."""
    epochs: int = 3
    """Times that each batch learns from the whole buffer."""
    minibatch: int = 64
    """Samples in a step of the optimizer, over all devices."""
    base: int = 0
    """b of the search budget T = b + k · L."""
    per_card: int = 2
    """k of the search budget: simulations for each of the L legal cards."""
    exploration: float = 30 * math.sqrt(2)
    """c of the search's UCB, in points. The paper writes 30; the authors' program works with 30 · √2."""
    chunk: int = 0
    """Searches in lockstep on one device; 0: 256 on a CPU, all games on an accelerator."""
    rule: search.Rule = "ucb"
    """Which card a simulation follows: ucb is the paper's; puct and gumbel use the policy."""
    target: search.Target = "values"
    """The policy target: of the values, ∝ exp(sharpness · Q), or the share of visits."""
    sharpness: float = 0.2
    """Policy logits per point."""
    considered: int = 13
    """Cards that the root of gumbel visits, at most."""
    learning_rate: float = 5e-5
    """Of Adam, at the start."""
    decay_batches: int = 0
    """Lower the learning rate to a twentieth over so many batches, along a cosine; 0: keep it."""
    b1: float = 0.3
    """Adam's β₁."""
    b2: float = 0.999
    """Adam's β₂."""
    eps: float = 1e-7
    """Adam's ε."""
    weight_decay: float = 1e-4
    """Times the parameter, added to its gradient."""
    value_weight: float = 0.03
    """λ: weight of the value's error (points) beside the policy's (nats)."""
    eval_every: int = 40
    """Batches between evaluations against Random, If and Greed, each followed by a checkpoint."""
    eval_deals: int = 256
    """Deals of an evaluation, each played at two tables; always the same deals."""
    eval_worlds: int = 8
    """Sampled worlds per decision of the evaluated network."""

    @property
    def positions(self) -> int:
        """Samples of a batch."""
        return 52 * self.games

    def search_on(self, platform: str) -> search.Settings:
        """How a device of this platform searches.

        Raises:
          ValueError: a field is out of range.
        """
        return search.Settings(
            base=self.base,
            per_card=self.per_card,
            exploration=self.exploration,
            chunk=self.chunk or (256 if platform == "cpu" else self.games),
            rule=self.rule,
            sharpness=self.sharpness,
            target=self.target,
            considered=self.considered,
        )


PRESETS: dict[str, Config] = {
    "quick": Config(
        preset="quick",
        network="fc-small",
        mixed=True,
        games=256,
        epochs=1,
        minibatch=256,
        exploration=30.0,
        learning_rate=3e-4,
        eval_every=10,
        eval_deals=128,
    ),
    "small": Config(
        preset="small",
        network="fc-small",
        mixed=True,
        games=512,
        epochs=1,
        minibatch=256,
        exploration=30.0,
        learning_rate=5e-4,
        decay_batches=600,
    ),
    "paper": Config(),
}
"""``paper``: what trained the authors' network; ``small``: the same algorithm for two cores; ``quick``: its start."""

BATCHES = {"quick": 1000, "small": 700, "paper": 4000}
"""Batches of a whole run: 4,000 batches of 64 are the authors' 256 k games."""

MINUTES = {"quick": 8.0, "small": None, "paper": None}
"""Wall time of a whole run, where that comes first."""


def default_preset() -> str:
    """``paper`` with an accelerator, ``quick`` without."""
    return "quick" if jax.default_backend() == "cpu" else "paper"


def problem(config: Config) -> tuple[str, str] | None:
    """The first field of training that is out of range, and what would be right; ``search_on`` checks its own."""
    at_least: dict[str, float] = {
        "seed": 0,
        "games": 1,
        "buffer": 1,
        "epochs": 1,
        "minibatch": 1,
        "decay_batches": 0,
        "weight_decay": 0,
        "value_weight": 0,
        "eval_every": 1,
        "eval_deals": 2,
        "eval_worlds": 1,
    }
    for field, low in at_least.items():
        if not getattr(config, field) >= low:
            return field, f"at least {low}"
    for field in ("learning_rate", "eps"):
        if not 0 < getattr(config, field) < math.inf:
            return field, "greater than 0"
    for field in ("b1", "b2"):
        if not 0 <= getattr(config, field) < 1:
            return field, "at least 0 and less than 1"
    if config.seed >= 2**31:
        return "seed", "less than 2³¹"
    if config.minibatch > config.positions:
        return "minibatch", f"at most the {config.positions} positions of a batch of {config.games} games"
    return None


def to_json(config: Config) -> dict[str, Any]:
    """The fields of a config."""
    return dataclasses.asdict(config)


def save(config: Config, path: Path) -> None:
    """Write a config as JSON."""
    content = {"format": FORMAT, "config": to_json(config)}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load(path: Path) -> Config:
    """Read a config.

    Raises:
      ValueError: the file is missing or damaged, or of another version; the text names the file and the field.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return from_json(content["config"], content["format"])
    except OSError as error:
        raise ValueError(f"{path}: cannot read the run's config: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not the config of a run: {error}") from None


def from_json(fields: Mapping[str, Any], version: int) -> Config:
    """A config from its saved fields.

    Raises:
      ValueError: another version of run folders, or other fields, which are named.
    """
    if version != FORMAT:
        raise ValueError(f"format is {version}, this version writes {FORMAT}")
    known = {f.name for f in dataclasses.fields(Config)}
    if strange := sorted(known ^ set(fields)):
        raise ValueError(f"fields of another version: {', '.join(strange)}")
    return Config(**fields)


def difference(old: Config, new: Config) -> str | None:
    """The first field in which two configs differ, in words."""
    for field in dataclasses.fields(Config):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after:
            return f"--{field.name.replace('_', '-')} is {before} there, {after} here"
    return None
