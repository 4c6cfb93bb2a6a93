"""Random damages of everything that a home holds: each command says something, and none ends in a traceback."""

from pathlib import Path

import pytest

from tests.damages import made, tried
from tests.running import ebb

SEEDS = 12
"""`python -m bench.damages 200` tries as many as wanted."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_damaged_every_command_says_something(seed: int, home: Path, tmp_path: Path) -> None:
    listed = ebb("sessions", "list", "-C", str(home / "app"), home=home)
    what, seen = tried(home, tmp_path / "home", seed, listed.out.split()[0], share=6)
    assert [(what, each.arguments, each.fault, each.run.err) for each in seen if each.fault] == []
