"""The command line of training: flags, run folders, and what is checked before hours are spent."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro
from jax.sharding import Mesh
from rich.console import Console

from eval import cli
from eval.cli import UsageError
from train import checkpoints, devices, logs, loop
from train import config as configs
from train.config import Config

CONFIG = "config.json"
OWN = [CONFIG, "checkpoints", "damaged", "tensorboard", logs.CSV, logs.CURVE]
OWN += [pattern for name in (loop.LAST, loop.BEST) for pattern in (name, name.replace(".", "-*."))]
"""What a run writes into its folder."""

Make = Callable[[Any, Mesh], loop.Algorithm]
Memory = Callable[[Any, Mesh], tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Program:
    """A training command.

    Attributes:
      name: of its module, such as "train.selfplay".
      command: its flags.
      algorithm: from a config and a mesh.
      memory: bytes on one device that do not depend on the number of games, and bytes for each game of a batch.
      presets: configs by name; the first is the default without an accelerator, the last with one.
      batches: of a whole run, by preset.
      minutes: wall time of a whole run by preset, where that comes first.
    """

    name: str
    command: type[Command]
    algorithm: Make
    memory: Memory
    presets: Mapping[str, Config]
    batches: Mapping[str, int]
    minutes: Mapping[str, float | None]

    def default_preset(self) -> str:
        """The preset of a command that names none."""
        return list(self.presets)[0 if jax.default_backend() == "cpu" else -1]

    def default_folder(self, preset: str) -> Path:
        """Where a run goes that is not told where."""
        return Path("runs") / f"{self.name.rpartition('.')[2]}-{preset}"


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of every training command; each adds its examples and the kind of its config."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    out: Path | None = None
    """Folder of the run. Default: runs/COMMAND-PRESET, such as runs/selfplay-quick."""
    resume: bool = False
    """Go on with the run of this folder; its config holds, and flags that differ from it are refused."""
    overwrite: bool = False
    """Remove the run of this folder and start anew."""
    batches: int | None = None
    """Batches of the whole run. Default: the preset's, without a limit where --minutes is given."""
    minutes: float | None = None
    """Wall time of this call. Default: the preset's, without a limit where --batches is given."""
    keep: int = 3
    """Checkpoints to keep beside the best one."""
    coordinator: str | None = None
    """HOST:PORT of process 0 when many processes share the run, or "auto" on a cluster that JAX knows."""
    processes: int | None = None
    """How many processes share the run, with --coordinator HOST:PORT."""
    process: int | None = None
    """The number of this process, from 0."""


def main(program: Program, args: Sequence[str] | None) -> int:
    """Parse, check, train; returns the exit status."""
    given = list(sys.argv[1:] if args is None else args)
    prog = f"python -m {program.name}"

    def body(command: Command, console: Console) -> int:
        return train(command, program, console)

    try:
        default = _defaults(program, given)
    except ValueError as error:
        logs.warn(f"{prog}: {error}")
        return 2
    return cli.run(program.command, body, prog, given, default)


def _defaults(program: Program, args: list[str]) -> Command:
    """Join the other processes, which must come first; then what the flags default to.

    That is a preset, or with --resume the config of the run.

    Raises:
      ValueError: there is no such run, or the processes do not find each other.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--preset", "--coordinator"):
        first.add_argument(flag)
    for flag in ("--processes", "--process"):
        first.add_argument(flag, type=int)
    first.add_argument("--out", type=Path)
    first.add_argument("--resume", action="store_true")
    some = next(iter(program.presets.values()))
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            known, _ = first.parse_known_args(args)
    except SystemExit:  # a flag without its value, or not a number: tyro says so
        return program.command(some)
    _connect(known.coordinator, known.processes, known.process)
    preset = known.preset or program.default_preset()
    if known.resume:
        path = (known.out or program.default_folder(preset)) / CONFIG
        if not path.exists():
            raise ValueError(f"--resume: there is no run in {path.parent} (no {CONFIG})")
        return program.command(configs.load(path, type(some)))
    config = program.presets.get(preset, some)
    return program.command(dataclasses.replace(config, mixed=config.mixed and devices.fast_bfloat16()))


def _connect(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Join the other processes of a run, if the flags name any."""
    numbered = processes is not None and process is not None and 0 <= process < processes
    if coordinator is None and processes is None and process is None:
        return
    if coordinator is None or (coordinator != "auto" and not numbered):
        raise ValueError("many processes need --coordinator HOST:PORT, --processes N and --process 0 … N − 1")
    try:
        devices.connect(coordinator, processes, process)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"--coordinator {coordinator}: {error}") from None


