"""A run's model, rounded to half precision, as one that comes with the package: ``python -m train.ship``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console

import gongzhu_jax as gz
from eval import cli
from gongzhu_jax import features, game, models, networks, view_features
from gongzhu_jax.models import Model
from train import loop

GAMES = 256
"""Random games in whose positions both precisions are compared."""


@dataclasses.dataclass(frozen=True)
class Ship:
    """Put a run's model into a folder of models, at half the size.

    Parameters are rounded to float16; how often the rounded network likes another card best is kept in the file. The
    critic of an actor comes along as NAME-critic.

    Examples::

        python -m train.ship runs/actor-cpu actor-v1
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """What the model will be called."""
    out: Path = Path(models.__file__).parent
    """Folder that it is put into. Default: that of the package."""
    last: bool = False
    """Take the last model and not the best: evaluations of a run are short, so that one may be best by luck."""
    overwrite: bool = False
    """Replace models of that name."""


def run(args: Ship, console: Console) -> int:
    """Round, compare, write; returns the exit status."""
    if not args.name or Path(args.name).name != args.name:
        raise cli.UsageError(f"NAME {args.name}: must be a name without folders, such as actor-v1")
    file = args.run / (loop.LAST if args.last else loop.BEST)
    critic = file.with_stem(f"{file.stem}-critic")
    files = {args.name: file} | ({f"{args.name}-critic": critic} if critic.exists() else {})
    paths = {name: args.out / f"{name}.model" for name in files}
    for path in paths.values():
        if not path.parent.is_dir():
            raise cli.UsageError(f"--out {path.parent}: no such folder")
        if path.exists() and not args.overwrite:
            raise cli.UsageError(f"NAME {args.name}: {path} exists; name another one or add --overwrite")
    for name, file in files.items():
        model = models.load(file)
        found = compare(model)
        models.save(paths[name], model._replace(info=model.info | {"half": found}), args.overwrite, half=True)
        console.print(
            f"{paths[name]}: {paths[name].stat().st_size / 1e6:.2f} MB; of {found['positions']:,} positions "
            f"{found['same_card']:.2%} keep their best card, values move by {found['value_error']:.2f} points"
        )
    return 0


def compare(model: Model) -> dict[str, Any]:
    """A model and its parameters rounded to float16, in positions of random games.

    Returns:
      ``positions``: how many with a choice; ``same_card``: in what share both like the same card best;
      ``value_error``: mean absolute difference of their values in points.
    """
    network = model.network

    def encode(state: gz.State) -> jax.Array:
        if networks.reads(network) == "open":
            return features.encode(state)
        return view_features.encode(gz.view(state, game.mover(state)))

    @jax.jit
    def ask(params: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Whether there is a choice, the card that is liked best, the value: ``[N]`` each."""
        keys = jax.random.split(jax.random.key(0), GAMES)
        games = jax.vmap(lambda key: game.play_random(key, gz.deal(key))[1])(keys)
        states = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), games)
        legal = jax.vmap(gz.legal_cards)(states)
        numbers, value = networks.apply(network, params, jax.vmap(encode)(states).astype(jnp.float32))
        return jnp.sum(legal, axis=-1) > 1, jnp.argmax(jnp.where(legal, numbers, -jnp.inf), axis=-1), value

    halves = jax.tree.map(lambda x: x.astype(jnp.float16).astype(jnp.float32), model.params)
    choice, card, value = map(np.asarray, ask(model.params))
    _, other_card, other_value = map(np.asarray, ask(halves))
    return {
        "positions": int(choice.sum()),
        "same_card": float((card == other_card)[choice].mean()),
        "value_error": round(float(np.abs(value - other_value)[choice].mean()), 4),
    }


def main(args: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    return cli.run(Ship, run, prog="python -m train.ship", args=args)


if __name__ == "__main__":
    sys.exit(main())
