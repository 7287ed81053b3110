"""Actor-critic self-play: a policy for hidden hands and a critic that sees them. ``python -m train.actor``."""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import tyro
from jax.sharding import Mesh

from gongzhu_jax import features, game, models, networks, players, view_features
from gongzhu_jax.models import Model
from gongzhu_jax.players import Player
from gongzhu_jax.players.actor import from_model
from train import command, devices, experience, policy_gradient
from train.actor_config import BATCHES, MINUTES, PRESETS, ActorConfig
from train.command import Command, Program


class State(NamedTuple):
    """What training changes; keys are made from the seed and the number of a batch.

    params: of the "actor" and the "critic".
    opt_state: of the optimizer.
    """

    params: dict[str, Any]
    opt_state: optax.OptState


class ActorCritic:
    """One batch of the actor's training, as :mod:`train.loop` runs it."""

    numbers = (
        *("loss", "loss_policy", "loss_value", "loss_own_value", "loss_hands", "entropy", "moved"),
        *("learning_rate", "play_seconds", "learn_seconds"),
    )

    def __init__(self, config: ActorConfig, mesh: Mesh) -> None:
        """Prepare; nothing is computed yet."""
        self.config, self.mesh = config, mesh
        self.what = f"{config.network}, one forward pass"
        self.actor = networks.make(config.network, config.mixed)
        self.critic = networks.make(config.critic_network, config.mixed)
        self.transform = policy_gradient.optimizer(config.b1, config.b2, config.eps, config.max_norm)
        self.fall = optax.cosine_decay_schedule(1.0, config.schedule_batches, alpha=0.05)
        self.opponent = players.make(config.opponent) if config.opponent else None
        self.origin = {"start": models.load(config.start).info} if config.start else {}
        self._play = jax.jit(self._play_games)
        self._learn = jax.jit(self._learn_batch, donate_argnums=(0,))

    def init(self) -> State:
        """The state before the first batch, whole on every device."""

        def fresh() -> State:
            keys = jax.random.split(jax.random.key(self.config.seed))
            start, start_critic = self.config.start, self.config.start_critic
            params = {
                "actor": models.load(start).params if start else networks.init(self.actor, keys[0]),
                "critic": models.load(start_critic).params
                if start_critic
                else networks.init(self.critic, keys[1]),
            }
            return State(params, self.transform.init(params))

        return jax.jit(lambda: devices.whole(self.mesh, fresh()))()

    def batch(self, state: State, index: int) -> tuple[State, dict[str, float]]:
        """Play a batch of games and learn from it; the state is given up.

        Returns:
          The new state and the batch's numbers, on the host.
        """
        key = jax.random.fold_in(jax.random.key(self.config.seed), index + 1)
        play_key, learn_key = jax.random.split(key)
        start = time.perf_counter()
        keys = jax.random.split(play_key, self.config.games)
        samples = devices.in_parts(self.mesh, keys, functools.partial(self._play, params=state.params))
        jax.block_until_ready(samples)
        played = time.perf_counter()
        state, losses, rate = self._learn(state, learn_key, samples, index)
        losses, rate = devices.to_host((losses, rate))
        learned = time.perf_counter()
        numbers = {
            "loss": float(losses.total),
            "loss_policy": float(losses.policy),
            "loss_value": float(losses.critic),
            "loss_own_value": float(losses.own_value),
            "loss_hands": float(losses.hands),
            "entropy": float(losses.entropy),
            "moved": float(losses.moved),
            "learning_rate": float(rate),
            "play_seconds": played - start,
            "learn_seconds": learned - played,
        }
        return state, numbers

    def _play_games(self, keys: jax.Array, params: dict[str, Any]) -> experience.Experience:
        config = self.config

        def local(keys: jax.Array, params: dict[str, Any]) -> experience.Experience:
            by_card, all_cards = config.critic == "action", config.advantage == "all"
            return experience.play_games(
                keys, self.actor, self.critic, params, config.lam, by_card, all_cards, self.opponent
            )[0]

        play = jax.shard_map(
            local,
            mesh=self.mesh,
            in_specs=(devices.SPLIT, devices.WHOLE),
            out_specs=devices.SPLIT,
            check_vma=False,
        )
        return devices.whole(self.mesh, play(keys, params))

    def _learn_batch(
        self, state: State, key: jax.Array, samples: experience.Experience, index: jax.Array
    ) -> tuple[State, policy_gradient.Losses, jax.Array]:
        config = self.config
        done = jnp.minimum(index / config.schedule_batches, 1.0)
        weights = policy_gradient.Weights(
            config.clip,
            config.critic_weight,
            config.own_value_weight,
            config.hands_weight,
            config.entropy + (config.entropy_end - config.entropy) * done,
        )
        rate = config.learning_rate * self.fall(index)
        params, opt_state, losses = policy_gradient.learn(
            key,
            state.params,
            state.opt_state,
            policy_gradient.standardize(samples),
            self.actor,
            self.critic,
            self.transform,
            rate,
            weights,
            config.critic == "action",
            config.epochs,
            config.minibatch,
            self.mesh,
        )
        return State(params, opt_state), losses, rate

    def player(self, params: dict[str, Any]) -> Player:
        """The actor as a player, for evaluation."""
        return from_model(Model(self.actor, params["actor"], {}), "actor")

    def models(self, state: State, info: dict[str, Any]) -> dict[str, Model]:
        """The actor and its critic as they are now, on the host; they tell what the actor started from."""
        params = devices.to_host(state.params)
        info = info | self.origin
        return {
            "": Model(self.actor, params["actor"], info),
            "critic": Model(self.critic, params["critic"], info),
        }

    def spec(self, path: Path) -> str:
        """The one-pass player with a model."""
        return f"actor:model={path}"