def train(command: Command, program: Program, console: Console) -> int:
    """Check a command and run it."""
    config, mesh = command.config, devices.all_devices()
    folder = command.out or program.default_folder(config.preset)
    check_flags(command, mesh)
    _check_memory(config, mesh, program.memory)
    algorithm = program.algorithm(config, mesh)
    if devices.is_first():
        _open_folder(command, folder, jax.eval_shape(algorithm.init))
    _wait_for_all()
    run = loop.Run(algorithm, program.name, folder, command.keep, limits(command, program), console)
    run.say(
        f"{config.preset}: {algorithm.what}, {config.games} games a batch, {mesh.size} × "
        f"{mesh.devices.flat[0].device_kind}; run folder {folder}"
    )
    return run.go(command.resume)


def limits(command: Command, program: Program) -> loop.Limits:
    """What ends this call: the flags, or the preset where none is given."""
    if command.batches is None and command.minutes is None:
        preset = command.config.preset
        return loop.Limits(program.batches[preset], program.minutes[preset])
    return loop.Limits(command.batches, command.minutes)


def check_flags(command: Command, mesh: Mesh) -> None:
    """Raise UsageError for the first flag that is out of range."""
    if found := command.config.problem():
        raise UsageError(found)
    if command.batches is not None:
        cli.check_range("--batches", command.batches, 1)
    if command.minutes is not None and not command.minutes > 0:
        raise UsageError(f"--minutes {command.minutes}: must be greater than 0")
    cli.check_range("--keep", command.keep, 1)
    if command.resume and command.overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    for flag, value in (("--games", command.config.games), ("--minibatch", command.config.minibatch)):
        if value % mesh.size:
            raise UsageError(f"{flag} {value}: must be a multiple of the {mesh.size} devices")


def _check_memory(config: Config, mesh: Mesh, memory: Memory) -> None:
    """Refuse a batch that will not fit, saying what will."""
    available = _available_memory(mesh)
    fixed, each = memory(config, mesh)
    need = fixed + each * config.games
    if available is None or need <= available:
        return
    fits = (available - fixed) // each // mesh.size * mesh.size
    advice = f"--games {fits} would fit" if fits >= 1 else "try a smaller --network"
    raise UsageError(
        f"--games {config.games}: needs about {_gib(need)} on each device, {_gib(available)} are free; {advice}"
    )


def _available_memory(mesh: Mesh) -> int | None:
    """Bytes that are free on the fullest device of this process, where the system tells."""
    stats = [device.memory_stats() for device in mesh.local_devices]
    if all(s and "bytes_limit" in s for s in stats):
        return int(min(s["bytes_limit"] - s.get("bytes_in_use", 0) for s in stats if s))
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _open_folder(command: Command, folder: Path, state: object) -> None:
    """Make or check the run folder, and that checkpoints can be written there."""
    path = folder / CONFIG
    if command.resume:
        if found := configs.difference(configs.load(path, type(command.config)), command.config):
            raise UsageError(f"--resume: {folder} is a run of another config: {found}")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not command.overwrite:
            raise UsageError(f"--out {folder}: exists; add --resume to go on or --overwrite to start anew")
        _remove_run(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{uuid.uuid4().hex}"
        probe.write_bytes(b"1")
        probe.unlink()
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot write there: {error.strerror or error}") from None
    size = checkpoints.num_bytes(state)
    need, free = (command.keep + 2) * size, shutil.disk_usage(folder).free
    if free < need:
        raise UsageError(
            f"--out {folder}: {command.keep + 1} checkpoints of {_gib(size)} need {_gib(need)}, {_gib(free)} are free"
        )
    if not command.resume:
        configs.save(command.config, path)


def _remove_run(folder: Path) -> None:
    """Remove a run, and nothing that is not of a run."""
    strange = [folder.name]
    if folder.is_dir():
        strange = [p.name for p in folder.iterdir() if not any(p.match(pattern) for pattern in OWN)]
    if strange:
        raise UsageError(f"--overwrite: {folder} holds what no run wrote: {', '.join(sorted(strange)[:3])}")
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _wait_for_all() -> None:
    """Until the first process has prepared the folder."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices("run folder")
