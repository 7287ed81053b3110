"""What defines a run of the actor's training, and its presets."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from gongzhu_jax import models, networks, players
from train.config import Config

Network = Literal["actor-small", "actor", "actor-large"]
CriticNetwork = Literal["critic-small", "critic", "fc-small", "fc16"]
Critic = Literal["value", "action"]
Advantage = Literal["sampled", "all"]


@dataclasses.dataclass(frozen=True)
class ActorConfig(Config):
    """A run of actor-critic self-play; two runs with equal fields on one device end equal."""

    preset: Literal["quick", "cpu", "gpu"] = "cpu"
    """Where the defaults of the other flags come from."""
    mixed: bool = True
    """Multiply in bfloat16 and accumulate in float32. Parameters stay float32. Presets do where that is faster."""
    games: int = 512
    """Games in a batch, played in lockstep over all devices."""
    epochs: int = 1
    """Times that each batch learns from its samples."""
    minibatch: int = 2048
    """Samples in a step of the optimizer, over all devices."""
    learning_rate: float = 1e-3
    """Of Adam, at the start."""
    eval_every: int = 200
    """Batches between evaluations against Random, If and Greed, each followed by a checkpoint."""
    eval_deals: int = 512
    """Deals of an evaluation, each played at two tables; always the same deals."""
    network: Network = "actor"
    """The policy's, which reads what one seat sees."""
    critic_network: CriticNetwork = "critic"
    """The critic's, which reads all hands and is used in training only."""
    critic: Critic = "action"
    """value: points to come by position; action: by position and card."""
    advantage: Advantage = "all"
    """sampled: of the card that was played; all: of every legal card, by the critic's own numbers (critic action),
    with what the game adds for the card that was played."""
    lam: float = 0.9
    """λ of returns: 0 trusts the critic one ply on, 1 the end of the deal alone."""
    clip: float = 0.2
    """PPO's ε: a probability that has moved by more than this share gains nothing from moving on."""
    entropy: float = 0.02
    """Weight of the policy's entropy (nats), at the start."""
    entropy_end: float = 0.002
    """And at the end of the schedule."""
    critic_weight: float = 1.0
    """Weight of the critic's squared error, in units of (100 points)²."""
    own_value_weight: float = 0.1
    """Weight of the squared error of the actor's own value, which sees no hidden hands."""
    hands_weight: float = 0.1
    """Weight of what the actor gets wrong about hidden hands (nats a card)."""
    max_norm: float = 1.0
    """Longer gradients are shortened to this length."""
    start: str = ""
    """A model that the actor starts from, a file or a name; empty: random parameters."""
    start_critic: str = ""
    """A model that the critic starts from, as ``best-critic.model`` beside an actor's ``best.model``."""
    opponent: str = ""
    """A player, such as greed, that sits at the other team's seats and does not learn: the run becomes a best response
    to it. Empty: the actor sits at all seats."""
    schedule_batches: int = 1900
    """Lower the learning rate to a twentieth (along a cosine) and the entropy's weight (along a line) over so many
    batches."""

    AT_LEAST: ClassVar[dict[str, float]] = Config.AT_LEAST | {
        "entropy": 0,
        "entropy_end": 0,
        "critic_weight": 0,
        "own_value_weight": 0,
        "hands_weight": 0,
        "schedule_batches": 1,
    }

    def problem(self) -> str | None:
        """The first field that is out of range, as a flag, and what would be right."""
        if not 0 <= self.lam <= 1:
            return self.wrong("lam", "from 0 to 1")
        for field in ("clip", "max_norm"):
            if not getattr(self, field) > 0:
                return self.wrong(field, "greater than 0")
        if self.advantage == "all" and self.critic != "action":
            return "--advantage all: needs --critic action"
        starts = (
            ("--start", self.start, "--network", self.network),
            ("--start-critic", self.start_critic, "--critic-network", self.critic_network),
        )
        for flag, start, of, network in starts:
            try:
                if not start:
                    continue
                found = models.load(start).network
                if networks.multiplying(found, self.mixed) != networks.make(network, self.mixed):
                    return f"{flag} {start}: its network is not {of} {network}"
            except ValueError as error:
                return f"{flag}: {error}"
        try:
            if self.opponent:
                players.make(self.opponent)
        except ValueError as error:
            return f"--opponent: {error}"
        return super().problem()


PRESETS: dict[str, ActorConfig] = {
    "quick": ActorConfig(
        preset="quick",
        eval_every=100,
        network="actor-small",
        critic_network="critic-small",
        schedule_batches=550,
    ),
    "cpu": ActorConfig(),
    "gpu": ActorConfig(
        preset="gpu",
        games=8192,
        epochs=2,
        minibatch=16384,
        eval_every=100,
        network="actor-large",
        critic_network="fc16",
        schedule_batches=4000,
    ),
}
"""``quick``: ten minutes on two cores; ``cpu``: an hour on two cores; ``gpu``: half an hour on a GPU."""

BATCHES = {name: preset.schedule_batches for name, preset in PRESETS.items()}
"""Batches of a whole run."""

MINUTES = {"quick": 10.0, "cpu": 60.0, "gpu": 30.0}
"""Wall time of a whole run, where that comes first."""
