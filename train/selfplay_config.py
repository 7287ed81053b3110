"""What defines a run of ScrofaZero's training, and its presets."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal

from gongzhu_jax import search
from train.config import Config, flag

Network = Literal["fc24", "fc16", "fc-small", "resnet18"]


@dataclasses.dataclass(frozen=True)
class SelfPlayConfig(Config):
    """A self-play run (ScrofaZero, sections 3 to 5); two runs with equal fields on one device end equal."""

    preset: Literal["quick", "small", "paper"] = "paper"
    """Where the defaults of the other flags come from."""
    b1: float = 0.3
    """Adam's β₁."""
    network: Network = "fc24"
    """fc24 and fc16: the paper's 24 and 16 layers; fc-small: about 1 M parameters; resnet18: its third topology."""
    buffer: int = 3
    """Learn from the samples of so many last batches."""
    base: int = 0
    """b of the search budget T = b + k · L."""
    per_card: int = 2
    """k of the search budget: simulations for each of the L legal cards."""
    exploration: float = 30 * math.sqrt(2)
    """c of the search's UCB, in points. The paper writes 30; the authors' program works with 30 · √2."""
    chunk: int = 0
    """Searches in lockstep on one device; 0: 128 on a CPU, all games on an accelerator."""
    rule: search.Rule = "ucb"
    """Which card a simulation follows: ucb is the paper's; puct and gumbel use the policy."""
    target: search.Target = "values"
    """The policy target: of the values, ∝ exp(sharpness · Q), or the share of visits."""
    sharpness: float = 0.2
    """Policy logits per point."""
    considered: int = 13
    """Cards that the root of gumbel visits, at most."""
    decay_batches: int = 0
    """Lower the learning rate to a twentieth over so many batches, along a cosine; 0: keep it."""
    weight_decay: float = 1e-4
    """Times the parameter, added to its gradient."""
    value_weight: float = 0.03
    """λ: weight of the value's error (points) beside the policy's (nats)."""
    eval_worlds: int = 8
    """Sampled worlds per decision of the evaluated network."""

    AT_LEAST: ClassVar[dict[str, float]] = Config.AT_LEAST | {
        "buffer": 1,
        "decay_batches": 0,
        "weight_decay": 0,
        "value_weight": 0,
        "eval_worlds": 1,
    }

    def problem(self) -> str | None:
        """The first field that is out of range, as a flag, and what would be right."""
        try:
            self.search_on("cpu")
        except ValueError as error:
            return flag(str(error))
        return super().problem()

    def search_on(self, platform: str) -> search.Settings:
        """How a device of this platform searches.

        Raises:
          ValueError: a field is out of range.
        """
        return search.Settings(
            base=self.base,
            per_card=self.per_card,
            exploration=self.exploration,
            chunk=self.chunk or (128 if platform == "cpu" else self.games),
            rule=self.rule,
            sharpness=self.sharpness,
            target=self.target,
            considered=self.considered,
        )


PRESETS: dict[str, SelfPlayConfig] = {
    "quick": SelfPlayConfig(
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
    "small": SelfPlayConfig(
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
    "paper": SelfPlayConfig(),
}
"""``paper``: what trained the authors' network; ``small``: the same algorithm for two cores; ``quick``: its start."""

BATCHES = {"quick": 1000, "small": 700, "paper": 4000}
"""Batches of a whole run: 4,000 batches of 64 are the authors' 256 k games."""

MINUTES = {"quick": 8.0, "small": None, "paper": None}
"""Wall time of a whole run, where that comes first."""
