"""Expert iteration: an actor learns what its own search would play. ``python -m train.distil``.

All four seats think as the player ``deep`` does, from Views; what was looked into changes the actor's probabilities,
cards are drawn from the changed ones, and the actor learns them (Anthony, Tian and Barber 2017). The search that plays
is always that of the parameters as they are.
"""

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

import gongzhu_jax as gz
from gongzhu_jax import features, game, models, networks, view_features
from gongzhu_jax.models import Model
from gongzhu_jax.players import Player
from gongzhu_jax.players.actor import from_model as one_pass
from gongzhu_jax.players.deep import Explanation
from gongzhu_jax.players.deep import from_model as searching
from train import command, devices, experience, minibatches, policy_gradient
from train.command import Command, Program
from train.distil_config import BATCHES, MINUTES, PRESETS, DistilConfig


class Searched(NamedTuple):
    """What is learned from, ``[N]`` decisions, game by game.

    seen: ``bool[N, 768]``, the actor's input.
    hands: ``bool[N, 434]``, who holds what, as a critic reads it.
    policy: ``float32[N, 52]``, probabilities of cards after the search.
    to_come: ``float32[N]``, hundreds of points that the mover's team won over the other from here on.
    counts: ``bool[N]``, whether there was a choice.
    """

    seen: jax.Array
    hands: jax.Array
    policy: jax.Array
    to_come: jax.Array
    counts: jax.Array


class Losses(NamedTuple):
    """Of a minibatch or the mean of many: ``float32[…]``.

    total: what is minimised.
    policy: KL(search ‖ actor) in nats.
    own_value: root mean square error of the actor's own value, in points.
    hands: of what the actor believes of hidden hands, nats a card.
    """

    total: jax.Array
    policy: jax.Array
    own_value: jax.Array
    hands: jax.Array


class State(NamedTuple):
    """What training changes; keys are made from the seed and the number of a batch.

    params: of the actor.
    opt_state: of the optimizer.
    buffer: ``[buffer · 52 · games]`` samples; batch i is at place i mod buffer.
    """

    params: Any
    opt_state: optax.OptState
    buffer: Searched


def improved(why: Explanation, temperature: float, spread: float) -> jax.Array:
    """Probabilities of cards after a search: ``float32[B, 52]``.

    Those of the actor times exp(gain / temperature). A gain is what was found times s² / (s² + error²), its mean given
    what was found where true gains have the standard deviation s, ``spread``.
    """
    known = jnp.isfinite(why.gain)
    sure = spread**2 / (spread**2 + jnp.square(why.error))
    gain = jnp.where(known, why.gain, 0.0) * jnp.where(known, sure, 0.0)
    return jax.nn.softmax(why.policy + gain / temperature)


def play_games(
    keys: jax.Array, player: Player, temperature: float, spread: float
) -> tuple[Searched, gz.State]:
    """Deal and play games to the end, all seats searching.

    Args:
      keys: ``[G]``, one a game: its deal and its luck depend on nothing else.
      player: explains as ``deep`` does.

    Returns:
      ``[52 · G]``, and the States at the end, ``[G]``.
    """
    assert player.explain is not None
    explain = player.explain
    deal_keys, luck = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    states = jax.vmap(gz.deal)(deal_keys)

    def ply(states: gz.State, number: jax.Array) -> tuple[gz.State, Any]:
        views = jax.vmap(lambda s: gz.view(s, game.mover(s)))(states)
        of_search, of_draw = jnp.moveaxis(
            jax.vmap(lambda k: jax.random.split(jax.random.fold_in(k, number)))(luck), 1, 0
        )
        policy = improved(explain(of_search, views), temperature, spread)
        card = jax.vmap(jax.random.categorical)(of_draw, jnp.log(policy)).astype(jnp.int8)
        ours = jnp.where(jax.vmap(game.mover_team)(states) == 0, 1, -1)
        found = (
            jax.vmap(view_features.encode)(views),
            jax.vmap(features.encode)(states).astype(jnp.bool_),
            policy,
            ours,
            jax.vmap(game.margin)(states),
        )
        return jax.vmap(gz.step)(states, card), found

    ended, (seen, hands, policy, ours, made) = jax.lax.scan(ply, states, jnp.arange(game.NUM_PLIES))
    to_come = ours * (jax.vmap(game.margin)(ended) - made) / experience.UNIT
    counts = jnp.sum(experience.legal_of(seen), axis=-1) > 1
    samples = Searched(seen, hands, policy, to_come, counts)
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]), samples), ended


