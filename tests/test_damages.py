"""Random damages of everything that a home holds: each command says something, and none ends in a traceback."""

import pytest

from tests.kit.damages import Whole, made, tried

SEEDS = 12
"""`python -m bench.damages 200` tries as many as wanted."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return made(tmp_path_factory.mktemp("damaged") / "home")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_damaged_every_command_says_something(seed: int, home: Whole) -> None:
    what, seen = tried(home, seed, share=6)
    assert [(what, each.arguments, each.fault, each.run.err) for each in seen if each.fault] == []
