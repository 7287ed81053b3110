"""ScrofaZero's training: open-hand self-play with tree search. ``python -m train.selfplay``."""

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

from gongzhu_jax import features, game, networks, search
from gongzhu_jax.models import Model
from gongzhu_jax.players import Player
from gongzhu_jax.players.raw import from_model
from train import command, devices, learner, rollouts
from train.command import Command, Program
from train.rollouts import Samples
from train.selfplay_config import BATCHES, MINUTES, PRESETS, SelfPlayConfig


class State(NamedTuple):
    """What training changes; keys are made from the seed and the number of a batch.

    params: of the network.
    opt_state: of the optimizer.
    buffer: ``[buffer · 52 · games]`` samples; batch i is at place i mod buffer.
    """

    params: Any
    opt_state: optax.OptState
    buffer: Samples


class SelfPlay:
    """One batch of ScrofaZero's training, as :mod:`train.loop` runs it."""

    numbers = ("loss", "loss_policy", "loss_value", "learning_rate", "play_seconds", "learn_seconds")

    def __init__(self, config: SelfPlayConfig, mesh: Mesh) -> None:
        """Prepare; nothing is computed yet."""
        self.config, self.mesh = config, mesh
        self.what = f"{config.network}, one-step search in sampled worlds"
        self.network = networks.make(config.network, config.mixed)
        self.settings = config.search_on(mesh.devices.flat[0].platform)
        self.schedule = learning_rate(config)
        self.transform = learner.optimizer(
            self.schedule, config.b1, config.b2, config.eps, config.weight_decay
        )
        self._play = jax.jit(self._play_games)
        self._store = jax.jit(self._store_batch, donate_argnums=(0,))

    def init(self) -> State:
        """The state before the first batch, whole on every device."""

        def fresh() -> State:
            params = networks.init(self.network, jax.random.key(self.config.seed))
            return State(params, self.transform.init(params), self._empty_buffer())

        return jax.jit(lambda: devices.whole(self.mesh, fresh()))()

    def _empty_buffer(self) -> Samples:
        num = self.config.buffer * self.config.positions
        return Samples(
            inputs=jnp.zeros((num, features.SIZE), jnp.bool_),
            policy=jnp.zeros((num, 52), jnp.float32),
            value=jnp.zeros(num, jnp.float32),
            legal=jnp.zeros((num, 52), jnp.bool_),
        )

    def batch(self, state: State, index: int) -> tuple[State, dict[str, float]]:
        """Play a batch of games, learn from the buffer; the state is given up.

        Returns:
          The new state and the batch's numbers, on the host.
        """
        config = self.config
        key = jax.random.fold_in(jax.random.key(config.seed), index + 1)
        play_key, learn_key = jax.random.split(key)
        start = time.perf_counter()
        samples = self.play(jax.random.split(play_key, config.games), state.params)
        buffer = self._store(state.buffer, samples, index % config.buffer)
        jax.block_until_ready(buffer)
        played = time.perf_counter()
        params, opt_state, losses = learner.learn(
            learn_key,
            state.params,
            state.opt_state,
            buffer,
            min(index + 1, config.buffer) * config.positions,
            self.network,
            self.transform,
            config.epochs,
            config.minibatch,
            config.value_weight,
            self.mesh,
        )
        losses = devices.to_host(losses)
        learned = time.perf_counter()
        numbers = {
            "loss": float(losses.total),
            "loss_policy": float(losses.policy),
            "loss_value": float(losses.value),
            "learning_rate": float(self.schedule(steps_before(config, index + 1))),
            "play_seconds": played - start,
            "learn_seconds": learned - played,
        }
        return State(params, opt_state, buffer), numbers

    def play(self, keys: jax.Array, params: Any) -> Samples:
        """Games ``[G]`` of a batch, over all devices or cores: Samples ``[52 · G]``."""
        return devices.in_parts(self.mesh, keys, functools.partial(self._play, params=params))

    def _play_games(self, keys: jax.Array, params: Any) -> Samples:
        def local(keys: jax.Array, params: Any) -> Samples:
            return rollouts.play_games(keys, params, self.network, self.settings)[0]

        play = jax.shard_map(
            local,
            mesh=self.mesh,
            in_specs=(devices.SPLIT, devices.WHOLE),
            out_specs=devices.SPLIT,
            check_vma=False,
        )
        return devices.whole(self.mesh, play(keys, params))

    def _store_batch(self, buffer: Samples, samples: Samples, place: jax.Array) -> Samples:
        at = place * self.config.positions
        return jax.tree.map(
            lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new, at, axis=0), buffer, samples
        )

    def player(self, params: Any) -> Player:
        """The raw network as a player, for evaluation."""
        return from_model(Model(self.network, params, {}), "network", worlds=self.config.eval_worlds)

    def models(self, state: State, info: dict[str, Any]) -> dict[str, Model]:
        """The network as it is now, on the host."""
        return {"": Model(self.network, devices.to_host(state.params), info)}

    def spec(self, path: Path) -> str:
        """The raw player with a model."""
        return f"raw:model={path}"


def learning_rate(config: SelfPlayConfig) -> optax.Schedule:
    """By optimizer steps: constant, or along a cosine to a twentieth."""
    if not config.decay_batches:
        return optax.constant_schedule(config.learning_rate)
    return optax.cosine_decay_schedule(
        config.learning_rate, steps_before(config, config.decay_batches), alpha=0.05
    )


def steps_before(config: SelfPlayConfig, batch: int) -> int:
    """Steps of the optimizer before a batch."""
    first = min(batch, config.buffer)
    filled = sum((i + 1) * config.positions // config.minibatch for i in range(first))
    return config.epochs * (filled + (batch - first) * (config.buffer * config.positions // config.minibatch))


def memory(config: SelfPlayConfig, mesh: Mesh) -> tuple[int, int]:
    """Bytes on one device that do not depend on the number of games, and bytes for each game of a batch."""
    network = networks.make(config.network, config.mixed)
    params = networks.count(jax.eval_shape(lambda: networks.init(network, jax.random.key(0))))
    settings = config.search_on(mesh.devices.flat[0].platform)
    of_input = 4 * networks.activations(network)
    searching = min(settings.chunk, config.games) * (search.bytes_per_root(settings) + of_input)
    learning = 2 * of_input * config.minibatch // mesh.size
    sample = features.SIZE + 4 * 52 + 4 + 52
    # Parameters, two moments, gradient, update and a copy; the buffer old and new, and the batch played and gathered.
    return 6 * 4 * params + searching + learning, game.NUM_PLIES * sample * (2 * config.buffer + 2)


@dataclasses.dataclass(frozen=True)
class SelfPlayCommand(Command):
    """Train by self-play: an empty folder becomes a player, which is measured against fixed opponents on the way.

    Without --preset: quick on a CPU, paper with an accelerator. Ctrl-C saves and stops; --resume goes on as if
    nothing had happened. Exit status: 0 done, 1 an error, 2 a wrong command, 130 interrupted.

    Examples::

        python -m train.selfplay
        python -m train.selfplay --preset small --out runs/small --minutes 110
        python -m train.selfplay --out runs/small --resume --batches 2000
        python -m train.selfplay --preset paper --games 4096 --minibatch 4096 --learning-rate 4e-4
    """

    config: Annotated[SelfPlayConfig, tyro.conf.arg(name="")]


PROGRAM = Program("train.selfplay", SelfPlayCommand, SelfPlay, memory, PRESETS, BATCHES, MINUTES)


def main(args: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    return command.main(PROGRAM, args)


if __name__ == "__main__":
    sys.exit(main())
