"""Policy-and-value networks, in Flax linen: parameters are plain pytrees.

A network reads open hands (``float32[..., 434]``, :mod:`gongzhu_jax.features`), as those of ScrofaZero do (paper
section 4), or what one seat sees (``float32[..., 768]``, :mod:`gongzhu_jax.view_features`), as actors do. It gives 52
policy numbers and one value in points. ScrofaZero's policy numbers are meant to be multiplied by the legal mask before
a softmax (the paper's loss); those of actors are masked.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from gongzhu_jax import features, view_features
from gongzhu_jax.game import State

_NOT_SIZES = {"parent", "name"}  # fields that every Flax module has

VALUE_SCALE = 10.0
"""The value head's output is multiplied by this, so that the head works in tens of points."""

Reads = Literal["open", "view"]
INPUTS: dict[str, int] = {"open": features.SIZE, "view": view_features.SIZE}
"""Numbers that a network reads: of a State with open hands, or of one seat's View."""


def mixed_dot_general(lhs: jax.Array, rhs: jax.Array, dimension_numbers: Any, **options: Any) -> jax.Array:
    """A dense layer's ``lax.dot_general`` with bfloat16 operands and float32 accumulation, in its gradients too."""
    del (
        dimension_numbers,
        options,
    )  # a dense layer's: last axis of lhs with the first of rhs; precision is ours
    rows = _mixed_dot(lhs.reshape(-1, lhs.shape[-1]), rhs)
    return rows.reshape(*lhs.shape[:-1], rhs.shape[-1])


@jax.custom_vjp
def _mixed_dot(x: jax.Array, w: jax.Array) -> jax.Array:
    """``float32[B, K] @ float32[K, M]`` in bfloat16."""
    return _bfloat16_dot(x, w, 1, 0)


def _bfloat16_dot(x: jax.Array, y: jax.Array, axis_x: int, axis_y: int) -> jax.Array:
    dims = (((axis_x,), (axis_y,)), ((), ()))
    x, y = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
    return jax.lax.dot_general(x, y, dims, preferred_element_type=jnp.float32)


def _mixed_dot_forward(x: jax.Array, w: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _mixed_dot(x, w), (x.astype(jnp.bfloat16), w.astype(jnp.bfloat16))


def _mixed_dot_backward(kept: tuple[jax.Array, jax.Array], slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, w = kept
    # A sum over the first axes runs at a third of the speed on CPUs. An explicit transpose is folded back into
    # that sum by the compiler, a transpose with its rows in reverse is not.
    by_weight = jnp.flip(_bfloat16_dot(jnp.flip(x.T, 0), slope, 1, 0), 0)
    return _bfloat16_dot(slope, w, 1, 1), by_weight


_mixed_dot.defvjp(_mixed_dot_forward, _mixed_dot_backward)


class FullyConnected(nn.Module):
    """Fully connected, ReLU, skip connections, no normalisation.

    Three layers, then residual blocks ``x + relu(W2 relu(W1 x))`` of the last width, then two heads.

    Attributes:
      widths: of the first three layers; the last one is the width of the blocks.
      blocks: how many residual blocks.
      mixed: multiply in bfloat16 and accumulate in float32; parameters stay float32.
      reads: what its input is made from, a key of :data:`INPUTS`.
      multiple: zeros are added to the input up to a multiple of this; the matrix units of processors like 32.
      hands: a third head says who holds the hidden cards.
    """

    widths: tuple[int, ...] = (2048, 2048, 512)
    blocks: int = 10
    mixed: bool = False
    reads: Reads = "open"
    multiple: int = 1
    hands: bool = False

    @nn.compact
    def __call__(self, x: jax.Array, with_hands: bool = False) -> tuple[jax.Array, ...]:
        """Policy numbers ``float32[..., 52]`` and values in points ``float32[...]``; on request log odds of hands."""
        dense = functools.partial(nn.Dense, dot_general=mixed_dot_general) if self.mixed else nn.Dense
        if rest := -x.shape[-1] % self.multiple:
            x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, rest)])
        for i, width in enumerate(self.widths):
            x = nn.relu(dense(width, name=f"layer_{i}")(x))
        for i in range(self.blocks):
            inner = nn.relu(dense(self.widths[-1], name=f"block_{i}_in")(x))
            x = x + nn.relu(dense(self.widths[-1], name=f"block_{i}_out")(inner))
        heads = _heads(x, dense)
        if not self.hands:
            return heads
        odds = dense(3 * 52, name="hands")(x).reshape(*x.shape[:-1], 3, 52)
        return (*heads, odds) if with_hands else heads


