"""How thoroughly properties are tried: `HYPOTHESIS_PROFILE=nightly` for `make nightly`, otherwise `usual`.

The usual examples are the same in every run, so that a check fails for what was changed and not by chance; new ones are
looked for every night, 10,000 or as many as `HYPOTHESIS_EXAMPLES` says. Hypothesis also draws the constants of modules,
but which modules were imported depends on the tests that ran before in the same process: that is left to the night.

Hypothesis makes the seed of a test from its source. `seeded` machines have a fixed one, so that they play the same
sessions after a word of their source has changed; `HYPOTHESIS_SEED` tries another one.

Scripted sessions are told what the real servers of all wires would say to their requests.

`home`, `priced` and `project` are what most sessions of tests are opened from; they are closed with the test.
`user` and `worker` run `ebb` itself, `installation` is one that pip has installed.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.internal.constants_ast import Constants
from hypothesis.stateful import RuleBasedStateMachine

from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from tests.kit.installation import Installation, shared_installation
from tests.kit.project import Project
from tests.kit.session import Home, PricedHome
from tests.kit.strict_sessions import refused_by_a_wire
from tests.kit.user import User, Worker

M = TypeVar("M", bound=type[RuleBasedStateMachine])

ScriptedProvider.checks = (*ScriptedProvider.checks, refused_by_a_wire)

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "10000"))
SEED = int(os.environ.get("HYPOTHESIS_SEED", "0"))

settings.register_profile("usual", max_examples=30, derandomize=True, deadline=None)
settings.register_profile(
    "nightly",
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("nightly" if NIGHTLY else "usual")
os.environ.setdefault("EBB_SANDBOX", "off")  # only its own tests are about the sandbox, which not every machine has
if not NIGHTLY:
    pytest.MonkeyPatch().setattr("hypothesis.internal.conjecture.providers._get_local_constants", Constants)


def thorough(share: int) -> int:
    """How many examples a property gets that has a number of its own: half of it, in the night that many of 200."""
    return EXAMPLES * min(share, 200) // 200 if NIGHTLY else (share + 1) // 2


def seeded(machine: M) -> M:
    """The state machine, so that it plays the same sessions in every run but those of the night."""
    return machine if NIGHTLY else seed(SEED)(machine)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with Home(tmp_path) as opened:
        yield opened


@pytest.fixture
async def priced(tmp_path: Path) -> AsyncIterator[PricedHome]:
    async with PricedHome(tmp_path) as opened:
        yield opened


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[Project]:
    async with Project(tmp_path) as opened:
        yield opened


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path)


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return shared_installation(tmp_path_factory)
