"""The main job, end to end: a process, a real socket, a real repository, for each wire."""

import itertools
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.messages import Usage
from tests.kit.commands import ebb
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.files import write_file
from tests.kit.git import git

MARK = re.compile(r', "(?:cache_control|prompt_cache_breakpoint)": \{[^}]*\}')
WIRES = ["anthropic/claude-sonnet-5-5", "openai/gpt-6-sol", "openai-chat/local", "ollama/qwen3"]
TESTS = f"{sys.executable} -B -m unittest -q"  # a stale .pyc of the same second and size must not decide


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    write_file(folder / "sums.py", "def add(a, b):\n    return a - b\n")
    (folder / "test_sums.py").write_text(
        "import unittest\nfrom sums import add\n\n"
        "class T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    )
    git(folder, "init", "-q")
    return folder


def keys(server: FakeProvider) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": server.url,
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OLLAMA_HOST": server.url,
        "ANTHROPIC_API_KEY": "key",
        "OPENAI_API_KEY": "key",
    }


def repairs() -> list[Turn]:
    turns = [
        Turn(text="I run the tests.", calls=(Call("bash", {"command": TESTS}),)),
        Turn(calls=(Call("read", {"path": "sums.py"}), Call("grep", {"pattern": "add"}))),
        Turn(calls=(Call("edit", {"path": "sums.py", "old": "a - b", "new": "a + b"}),)),
        Turn(calls=(Call("bash", {"command": TESTS}),)),
        Turn(text="Fixed: `add` subtracted."),
    ]
    return [replace(turn, usage=Usage(2000 + 200 * number, output=20)) for number, turn in enumerate(turns)]


@pytest.mark.parametrize("wire", ["http", "sdk"])
@pytest.mark.parametrize("model", WIRES)
def test_the_tests_fail_fix_them(model: str, wire: str, repository: Path, tmp_path: Path) -> None:
    name = model.split("/")[0]
    with FakeProvider(repairs()) as server:
        run = ebb(
            *("-p", "the tests fail, fix them", "-C", str(repository), "-m", model, "--output-format", "json"),
            *("--permission-mode", "auto", "--config", f"providers.{name}.wire={wire}"),
            home=tmp_path / "home",
            env=keys(server),
        )
    notice = "" if name != "openai-chat" else "ebb: nothing is known about `openai-chat/local`"
    assert (run.code, run.err[: len(notice)], run.err.count("\n")) == (0, notice, 1 if notice else 0)
    result = run.result
    assert (result["result"], result["stop_reason"], result["steps"]) == ("Fixed: `add` subtracted.", "answered", 5)
    assert (result["files_changed"], result["denied"], result["error"]) == (["sums.py"], [], None)
    assert result["usage"]["output"] > 0
    assert subprocess.run(TESTS.split(), cwd=repository, check=False).returncode == 0
    assert len(server.requests) == 5


@pytest.mark.parametrize("model", WIRES)
def test_each_request_begins_with_the_one_before(model: str, repository: Path, tmp_path: Path) -> None:
    with FakeProvider(repairs()) as server:
        run = ebb(
            *("-p", "fix", "-C", str(repository), "-m", model, "--permission-mode", "auto"),
            *("--output-format", "stream-json"),
            home=tmp_path / "home",
            env=keys(server),
        )
    bodies = [json.loads(MARK.sub("", json.dumps(request.body))) for request in server.requests]
    assert len(bodies) == 5
    for before, after in itertools.pairwise(bodies):
        before_messages, after_messages = (
            body.pop("messages", None) or body.pop("input") for body in (dict(before), dict(after))
        )
        assert after_messages[: len(before_messages)] == before_messages
        fixed = before.keys() - {"messages", "input"}
        assert {name: after[name] for name in fixed} == {name: before[name] for name in fixed}
    assert not {"prefix_drifted", "cache_broken"} & {str(line["type"]) for line in run.lines}
