"""What defines a run of distillation, and its presets."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal

from gongzhu_jax import game, models, networks
from gongzhu_jax.players.deep import DEFAULT, Belief, Settings
from train.config import Config


@dataclasses.dataclass(frozen=True)
class DistilConfig(Config):
    """A run in which an actor learns what its own search would play; two with equal fields on one device end equal."""

    preset: Literal["cpu", "gpu"] = "cpu"
    """Where the defaults of the other flags come from."""
    mixed: bool = True
    """Multiply in bfloat16 and accumulate in float32. Parameters stay float32. Presets do where that is faster."""
    start: str = models.ACTOR
    """The actor that learns, a file or the name of a model that comes with the package."""
    critic: str = models.CRITIC
    """Its critic, which values playouts that end at --horizon, such as best-critic.model of a run."""
    games: int = 64
    """Games in a batch, played in lockstep over all devices."""
    epochs: int = 1
    """Times that each batch learns from the samples of the last few batches."""
    buffer: int = 4
    """Batches that are learned from."""
    minibatch: int = 1024
    """Samples in a step of the optimizer, over all devices."""
    learning_rate: float = 1e-4
    """Of Adam, at the start."""
    schedule_batches: int = 400
    """Lower the learning rate to a twentieth, along a cosine, over so many batches."""
    eval_every: int = 40
    """Batches between evaluations against Random, If and Greed, each followed by a checkpoint."""
    eval_deals: int = 1024
    """Deals of an evaluation, each played at two tables; always the same deals."""
    simulations: int = 32
    """Playouts for a decision."""
    proposals: int = 32
    """Random worlds that are weighed for a decision."""
    belief: Belief = DEFAULT.belief
    """How likely a world is, as for the player deep."""
    considered: int = 4
    """Cards that are looked into, at most: those that the actor likes best."""
    horizon: int = DEFAULT.horizon
    """Plies that are played out before the critic values the position; 52: to the end, without the critic."""
    temperature: float = 10.0
    """Points by which a card must be better to become e times as likely as the actor had it."""
    spread: float = 10.0
    """Standard deviation of true gains, in points: gains are shrunk by how uncertain they are beside it."""
    own_value_weight: float = 0.1
    """Weight of the squared error of the actor's own value."""
    hands_weight: float = 0.1
    """Weight of what the actor gets wrong about hidden hands (nats a card)."""
    max_norm: float = 1.0
    """Longer gradients are shortened to this length."""

    AT_LEAST: ClassVar[dict[str, float]] = Config.AT_LEAST | {
        "buffer": 1,
        "own_value_weight": 0,
        "hands_weight": 0,
        "schedule_batches": 1,
    }

    def search(self) -> Settings:
        """How much is looked into.

        Raises:
          ValueError: a field is out of its range.
        """
        return Settings(
            simulations=self.simulations,
            proposals=self.proposals,
            belief=self.belief,
            considered=self.considered,
            horizon=self.horizon,
        )

    def problem(self) -> str | None:
        """The first field that is out of range, as a flag, and what would be right."""
        for field in ("temperature", "spread", "max_norm"):
            if not 0 < getattr(self, field) < math.inf:
                return self.wrong(field, "greater than 0")
        if not self.critic and self.horizon < game.NUM_PLIES:
            return f"--horizon {self.horizon}: needs --critic"
        try:
            networks.check_reads(models.load(self.start).network, "view")
        except ValueError as error:
            return f"--start {self.start}: {error}"
        try:
            if self.critic:
                networks.check_reads(models.load(self.critic).network, "open")
        except ValueError as error:
            return f"--critic {self.critic}: {error}"
        if not getattr(models.load(self.start).network, "hands", False):
            return f"--start {self.start}: the model says nothing about hands"
        try:
            self.search()
        except ValueError as error:
            return f"--{error}"
        return super().problem()


PRESETS: dict[str, DistilConfig] = {
    "cpu": DistilConfig(),
    "gpu": DistilConfig(preset="gpu", games=4096, buffer=2, minibatch=8192, simulations=128, proposals=128),
}
"""``cpu``: an hour on two cores; ``gpu``: half an hour on a GPU."""

BATCHES = {name: preset.schedule_batches for name, preset in PRESETS.items()}
"""Batches of a whole run."""

MINUTES: dict[str, float | None] = {"cpu": 60.0, "gpu": 30.0}
"""Wall time of a whole run, where that comes first."""
