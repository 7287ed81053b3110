"""Trained models as single files: a network's sizes, its parameters, and where they come from.

Models that come with the package lie in this folder as ``NAME.model`` and are loaded by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np

from gongzhu_jax import networks

SCROFA = "scrofa-small-v1"
"""The model of ``raw`` and ``scrofa`` where none is named: reads open hands."""
ACTOR = "actor-v1"
"""That of ``actor`` and ``deep``: reads what a seat sees."""
CRITIC = "actor-v1-critic"
"""Its critic, with which ``deep`` values the end of playouts: reads open hands."""

_MAGIC = b"gongzhu-jax model 1\n"


class Model(NamedTuple):
    """A network with its parameters.

    info: JSON values that tell where it comes from: steps, time, machine, evaluation.
    """

    network: nn.Module
    params: Any
    info: dict[str, Any]


def shipped() -> dict[str, Path]:
    """The models that come with the package, by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.model"))}


def find(model: str | Path) -> Path:
    """The file of a model: a path, or the name of one that comes with the package."""
    return shipped().get(str(model), Path(model))


def save(path: str | Path, model: Model, overwrite: bool = False, half: bool = False) -> None:
    """Write a model file: a line that names the format, a line of JSON, the parameters in MessagePack.

    Args:
      half: round the parameters to float16, for half the size; they are float32 again when loaded.

    Raises:
      FileExistsError: the file is there and ``overwrite`` is not set.
      OSError: it cannot be written; an older file is then still whole.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path}: the file exists")
    header = {"network": networks.describe(model.network), "info": model.info}
    unfinished = path.with_name(path.name + ".unfinished")
    with open(unfinished, "wb") as file:
        file.write(_MAGIC + json.dumps(header).encode() + b"\n")
        dtype = np.float16 if half else np.float32
        file.write(flax.serialization.to_bytes(jax.tree.map(lambda x: np.asarray(x, dtype), model.params)))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def load(model: str | Path) -> Model:
    """Read a model.

    Args:
      model: the path of a file, or the name of a model that comes with the package (see :func:`shipped`).

    Raises:
      ValueError: the file is missing, no model, damaged, or its parameters are not those of its network; the text
        names the file and what is wrong.
    """
    path = find(model)
    try:
        content = path.read_bytes()
    except OSError as error:
        names = ", ".join(shipped()) or "none"
        reason = f"{error.strerror or error}; models that come with the package: {names}"
        raise ValueError(f"{path}: cannot read a model: {reason}") from None
    if not content.startswith(_MAGIC):
        raise ValueError(f"{path}: not a model file: it must begin with {_MAGIC.decode().strip()!r}")
    header, _, body = content[len(_MAGIC) :].partition(b"\n")
    try:
        found = json.loads(header)
        network = networks.from_description(found["network"])
        info: Mapping[str, Any] = found["info"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: damaged model file: {error}") from None
    wanted = jax.eval_shape(lambda key: networks.init(network, key), jax.random.key(0))
    try:
        params = flax.serialization.from_bytes(wanted, body)
    except Exception as error:  # MessagePack raises many kinds on damaged bytes
        raise ValueError(f"{path}: damaged parameters: {type(error).__name__}") from None
    for (where, want), have in zip(
        jax.tree_util.tree_leaves_with_path(wanted), jax.tree.leaves(params), strict=True
    ):
        if np.shape(have) != want.shape:
            name = jax.tree_util.keystr(where)
            raise ValueError(
                f"{path}: parameter {name} has shape {np.shape(have)}, its network needs {want.shape}"
            )
    return Model(network, jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), params), dict(info))