class ResNet18(nn.Module):
    """The paper's third topology: ResNet-18 on the input laid out as a 21 × 21 picture, without normalisation."""

    widths: tuple[int, ...] = (64, 128, 256, 512)
    mixed: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Policy numbers ``float32[..., 52]`` and values in points ``float32[...]``."""
        batch = x.shape[:-1]
        side = 21
        x = jnp.pad(x.reshape(-1, x.shape[-1]), ((0, 0), (0, side * side - x.shape[-1])))
        x = x.reshape(-1, side, side, 1)
        dtype = jnp.bfloat16 if self.mixed else jnp.float32
        conv = functools.partial(nn.Conv, kernel_size=(3, 3), dtype=dtype)
        x = nn.relu(conv(self.widths[0])(x))
        for stage, width in enumerate(self.widths):
            for block in range(2):
                stride = 2 if stage and not block else 1
                inner = conv(width)(nn.relu(conv(width, strides=stride)(x)))
                if inner.shape != x.shape:
                    x = conv(width, kernel_size=(1, 1), strides=stride)(x)
                x = nn.relu(x + inner)
        policy, value = _heads(x.mean(axis=(1, 2)).astype(jnp.float32))
        return policy.reshape(*batch, 52), value.reshape(batch)


def _heads(x: jax.Array, dense: Callable[..., nn.Dense] = nn.Dense) -> tuple[jax.Array, jax.Array]:
    policy = dense(52, name="policy")(x)
    value = nn.Dense(1, name="value")(x)[..., 0]
    return policy, VALUE_SCALE * value


PRESETS: dict[str, nn.Module] = {
    "fc24": FullyConnected(),
    "fc16": FullyConnected(blocks=6),
    "fc-small": FullyConnected(widths=(512, 512, 256), blocks=3),
    "resnet18": ResNet18(),
    "critic-small": FullyConnected(widths=(256, 256), blocks=1, multiple=32),
    "critic": FullyConnected(widths=(512, 256), blocks=2, multiple=32),
    "actor-small": FullyConnected(widths=(256, 256), blocks=1, reads="view", hands=True),
    "actor": FullyConnected(widths=(512, 256), blocks=2, reads="view", hands=True),
    "actor-large": FullyConnected(widths=(1024, 512), blocks=3, reads="view", hands=True),
}
"""``fc24`` and ``fc16`` are the paper's "24 layers" and "16 layers"; ``fc-small`` has about 1 M parameters. Actors read
Views."""


def make(name: str, mixed: bool = False) -> nn.Module:
    """A network by the name of its preset.

    Raises:
      ValueError: there is no such preset.
    """
    if name not in PRESETS:
        raise ValueError(f"no network {name!r}; there are: {', '.join(PRESETS)}")
    return multiplying(PRESETS[name], mixed)


def multiplying(network: nn.Module, mixed: bool) -> nn.Module:
    """The same network, multiplying in bfloat16 (``mixed``) or in float32."""
    return network.clone(mixed=mixed)


def init(network: nn.Module, key: jax.Array) -> Any:
    """Fresh parameters, a pytree of ``float32`` arrays."""
    return network.init(key, jnp.zeros((1, input_size(network)), jnp.float32))


def reads(network: nn.Module) -> Reads:
    """What a network's input is made from."""
    return cast("Reads", getattr(network, "reads", "open"))


