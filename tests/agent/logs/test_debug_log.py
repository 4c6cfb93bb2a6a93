"""What is said for those who debug the context: real files, and every `say` in the program."""

import ast
import io
import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from ebbtide.agent.logs import debug_log
from ebbtide.agent.logs.debug_log import TOPICS, DebugLog, Topic, is_enabled

ROOT = Path(__file__).parents[3]
EPOCH = "1970-01-01T00:00:01.500+00:00"


@dataclass(frozen=True, slots=True)
class Point:
    x: int


def clock() -> float:
    return 1.5


def test_a_line_has_its_topic_its_time_and_its_fields(tmp_path: Path) -> None:
    path, echo = tmp_path / "logs" / "context.jsonl", io.StringIO()
    DebugLog(path, echo, clock).log("context/prefix-drift", where="tools", model=Point(1))
    line = {"topic": "context/prefix-drift", "at": EPOCH, "where": "tools", "model": {"x": 1}}
    assert json.loads(path.read_text()) == json.loads(echo.getvalue()) == line
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_secret_is_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "sw0rdfish!")
    DebugLog(tmp_path / "debug.jsonl").log("context/recall", query="where is sw0rdfish! set", found=3)
    assert '"query": "where is *** set", "found": 3}' in (tmp_path / "debug.jsonl").read_text()


def test_it_is_silent_unless_asked(tmp_path: Path) -> None:
    DebugLog().log("context/mask", outputs=3)
    assert list(tmp_path.iterdir()) == []
    asked = [value for value in ("true", "TRUE", "1", "false", "0", "") if is_enabled({"CONTEXT_DEBUG": value})]
    assert asked == ["true", "TRUE", "1"]
    assert not is_enabled({})


def test_a_full_file_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_log, "MAX_LOG_BYTES", 200)
    path = tmp_path / "context.jsonl"
    for number in range(6):
        DebugLog(path, now=clock).log("context/mask", outputs=number)
    assert [json.loads(line)["outputs"] for line in path.read_text().splitlines()] == [4, 5]
    assert [json.loads(line)["outputs"] for line in (tmp_path / "context.jsonl.1").read_text().splitlines()] == [2, 3]


def test_what_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    closed = io.StringIO()
    closed.close()
    broken = DebugLog(tmp_path / "file" / "context.jsonl", closed)
    broken.log("context/mask")
    assert not broken.is_enabled


def test_every_line_the_program_may_say_is_in_the_table() -> None:
    assert set(TOPICS) == set(get_args(Topic))
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "agent").rglob("*.py")}
    for path in [path for path, source in sources.items() if ".say(" in source]:
        for node in ast.walk(ast.parse(sources[path])):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "say":
                topics = [word.value for word in ast.walk(node.args[0]) if isinstance(word, ast.Constant)]
                fields = {keyword.arg for keyword in node.keywords if keyword.arg}
                known = [set(names) for topic, names in TOPICS.items() if topic in topics]
                assert known, (path, node.lineno)
                assert all(fields <= names for names in known), (path, node.lineno, topics)
