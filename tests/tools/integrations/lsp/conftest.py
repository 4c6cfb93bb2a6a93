"""Language servers for a test, ended with it."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from ebbtide.tools.integrations.lsp.pool import LanguageServers
from ebbtide.tools.integrations.lsp.spec import LanguageServerSpec
from tests.tools.integrations.lsp import scripted

COMMAND = (sys.executable, scripted.__file__)


class Starts(Protocol):
    def __call__(self, *specs: LanguageServerSpec, seconds: float = 20) -> LanguageServers: ...


def spec(*words: str, name: str = "words") -> LanguageServerSpec:
    """A scripted server."""
    return LanguageServerSpec(name, (*COMMAND, *words), (".txt",), settings={"its": {"own": [1, 2]}})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    return folder


@pytest.fixture
async def start(root: Path, tmp_path: Path) -> AsyncIterator[Starts]:
    started: list[LanguageServers] = []

    def begin(*specs: LanguageServerSpec, seconds: float = 20) -> LanguageServers:
        found = [*specs]
        servers = LanguageServers(root, lambda end: [one for one in found if end in one.extensions], tmp_path, seconds)
        started.append(servers)
        return servers

    yield begin
    for servers in started:
        await servers.close()
