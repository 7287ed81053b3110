"""The files of measured figures."""

import json
from pathlib import Path

import pytest

from gongzhu_jax import results
from gongzhu_jax.results import Figure


def test_written_figures_are_read_back(tmp_path: Path) -> None:
    figures = {"speed": Figure(2.5, "plies/s", 10, stderr=0.1), "bytes": Figure(134, "bytes", 1)}
    path = results.write("demo", figures, folder=tmp_path)
    assert path == tmp_path / "demo.json"
    content = json.loads(path.read_text())
    assert set(content) == {"name", "command", "commit", "date", "device", "versions", "figures"}
    assert content["figures"]["speed"] == {"value": 2.5, "stderr": 0.1, "unit": "plies/s", "n": 10}
    assert content["versions"]["jax"]
    assert results.read("demo", tmp_path)["figures"] == figures
    assert results.topics(tmp_path) == ["demo"]
    results.write("demo", {"speed": Figure(3.0, "plies/s", 1)}, folder=tmp_path)
    assert set(results.read("demo", tmp_path)["figures"]) == {"speed"}, "a new measurement replaces the old"


def test_figures_must_be_numbers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'speed' is not finite"):
        results.write("demo", {"speed": Figure(float("nan"), "1", 1)}, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_unreadable_results_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such results"):
        results.read("nothing", tmp_path)
    (tmp_path / "broken.json").write_text('{"figures": {"a": {"value": 1}}}')
    with pytest.raises(ValueError, match=r"broken\.json: not a results file"):
        results.read("broken", tmp_path)


@pytest.mark.parametrize("topic", results.topics(Path(__file__).parent.parent / "results"))
def test_committed_results_follow_the_schema(topic: str) -> None:
    content = results.read(topic, Path(__file__).parent.parent / "results")
    assert content["name"] == topic
    assert content["figures"]
    assert not content["commit"].endswith("-dirty"), "measure from a committed tree"
