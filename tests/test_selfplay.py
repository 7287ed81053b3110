"""The training command as a user runs it: runs, kills, resumes, many devices, and bad input."""

import csv
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from eval.duplicate import Summary
from gongzhu_jax import models, networks
from gongzhu_jax.models import Model
from tests.conftest import ROOT
from train import checkpoints, command, devices, logs, loop, selfplay
from train import config as configs
from train.evaluation import Evaluation
from train.selfplay_config import BATCHES, PRESETS, SelfPlayConfig

TINY = [
    *(
        "--preset",
        "quick",
        "--no-mixed",
        "--games",
        "8",
        "--chunk",
        "4",
        "--minibatch",
        "32",
        "--per-card",
        "1",
    ),
    *("--eval-every", "2", "--eval-deals", "2", "--eval-worlds", "1"),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled programs, shared by the processes of this file."""
    return tmp_path_factory.mktemp("compiled")


def start(cache: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "train.selfplay", *args],
        env=os.environ | settings | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    output, _ = process.communicate(timeout=400)
    assert process.returncode == status, output
    return output


@pytest.fixture(scope="module")
def straight(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of four batches without interruption, and what it printed."""
    out = tmp_path_factory.mktemp("runs") / "straight"
    return out, finish(start(cache, *TINY, "--batches", "4", "--out", str(out)))


def losses(folder: Path) -> np.ndarray:
    with open(folder / logs.CSV, newline="") as file:
        return np.array([float(row["loss"]) for row in csv.DictReader(file) if row["loss"]])


def margins(folder: Path) -> list[str]:
    return [row["margin_greed"] for row in logs.read(folder / logs.CSV)]


def last_state(folder: Path) -> tuple[list[np.ndarray], checkpoints.Counters]:
    config = configs.load(folder / command.CONFIG, SelfPlayConfig)
    mesh = devices.all_devices()
    algorithm = selfplay.SelfPlay(config, mesh)
    kept = checkpoints.Checkpoints(folder / "checkpoints", config, keep=3)
    state, counters = kept.restore(loop.shapes(algorithm), say=pytest.fail)
    kept.close()
    return [np.asarray(x) for x in jax.tree.leaves(state)], counters


@pytest.mark.processes
def test_a_run_leaves_what_a_user_looks_for(straight: tuple[Path, str]) -> None:
    folder, output = straight
    rows = logs.read(folder / logs.CSV)
    assert [int(row["batch"]) for row in rows] == [0, 1, 2, 3, 4]
    assert [bool(m) for m in margins(folder)] == [True, False, True, False, True]
    assert int(rows[-1]["samples"]) == 4 * 8 * 52
    assert "v Greed" in output
    assert (folder / logs.CURVE).read_bytes().startswith(b"\x89PNG")
    assert list((folder / "tensorboard").glob("events.*"))
    found = models.load(folder / loop.BEST)
    assert found.network == networks.make("fc-small")
    assert found.info["config"]["games"] == 8
    assert f"python -m eval.match raw:model={folder / loop.BEST} greed" in output
    assert f"--out {folder} --resume" in output


@pytest.mark.processes
def test_killed_and_resumed_equals_uninterrupted(
    straight: tuple[Path, str], cache: Path, tmp_path: Path
) -> None:
    """kill -9 while batch 4 is under way; going on from batch 2 gives the same checkpoint, bit for bit."""
    out = tmp_path / "killed"
    process = start(cache, *TINY, "--batches", "4", "--out", str(out))
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not [r for r in logs.read(out / logs.CSV) if r["batch"] == "3"]:
        time.sleep(0.02)
        assert process.poll() is None, process.communicate()[0]
    process.kill()
    process.wait()
    output = finish(start(cache, "--out", str(out), "--resume", "--batches", "4"))
    assert "going on after batch 2" in output or "going on after batch 4" in output
    (whole, counters), (resumed, counters_resumed) = last_state(straight[0]), last_state(out)
    assert counters._replace(seconds=0) == counters_resumed._replace(seconds=0)
    for a, b in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(losses(straight[0]), losses(out))
    assert margins(straight[0]) == margins(out)


@pytest.mark.processes
def test_two_processes_give_the_losses_of_one(
    straight: tuple[Path, str], cache: Path, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    out = tmp_path / "two"
    args = [
        *TINY,
        "--batches",
        "2",
        "--out",
        str(out),
        "--coordinator",
        f"localhost:{port}",
        "--processes",
        "2",
    ]
    args = [
        arg for arg in args if arg not in ("--preset", "quick")
    ]  # the default must be found out after joining
    both = [start(cache, *args, "--process", str(i)) for i in range(2)]
    outputs = [finish(process) for process in both]
    assert "v Greed" in outputs[0]
    assert "v Greed" not in outputs[1]
    found, alone = losses(out), losses(straight[0])[:2]
    np.testing.assert_allclose(found[0], alone[0], rtol=1e-4)
    np.testing.assert_allclose(found[1], alone[1], rtol=0.2)  # rounding may have decided between equal cards
    assert (out / loop.LAST).exists()


def test_eight_devices_give_the_losses_of_one(cache: Path) -> None:
    """Two batches on one and on eight of the same eight virtual devices, the second from the same state.

    From the same state the samples are the same bit for bit and the losses within rounding. (Left alone, rounding
    would sooner or later decide between cards of almost the same value, and other games would be played.) The
    paper's ε of 1e-7 lets Adam turn the rounding of gradients that are almost 0 into whole steps; here it is larger.
    """
    script = """
import dataclasses, json, jax, numpy as np
from jax.sharding import Mesh
from train import devices, selfplay, selfplay_config
quick = selfplay_config.PRESETS["quick"]
tiny = dataclasses.replace(quick, mixed=False, games=16, minibatch=64, per_card=1, chunk=2, eps=1e-3)
one, eight = (selfplay.SelfPlay(tiny, Mesh(np.array(jax.devices()[:n]), ("data",))) for n in (1, 8))
def distance(a, b):
    return float(np.sqrt(sum(np.sum((x - y) ** 2) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))))
state, found = one.init(), []
for index in range(2):
    on_host = devices.to_host(state)
    state, numbers = one.batch(state, index)
    other, others = eight.batch(devices.put_whole(eight.mesh, on_host), index)
    a, b = devices.to_host((state, other))
    names = ("loss", "loss_policy", "loss_value")
    found.append({
        "losses": [[n[name] for name in names] for n in (numbers, others)],
        "samples": all(np.array_equal(x, y) for x, y in zip(a.buffer, b.buffer)),
        "params": distance(a.params, b.params) / distance(a.params, on_host.params),
    })
print(json.dumps(found))
"""
    env = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=400, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    for batch in json.loads(done.stdout.splitlines()[-1]):
        assert batch["samples"]
        np.testing.assert_allclose(*batch["losses"], rtol=1e-4)
        assert batch["params"] < 0.01, "of what was learned"


@pytest.mark.processes
def test_ctrl_c_saves_and_says_how_to_go_on(straight: tuple[Path, str], cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    process = start(cache, *TINY, "--eval-every", "1000", "--batches", "100000", "--out", str(out))
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and len(logs.read(out / logs.CSV)) < 3:
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()[0]
    process.send_signal(signal.SIGINT)
    output = finish(process, status=130)
    assert "stopping after this batch" in output
    _, counters = last_state(out)
    assert counters.batch >= 2
    assert f"checkpoint: {out / 'checkpoints' / str(counters.batch)}" in output


# ----------------------------------------------------------------------------- the loop, with a toy algorithm


@dataclasses.dataclass
class Counting:
    """Adds the number of the batch to its only parameter."""

    config: SelfPlayConfig
    mesh: jax.sharding.Mesh
    bad_batch: int | None = None
    what = "a toy"
    numbers = ("loss",)

    def init(self) -> "Counted":
        return Counted(devices.put_whole(self.mesh, np.zeros(3, np.float32)))

    def batch(self, state: "Counted", index: int) -> tuple["Counted", dict[str, float]]:
        loss = float("nan") if index + 1 == self.bad_batch else 1.0 / (index + 1)
        return Counted(state.params + index), {"loss": loss}

    def player(self, params: jax.Array) -> None:
        raise AssertionError("not evaluated in these tests")

    def models(self, state: "Counted", info: dict) -> dict[str, Model]:
        network = networks.FullyConnected(widths=(4,), blocks=0)
        model = Model(network, networks.init(network, jax.random.key(0)), info)
        return {"": model, "critic": model}

    def spec(self, path: Path) -> str:
        return f"toy:model={path}"


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Counted:
    params: jax.Array


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> SelfPlayConfig:
    """A config for the toy; its evaluations are made up: best at batch 4."""

    def evaluate(self: Evaluation, params: jax.Array) -> dict[str, Summary]:
        margin = -abs(float(np.asarray(params)[0]) - (0 + 1 + 2 + 3))
        return {name: Summary(4, margin, 1.0, 0, 0, 4) for name in ("random", "if", "greed")}

    monkeypatch.setattr(Evaluation, "__call__", evaluate)
    monkeypatch.setattr(Evaluation, "levels", lambda self: evaluate(self, jnp.zeros(3)))
    return dataclasses.replace(PRESETS["quick"], games=8, minibatch=32, eval_every=2)


def run_toy(
    config: SelfPlayConfig,
    folder: Path,
    batches: int,
    resume: bool = False,
    bad: int | None = None,
    keep: int = 2,
) -> int:
    folder.mkdir(exist_ok=True)
    configs.save(config, folder / command.CONFIG)
    algorithm = Counting(config, devices.all_devices(), bad)
    return loop.Run(algorithm, "train.toy", folder, keep, loop.Limits(batches, None), Console()).go(resume)


def steps(folder: Path) -> list[int]:
    return sorted(int(p.name) for p in (folder / "checkpoints").iterdir() if p.name.isdigit())


def restore(config: SelfPlayConfig, folder: Path, say=pytest.fail) -> tuple[Counted, checkpoints.Counters]:
    kept = checkpoints.Checkpoints(folder / "checkpoints", config, keep=2)
    return kept.restore(loop.shapes(Counting(config, devices.all_devices())), say)


def test_the_last_checkpoints_and_the_best_stay(toy: SelfPlayConfig, tmp_path: Path) -> None:
    assert run_toy(toy, tmp_path / "run", 12) == 0
    assert steps(tmp_path / "run") == [4, 10, 12]
    assert models.load(tmp_path / "run" / loop.BEST).info["batches"] == 4
    assert models.load(tmp_path / "run" / loop.LAST).info["batches"] == 12


def test_a_loss_that_is_not_finite_stops_with_the_last_good_checkpoint(
    toy: SelfPlayConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run_toy(toy, folder, 12, bad=6) == 1
    told = capsys.readouterr().err
    assert "batch 6: the loss is not finite" in told
    assert str(folder / "checkpoints" / "4") in told
    assert restore(toy, folder)[1].batch == 4


def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    toy: SelfPlayConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    run_toy(toy, folder, 8)
    for path in (folder / "checkpoints" / "8").rglob("*"):
        if path.is_file() and path.stat().st_size:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run_toy(toy, folder, 10, resume=True) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "checkpoints/8 is damaged" in told
    assert "going on after batch 6" in told
    assert (folder / "damaged" / "8").is_dir()
    state, counters = restore(toy, folder)
    assert (counters.batch, float(state.params[0])) == (10, sum(range(10)))


def test_content_that_is_not_what_was_written_is_noticed(toy: SelfPlayConfig, tmp_path: Path) -> None:
    """The arrays of another checkpoint under the description of this one."""
    folder = tmp_path / "run"
    run_toy(toy, folder, 8)
    kept = folder / "checkpoints"
    shutil.rmtree(kept / "8" / "state")
    shutil.copytree(kept / "6" / "state", kept / "8" / "state")
    told: list[str] = []
    _, counters = restore(toy, folder, told.append)
    assert counters.batch == 6
    assert "not what was written" in told[0]


def test_no_whole_checkpoint(toy: SelfPlayConfig, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no whole checkpoint"):
        restore(toy, tmp_path)


def test_a_checkpoint_of_another_config_names_the_field(toy: SelfPlayConfig, tmp_path: Path) -> None:
    run_toy(toy, tmp_path / "run", 2)
    other = dataclasses.replace(toy, sharpness=0.5)
    with pytest.raises(ValueError, match=r"--sharpness is 0\.2 there, 0.5 here"):
        restore(other, tmp_path / "run")


def test_minutes_end_a_run(toy: SelfPlayConfig, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    configs.save(toy, folder / command.CONFIG)
    algorithm = Counting(toy, devices.all_devices())
    assert loop.Run(algorithm, "train.toy", folder, 2, loop.Limits(None, 0.05), Console()).go(False) == 0
    counters = restore(toy, folder)[1]
    assert counters.batch > 0
    assert counters.seconds < 30


# ----------------------------------------------------------------------------- bad input


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert selfplay.main(list(args)) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--games", "0"], "--games 0: must be at least 1"),
        (["--learning-rate", "0"], "--learning-rate 0.0: must be greater than 0"),
        (["--learning-rate", "nan"], "--learning-rate nan: must be greater than 0"),
        (["--b1", "1"], "--b1 1.0: must be at least 0 and less than 1"),
        (["--per-card", "0"], "--base + per-card must be at least 1, not 0 + 0"),
        (["--games", "1", "--minibatch", "64"], "--minibatch 64: must be at most the 52 positions"),
        (["--sharpness", "0"], "--sharpness must be a number above 0, not 0.0"),
        (["--batches", "0"], "--batches 0: must be at least 1"),
        (["--minutes", "-1"], "--minutes -1.0: must be greater than 0"),
        (["--games", "100000000"], "would fit"),
        (["--resume", "--overwrite"], "exclude each other"),
        (["--coordinator", "host:1"], "many processes need --coordinator HOST:PORT, --processes N"),
        (["--processes", "2", "--process", "0"], "many processes need --coordinator"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_flags_out_of_range(
    flags: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    if "--resume" in flags:
        out.mkdir()
        configs.save(PRESETS["quick"], out / command.CONFIG)
    assert told in refused(capsys, *flags, "--out", str(out))
    assert not (out / "checkpoints").exists()


def test_a_folder_that_exists(
    toy: SelfPlayConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert "there is no run in" in refused(capsys, "--resume", "--out", str(out))
    run_toy(toy, out, 2)
    assert "add --resume to go on or --overwrite" in refused(capsys, "--out", str(out))
    assert "--games is 8 there, 16 here" in refused(capsys, "--resume", "--games", "16", "--out", str(out))
    (out / "thesis.txt").write_text("dear")
    assert "holds what no run wrote: thesis.txt" in refused(capsys, "--overwrite", "--out", str(out))
    assert (out / "thesis.txt").exists()
    assert steps(out) == [0, 2]
    file = tmp_path / "file"
    file.write_text("")
    assert "cannot write there" in refused(capsys, "--out", str(file / "run"))


def test_a_config_of_another_version(
    toy: SelfPlayConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    run_toy(toy, out, 2)
    path = out / command.CONFIG
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"format": 99}))
    assert "format is 99" in refused(capsys, "--resume", "--out", str(out))
    content["config"]["temperature"] = content["config"].pop("sharpness")
    path.write_text(json.dumps(content))
    assert "fields of another algorithm or version: sharpness, temperature" in refused(
        capsys, "--resume", "--out", str(out)
    )


def test_a_full_disk_is_found_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil._ntuple_diskusage(10**9, 10**9, 1000)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert "are free" in refused(capsys, "--out", str(tmp_path / "run"))


def test_games_are_shared_evenly() -> None:
    three = types.SimpleNamespace(size=3, devices=np.array(jax.devices() * 3))
    with pytest.raises(command.UsageError, match="--games 256: must be a multiple of the 3 devices"):
        command.check_flags(selfplay.SelfPlayCommand(PRESETS["quick"]), three)  # type: ignore[arg-type]


def test_games_in_threads_stay_in_order() -> None:
    """More games than fit one thread, in parts of unlike sizes: every game is that of its key."""
    keys = jax.random.split(jax.random.key(3), 2 * devices.PART + 1)
    cpu = jax.sharding.Mesh(np.array(jax.devices()[:1]), (devices.AXIS,))
    sizes = []

    @jax.jit
    def play(keys: jax.Array) -> dict[str, jax.Array]:
        sizes.append(len(keys))
        return {
            "luck": jax.vmap(jax.random.bits)(keys),
            "rows": jnp.repeat(jax.random.key_data(keys), 3, axis=0),
        }

    found = devices.in_parts(cpu, keys, play)
    np.testing.assert_array_equal(found["luck"], jax.vmap(jax.random.bits)(keys))
    np.testing.assert_array_equal(found["rows"], np.repeat(jax.random.key_data(keys), 3, axis=0))
    assert set(sizes) == {171}  # 513 in three


def test_the_presets() -> None:
    paper = PRESETS["paper"]
    assert (paper.games, paper.epochs, paper.buffer, paper.minibatch) == (64, 3, 3, 64)
    assert (paper.b1, paper.b2, paper.eps, paper.weight_decay) == (0.3, 0.999, 1e-7, 1e-4)
    assert (paper.learning_rate, paper.value_weight, paper.sharpness) == (5e-5, 0.03, 0.2)
    assert (paper.base, paper.per_card) == (0, 2)
    assert BATCHES["paper"] * paper.games == 256_000
    for name, preset in PRESETS.items():
        assert preset.preset == name
        assert preset.problem() is None
    assert selfplay.PROGRAM.default_preset() == "quick"


def test_steps_of_the_optimizer() -> None:
    config = dataclasses.replace(PRESETS["paper"], decay_batches=10)
    per_batch = [(52 * 64 * n) // 64 * 3 for n in (1, 2, 3, 3, 3)]
    assert selfplay.steps_before(config, 5) == sum(per_batch)
    schedule = selfplay.learning_rate(config)
    assert float(schedule(0)) == pytest.approx(5e-5)
    assert float(schedule(selfplay.steps_before(config, 10))) == pytest.approx(2.5e-6)


def test_rows_after_the_checkpoint_are_measured_again(tmp_path: Path) -> None:
    log = logs.RunLog(tmp_path, ["batch", "loss"], 0)
    for batch in range(5):
        log.write({"batch": batch, "loss": batch / 2})
    log.close()
    with open(tmp_path / logs.CSV, "a") as file:
        file.write("5,")  # torn by a kill
    logs.RunLog(tmp_path, ["batch", "loss"], 3).close()
    assert [row["batch"] for row in logs.read(tmp_path / logs.CSV)] == ["0", "1", "2", "3"]