def loss(actor: Any, params: Any, samples: Searched, own_value_weight: float, hands_weight: float) -> Losses:
    """KL(search ‖ actor), and errors of what else the actor says."""
    numbers, value, odds = networks.apply_with_hands(actor, params, samples.seen.astype(jnp.float32))
    log_policy = experience.log_policy_of(numbers, experience.legal_of(samples.seen))
    target = samples.policy
    log_target = jnp.log(jnp.where(target > 0, target, 1.0))
    divergence = jnp.mean(jnp.sum(jnp.where(target > 0, target * (log_target - log_policy), 0.0), axis=-1))
    own_error = jnp.mean(jnp.square(value / experience.UNIT - samples.to_come))
    hands = jnp.mean(policy_gradient.hands_error(odds, samples.seen, samples.hands))
    total = divergence + own_value_weight * own_error + hands_weight * hands
    return Losses(total, divergence, experience.UNIT * jnp.sqrt(own_error), hands)


class Distil:
    """One batch of expert iteration, as :mod:`train.loop` runs it."""

    numbers = (
        *("loss", "loss_policy", "loss_value", "loss_hands"),
        *("learning_rate", "play_seconds", "learn_seconds"),
    )

    def __init__(self, config: DistilConfig, mesh: Mesh) -> None:
        """Prepare; nothing is computed yet."""
        self.config, self.mesh = config, mesh
        self.what = f"{config.start} from its own search, {config.simulations} playouts a decision"
        self.start = models.load(config.start)
        self.actor = networks.multiplying(self.start.network, config.mixed)
        self.critic = models.load(config.critic) if config.horizon < game.NUM_PLIES else None
        self.transform = policy_gradient.optimizer(config.b1, config.b2, config.eps, config.max_norm)
        self.fall = optax.cosine_decay_schedule(1.0, config.schedule_batches, alpha=0.05)
        self._play = jax.jit(self._play_games)
        self._learn = jax.jit(self._learn_batch, donate_argnums=(0,))

    def init(self) -> State:
        """The state before the first batch, whole on every device."""
        num = self.config.buffer * self.config.positions

        def fresh() -> State:
            params = jax.tree.map(jnp.asarray, self.start.params)
            buffer = Searched(
                seen=jnp.zeros((num, view_features.SIZE), jnp.bool_),
                hands=jnp.zeros((num, features.SIZE), jnp.bool_),
                policy=jnp.zeros((num, 52), jnp.float32),
                to_come=jnp.zeros(num, jnp.float32),
                counts=jnp.zeros(num, jnp.bool_),
            )
            return State(params, self.transform.init(params), buffer)

        return jax.jit(lambda: devices.whole(self.mesh, fresh()))()

    def batch(self, state: State, index: int) -> tuple[State, dict[str, float]]:
        """Play a batch of games, learn from the buffer; the state is given up.

        Returns:
          The new state and the batch's numbers, on the host.
        """
        key = jax.random.fold_in(jax.random.key(self.config.seed), index + 1)
        play_key, learn_key = jax.random.split(key)
        start = time.perf_counter()
        keys = jax.random.split(play_key, self.config.games)
        samples = devices.in_parts(
            self.mesh, keys, functools.partial(self._play, params=state.params), of_games=PART
        )
        jax.block_until_ready(samples)
        played = time.perf_counter()
        state, losses, rate = self._learn(state, learn_key, samples, index)
        losses, rate = devices.to_host((losses, rate))
        numbers = {
            "loss": float(losses.total),
            "loss_policy": float(losses.policy),
            "loss_value": float(losses.own_value),
            "loss_hands": float(losses.hands),
            "learning_rate": float(rate),
            "play_seconds": played - start,
            "learn_seconds": time.perf_counter() - played,
        }
        return state, numbers

    def _play_games(self, keys: jax.Array, params: Any) -> Searched:
        config = self.config

        def local(keys: jax.Array, params: Any) -> Searched:
            model = Model(self.actor, params, {})
            player = searching(model, "search", config.search(), self.critic)
            return play_games(keys, player, config.temperature, config.spread)[0]

        play = jax.shard_map(
            local,
            mesh=self.mesh,
            in_specs=(devices.SPLIT, devices.WHOLE),
            out_specs=devices.SPLIT,
            check_vma=False,
        )
        return devices.whole(self.mesh, play(keys, params))

    def _learn_batch(
        self, state: State, key: jax.Array, samples: Searched, index: jax.Array
    ) -> tuple[State, Losses, jax.Array]:
        config = self.config
        at = index % config.buffer * config.positions
        buffer = jax.tree.map(
            lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new, at, axis=0), state.buffer, samples
        )
        rate = config.learning_rate * self.fall(index)

        def find(params: Any, batch: Searched) -> Losses:
            return loss(self.actor, params, batch, config.own_value_weight, config.hands_weight)

        params, opt_state, losses = minibatches.learn(
            key,
            state.params,
            state.opt_state,
            buffer,
            buffer.counts,
            find,
            self.transform,
            rate,
            config.epochs,
            config.minibatch,
            self.mesh,
        )
        return State(params, opt_state, buffer), losses, rate

    def player(self, params: Any) -> Player:
        """The actor in one forward pass, for evaluation."""
        return one_pass(Model(self.actor, params, {}), "actor")

    def models(self, state: State, info: dict[str, Any]) -> dict[str, Model]:
        """The actor as it is now, on the host; it tells what it started from."""
        about = info | {"start": self.start.info}
        return {"": Model(self.actor, devices.to_host(state.params), about)}

    def spec(self, path: Path) -> str:
        """The one-pass player with a model."""
        return f"actor:model={path}"