def memory(config: ActorConfig, mesh: Mesh) -> tuple[int, int]:
    """Bytes on one device that do not depend on the number of games, and bytes for each game of a batch."""
    both = networks.make(config.network, config.mixed), networks.make(config.critic_network, config.mixed)
    params = sum(
        networks.count(jax.eval_shape(lambda n=n: networks.init(n, jax.random.key(0)))) for n in both
    )
    of_input = 4 * sum(networks.activations(n) for n in both)
    learning = 3 * of_input * config.minibatch // mesh.size
    sample = view_features.SIZE + features.SIZE + 4 * 52 + 4 * 52 + 1 + 4 + 1
    # Parameters, two moments, gradient, update and a copy; samples played, gathered, and by ply with what they judge.
    return 6 * 4 * params + learning, game.NUM_PLIES * (3 * sample + 4 * 52) + of_input // mesh.size


@dataclasses.dataclass(frozen=True)
class ActorCommand(Command):
    """Train a player that decides in one forward pass from what its seat knows, by actor-critic self-play.

    The critic sees all hands and is needed in training only. Without --preset: quick on a CPU, gpu with an accelerator.
    Ctrl-C saves and stops; --resume goes on as if nothing had happened. Exit status: 0 done, 1 an error, 2 a wrong
    command, 130 interrupted.

    Examples::

        python -m train.actor
        python -m train.actor --preset cpu --out runs/actor
        python -m train.actor --out runs/actor --resume --batches 8000
        python -m train.actor --preset cpu --critic value --advantage sampled
        python -m train.actor --start runs/actor/best.model --start-critic runs/actor/best-critic.model
        python -m train.actor --preset quick --opponent greed --out runs/against_greed
    """

    config: Annotated[ActorConfig, tyro.conf.arg(name="")]


PROGRAM = Program("train.actor", ActorCommand, ActorCritic, memory, PRESETS, BATCHES, MINUTES)


def main(args: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    return command.main(PROGRAM, args)


if __name__ == "__main__":
    sys.exit(main())