def input_size(network: nn.Module) -> int:
    """Numbers that a network reads."""
    return INPUTS[reads(network)]


def check_reads(network: nn.Module, needed: Reads) -> None:
    """Raise ValueError unless a network reads what is needed."""
    if reads(network) != needed:
        kinds = {"open": "open hands (as ScrofaZero's do)", "view": "one seat's View (as actors do)"}
        raise ValueError(f"the model reads {kinds[reads(network)]}, but {kinds[needed]} is needed here")


def apply(network: nn.Module, params: Any, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Policy numbers ``float32[..., 52]`` and values in points ``float32[...]`` of inputs ``float32[..., F]``."""
    return cast("tuple[jax.Array, jax.Array]", network.apply(params, inputs))


def apply_with_hands(
    network: nn.Module, params: Any, inputs: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """As :func:`apply`, and what a network with such a head believes of the hidden hands.

    Returns:
      Policy numbers, values, and ``float32[..., 3, 52]``: log odds, up to a constant for each card, that the next
      player, the partner and the last player hold it; see :func:`gongzhu_jax.worlds.sample_weighted`.

    Raises:
      ValueError: the network has no such head.
    """
    if not getattr(network, "hands", False):
        raise ValueError("the model says nothing about hands")
    return cast("tuple[jax.Array, jax.Array, jax.Array]", network.apply(params, inputs, with_hands=True))


def leaf_function(
    network: nn.Module, params: Any, encode: Callable[[State], jax.Array] = features.encode
) -> Callable[[State], tuple[jax.Array, jax.Array]]:
    """The network as what a search asks of leaves: States ``[C]`` to policy numbers and points still to come."""
    params = rounded(network, params)
    return lambda states: apply(network, params, jax.vmap(encode)(states))


def rounded(network: nn.Module, params: Any) -> Any:
    """Parameters as a mixed network multiplies them, to be rounded once and not at every call in a loop.

    The weights of its dense layers but that of the value become bfloat16; the network computes the same with them.
    """
    if not isinstance(network, FullyConnected) or not network.mixed:
        return params

    def one(path: Any, x: jax.Array) -> jax.Array:
        is_mixed = x.ndim == 2 and not any(key.key == "value" for key in path)
        return x.astype(jnp.bfloat16) if is_mixed else x

    return jax.tree_util.tree_map_with_path(one, params)


def describe(network: nn.Module) -> dict[str, Any]:
    """A network as JSON values: its class and sizes."""
    sizes = {
        f.name: getattr(network, f.name) for f in dataclasses.fields(network) if f.name not in _NOT_SIZES
    }
    return {"class": type(network).__name__, **sizes}


def from_description(description: Mapping[str, Any]) -> nn.Module:
    """The network that :func:`describe` described.

    Raises:
      ValueError: the description is of no network here, naming what is wrong.
    """
    fields = dict(description)
    kinds = {kind.__name__: kind for kind in (FullyConnected, ResNet18)}
    kind = kinds.get(fields.pop("class", ""))
    if kind is None:
        raise ValueError(f"no network class {description.get('class')!r}; there are: {', '.join(kinds)}")
    known = {f.name for f in dataclasses.fields(kind)} - _NOT_SIZES
    if unknown := set(fields) - known:
        raise ValueError(
            f"network class {kind.__name__} has no {', '.join(sorted(unknown))}; it has: {sorted(known)}"
        )
    sizes: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return kind(**sizes)


def count(params: Any) -> int:
    """Number of parameters."""
    return sum(x.size for x in jax.tree.leaves(params))


def activations(network: nn.Module) -> int:
    """Numbers that a network computes for one input, in all layers together."""

    def of_one() -> Any:
        x = jnp.zeros((1, input_size(network)), jnp.float32)
        return network.init_with_output(
            jax.random.key(0), x, capture_intermediates=True, mutable=["params", "intermediates"]
        )[1]["intermediates"]

    return sum(x.size for x in jax.tree.leaves(jax.eval_shape(of_one)))
