"""Trained models as single files: a network's sizes, its parameters, and where they come from."""

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

_MAGIC = b"gongzhu-jax model 1\n"


class Model(NamedTuple):
    """A network with its parameters.

    info: JSON values that tell where it comes from: steps, time, machine, evaluation.
    """

    network: nn.Module
    params: Any
    info: dict[str, Any]


def save(path: str | Path, model: Model, overwrite: bool = False) -> None:
    """Write a model file: a line that names the format, a line of JSON, the parameters in MessagePack.

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
        file.write(flax.serialization.to_bytes(jax.tree.map(np.asarray, model.params)))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def load(path: str | Path) -> Model:
    """Read a model file.

    Raises:
      ValueError: the file is missing, no model, damaged, or its parameters are not those of its network; the text
        names the file and what is wrong.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot read a model: {error.strerror or error}") from None
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
