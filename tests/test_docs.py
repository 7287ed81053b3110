"""README and docs: code blocks run, and figures are those of results/."""

import re
from pathlib import Path

import pytest

from benchmarks import model_cards, readme
from gongzhu_jax import models, players
from tests.conftest import ROOT

CARDS = {name: path.with_suffix(".md") for name, path in models.shipped().items()}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *CARDS.values()]
BLOCKS = [
    (page, block) for page in PAGES for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
]


@pytest.mark.parametrize(
    ("page", "code"), BLOCKS, ids=[f"{page.name}-{i}" for i, (page, _) in enumerate(BLOCKS)]
)
def test_code_blocks_run(page: Path, code: str) -> None:
    names: dict[str, object] = {}
    exec(compile(code, page.name, "exec"), names)
    if "lowest" in names:  # the example of docs/players.md is used as it says
        factory = names["lowest"]
        assert isinstance(factory(1), players.Player)  # type: ignore[operator]


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert readme.BEGIN + readme.PAGES[page]() + readme.END in text, "run python -m benchmarks.readme"


@pytest.mark.parametrize("name", CARDS)
def test_every_model_has_its_card(name: str) -> None:
    assert CARDS[name].read_text(encoding="utf-8") == model_cards.card(name), (
        "run python -m benchmarks.readme"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
