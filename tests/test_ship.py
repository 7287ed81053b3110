"""A run's model becomes one that is loaded by name."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from gongzhu_jax import models, networks
from gongzhu_jax.models import Model
from tests.conftest import SMALL, SMALL_ACTOR
from train import ship


@pytest.fixture
def run_folder(small_actor: Path, small_model: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(small_actor, folder / "best.model")
    shutil.copy(small_model, folder / "best-critic.model")
    models.save(folder / "last.model", Model(SMALL_ACTOR, networks.init(SMALL_ACTOR, jax.random.key(9)), {}))
    return folder


def test_the_best_actor_and_its_critic_are_rounded(run_folder: Path, tmp_path: Path) -> None:
    assert ship.main([str(run_folder), "mine", "--out", str(tmp_path)]) == 0
    for name, source, network in (("mine", "best", SMALL_ACTOR), ("mine-critic", "best-critic", SMALL)):
        found, whole = models.load(tmp_path / f"{name}.model"), models.load(run_folder / f"{source}.model")
        assert found.network == network
        jax.tree.map(
            lambda a, b: np.testing.assert_array_equal(a, np.asarray(b, np.float16)),
            found.params,
            whole.params,
        )
        assert 5000 < found.info["half"]["positions"] <= 256 * 48  # nobody chooses in the last trick
        assert 0.95 < found.info["half"]["same_card"] <= 1


def test_the_last_one_on_request(run_folder: Path, tmp_path: Path) -> None:
    assert ship.main([str(run_folder), "mine", "--last", "--out", str(tmp_path)]) == 0
    found, last = models.load(tmp_path / "mine.model"), models.load(run_folder / "last.model")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6), found.params, last.params
    )
    assert not (tmp_path / "mine-critic.model").exists()


def test_large_parameters_show_in_the_comparison() -> None:
    """Where float16 rounds to infinity, the comparison says that the network is another one."""
    params = jax.tree.map(lambda x: 1e7 * x, networks.init(SMALL, jax.random.key(0)))
    assert ship.compare(Model(SMALL, params, {}))["same_card"] < 0.9


def test_bad_input(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.model").write_bytes(b"precious")
    cases = {
        (
            str(run_folder),
            "mine",
            "--out",
            str(tmp_path),
        ): "mine.model exists; name another one or add --overwrite",
        (str(run_folder), "a/b", "--out", str(tmp_path)): "NAME a/b: must be a name without folders",
        (str(run_folder), "new", "--out", str(tmp_path / "no")): "no such folder",
    }
    for args, told in cases.items():
        assert ship.main(list(args)) == 2
        assert told in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "mine.model").read_bytes() == b"precious"
    assert ship.main([str(tmp_path / "nothing"), "new", "--out", str(tmp_path)]) == 1
    assert "best.model: cannot read a model" in capsys.readouterr().err
