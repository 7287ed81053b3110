"""What defines a training run: every field is a flag of the command and is saved with the run."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, ClassVar, TypeVar

FORMAT = 1
"""Of run folders; raised when an older run can no longer be continued."""

C = TypeVar("C", bound="Config")


@dataclasses.dataclass(frozen=True)
class Config:
    """What every run has; algorithms add fields. Two runs with equal fields on one device end equal."""

    preset: str = ""
    """Where the defaults of the other flags come from."""
    seed: int = 0
    """Of the first parameters, the deals and all luck."""
    mixed: bool = False
    """Multiply in bfloat16 and accumulate in float32. Parameters stay float32. Presets do where that is faster."""
    games: int = 64
    """Games in a batch, played in lockstep over all devices."""
    epochs: int = 3
    """Times that each batch learns from its samples."""
    minibatch: int = 64
    """Samples in a step of the optimizer, over all devices."""
    learning_rate: float = 5e-5
    """Of Adam, at the start."""
    b1: float = 0.9
    """Adam's β₁."""
    b2: float = 0.999
    """Adam's β₂."""
    eps: float = 1e-7
    """Adam's ε."""
    eval_every: int = 40
    """Batches between evaluations against Random, If and Greed, each followed by a checkpoint."""
    eval_deals: int = 256
    """Deals of an evaluation, each played at two tables; always the same deals."""

    AT_LEAST: ClassVar[dict[str, float]] = {
        "seed": 0,
        "games": 1,
        "epochs": 1,
        "minibatch": 1,
        "eval_every": 1,
        "eval_deals": 2,
    }
    """The least that fields may be."""

    @property
    def positions(self) -> int:
        """Samples of a batch."""
        return 52 * self.games

    def problem(self) -> str | None:
        """The first field that is out of range, as a flag, and what would be right."""
        for field, low in self.AT_LEAST.items():
            if not getattr(self, field) >= low:
                return self.wrong(field, f"at least {low}")
        for field in ("learning_rate", "eps"):
            if not 0 < getattr(self, field) < math.inf:
                return self.wrong(field, "greater than 0")
        for field in ("b1", "b2"):
            if not 0 <= getattr(self, field) < 1:
                return self.wrong(field, "at least 0 and less than 1")
        if self.seed >= 2**31:
            return self.wrong("seed", "less than 2³¹")
        if self.minibatch > self.positions:
            most = f"at most the {self.positions} positions of a batch of {self.games} games"
            return self.wrong("minibatch", most)
        return None

    def wrong(self, field: str, right: str) -> str:
        """What to say of a field that is out of range."""
        return f"{flag(field)} {getattr(self, field)}: must be {right}"


def flag(field: str) -> str:
    """The flag that sets a field."""
    return f"--{field.replace('_', '-')}"


def to_json(config: Config) -> dict[str, Any]:
    """The fields of a config."""
    return dataclasses.asdict(config)


def save(config: Config, path: Path) -> None:
    """Write a config as JSON."""
    content = {"format": FORMAT, "config": to_json(config)}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load(path: Path, kind: type[C]) -> C:
    """Read a config of a kind.

    Raises:
      ValueError: the file is missing or damaged, of another algorithm or version; the text names the file and the
        field.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return from_json(content["config"], content["format"], kind)
    except OSError as error:
        raise ValueError(f"{path}: cannot read the run's config: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not the config of a run: {error}") from None


def from_json(fields: dict[str, Any], version: int, kind: type[C]) -> C:
    """A config from its saved fields.

    Raises:
      ValueError: another version of run folders, or other fields, which are named.
    """
    if version != FORMAT:
        raise ValueError(f"format is {version}, this version writes {FORMAT}")
    known = {f.name for f in dataclasses.fields(kind)}
    if strange := sorted(known ^ set(fields)):
        raise ValueError(f"fields of another algorithm or version: {', '.join(strange)}")
    return kind(**fields)


def difference(old: Config, new: Config) -> str | None:
    """The first field in which two configs of a kind differ, in words."""
    for field in dataclasses.fields(new):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after:
            return f"{flag(field.name)} is {before} there, {after} here"
    return None