PART = 32
"""Games that one thread plays at a time on a CPU."""


def memory(config: DistilConfig, mesh: Mesh) -> tuple[int, int]:
    """Bytes on one device that do not depend on the number of games, and bytes for each game of a batch."""
    network = models.load(config.start).network
    params = networks.count(jax.eval_shape(lambda: networks.init(network, jax.random.key(0))))
    of_input = 4 * networks.activations(network)
    learning = 3 * of_input * config.minibatch // mesh.size
    sample = view_features.SIZE + features.SIZE + 4 * 52 + 4 + 1
    # What every playout ends with, and worlds with the inputs that weigh them.
    searching = 4 * 52 * config.simulations // 2 + config.proposals * (24 + view_features.SIZE)
    return 6 * 4 * params + learning, game.NUM_PLIES * sample * (2 * config.buffer + 2) + searching


@dataclasses.dataclass(frozen=True)
class DistilCommand(Command):
    """Teach an actor what its own search would play, so that one forward pass plays more like the player deep.

    Without --preset: cpu on a CPU, gpu with an accelerator. Ctrl-C saves and stops; --resume goes on as if nothing had
    happened. Exit status: 0 done, 1 an error, 2 a wrong command, 130 interrupted.

    Examples::

        python -m train.distil --out runs/distil
        python -m train.distil --start runs/actor/best.model --simulations 64
    """

    config: Annotated[DistilConfig, tyro.conf.arg(name="")]


PROGRAM = Program("train.distil", DistilCommand, Distil, memory, PRESETS, BATCHES, MINUTES)


def main(args: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    return command.main(PROGRAM, args)


if __name__ == "__main__":
    sys.exit(main())
