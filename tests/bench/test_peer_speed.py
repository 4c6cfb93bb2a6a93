"""The comparison with other installed programs: its pure parts, its server, and one run of it."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from shutil import which

import pytest

from bench.peers.screens import Screen, answers, first_prompt_row, prompt_mark, row_of, unfinished_from
from bench.peers.server import Answer, ScriptedServer, Times, gaps_ms, shell_call
from bench.peers.tables import Metric, Table, format_table, medians, ratio_to_best_peer
from tests.kit.commands import ROOT

START = Metric("start", "start", "s")
LINES = Metric("lines", "lines", "", is_compared=False)
TABLE = Table(
    "a row",
    (START, LINES),
    {
        "ebb": {"start": [0.3, 0.1, 0.2], "lines": [0]},
        "ebb --no-sandbox": {"start": [0.1], "lines": [0]},
        "slow": {"start": [4, 1], "lines": [2]},
        "quick": {"start": [0.4], "lines": [3]},
        "broken": {},
    },
    {"broken": "ended: no such model"},
    1.25,
)

FAKE_PEER = """\
#!{python}
import json, os, sys, tomllib, urllib.request

if sys.argv[1:] == ["--version"]:
    sys.exit(print("peer 1.0"))
with open(os.path.expanduser("~/.codex/config.toml"), "rb") as file:
    url = tomllib.load(file)["model_providers"]["local"]["base_url"]
body = json.dumps({{"model": "m", "input": [], "tools": [{{"type": "function", "name": "exec_command"}}]}})
request = urllib.request.Request(url + "/responses", body.encode(), {{"content-type": "application/json"}})
print(urllib.request.urlopen(request).read().decode())
try:
    urllib.request.urlopen("https://example.com/", timeout=20)
except OSError:
    pass
"""


def test_ratios_compare_our_median_with_the_best_peer() -> None:
    found = medians(TABLE, START)
    assert found == {"ebb": 0.2, "ebb --no-sandbox": 0.1, "slow": 2.5, "quick": 0.4}
    assert ratio_to_best_peer(found) == (0.5, "quick")


@pytest.mark.parametrize("found", [{}, {"slow": 1.0}, {"ebb": 1.0}, {"ebb": 1.0, "slow": 0.001}])
def test_without_a_peer_that_took_time_there_is_no_ratio(found: dict[str, float]) -> None:
    assert ratio_to_best_peer(found) is None


def test_a_table_has_all_medians_ratios_and_failures() -> None:
    assert [line.split() for line in format_table(TABLE).splitlines()] == [
        ["a", "row", "(load", "1.2)", "ebb", "ebb", "--no-sandbox", "slow", "quick", "broken"],
        ["start,", "s", "0.20", "0.10", "2.50", "0.40", "-", "0.50", "×", "quick,", "0.25", "×", "quick"],
        ["lines,", "0.00", "0.00", "2.00", "3.00", "-"],
        ["broken:", "ended:", "no", "such", "model"],
    ]


def test_queries_of_programs_are_answered_as_by_a_terminal() -> None:
    asked = b"\x1b[?u\x1b[c\x1b[6n\x1b]11;?\x1b\\\x1b[?2026$p\x1b[?1016$p"
    assert (
        answers(asked, (3, 7)) == b"\x1b[?62;22c\x1b[7;3R\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[?2026;2$y\x1b[?1016;0$y"
    )


def test_a_screen_shows_no_control_sequences_even_if_they_arrive_in_pieces() -> None:
    screen = Screen(20, 2)
    for raw in (b"\x1b[>1", b"u\x1b[=1;1uone\x1bP+q4d", b"73\x1b\\\x1b[?6n\x1b[1;1H\r\n> t", b"w\xc3", b"\xb6\x1b[2 q"):
        screen.feed(raw)
    assert [row.rstrip() for row in screen.rows] == ["one", "> twö"]
    assert screen.cursor == (6, 2)


@pytest.mark.parametrize("raw", [b"a", b"a\x1b[1m", b"\x1b]0;title\x07"])
def test_finished_output_is_read_whole(raw: bytes) -> None:
    assert unfinished_from(raw) == len(raw)


def test_the_prompt_is_found_on_earlier_screens_by_its_mark() -> None:
    mark = prompt_mark("  > жы", "ыжш")
    assert mark == ">"
    assert row_of("ыж", ["ж", "> ы", ""]) == 1
    assert first_prompt_row([["title", ""], ["title", " > "], ["title", "tip", " > ж"]], mark) == 1
    assert first_prompt_row([["title"]], mark) is None
    assert first_prompt_row([["title"]], prompt_mark("ж", "ж")) is None


def test_gaps_are_from_an_answer_to_the_next_request() -> None:
    assert gaps_ms([Times(1.0, 2.0), Times(2.5, 3.0), Times(3.25, 4.0)]) == [500.0, 250.0]


def test_commands_are_run_by_the_shell_tool_that_a_request_offers() -> None:
    chat = {
        "tools": [
            {"type": "function", "function": {"name": "read"}},
            {"type": "function", "function": {"name": "bash"}},
        ]
    }
    call = shell_call(chat, "ls")
    assert call is not None
    assert (call.name, call.arguments["command"]) == ("bash", "ls")
    assert shell_call({"tools": [{"name": "read"}]}, "ls") is None
    assert shell_call({}, "ls") is None


def test_the_server_answers_steps_from_its_script_and_refuses_other_hosts() -> None:
    def post(body: object) -> str:
        request = urllib.request.Request(f"{server.url}/v1/messages", json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as response:
            return str(response.read().decode())

    with ScriptedServer(lambda number: Answer(text=f"answer-{number}")) as server:
        assert "Title" in post({"model": "m"})
        offers_bash = {"model": "m", "tools": [{"name": "Bash"}]}
        assert "answer-" in post(offers_bash)
        post(offers_bash)
        proxied = urllib.request.build_opener(urllib.request.ProxyHandler({"http": server.url, "https": server.url}))
        for url in ("http://example.com/a", "https://example.com/b"):
            with pytest.raises(urllib.error.URLError):
                proxied.open(url, timeout=20)
    assert [len(server.steps), server.side_requests] == [2, ["/v1/messages"]]
    assert server.outside == ["http://example.com/a", "example.com:443"]


def test_programs_are_compared_and_missing_ones_are_named(tmp_path: Path) -> None:
    folder, home = tmp_path / "bin", tmp_path / "home"
    for made in (folder, home):
        made.mkdir()
    for name in ("bash", "env", "git", "sh"):
        (folder / name).symlink_to(which(name) or name)
    peer = folder / "codex"
    peer.write_text(FAKE_PEER.format(python=sys.executable))
    peer.chmod(0o755)
    command = [sys.executable, "-m", "bench.peers", "--programs", str(folder), "--runs", "1", "first-request"]
    env = {**os.environ, "PATH": str(folder), "HOME": str(home), "EBB_HOME": str(home)}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True, timeout=200)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "claude: not installed, skipped" in lines
    assert "codex: peer 1.0" in lines
    first = next(line for line in lines if line.startswith("start to first request"))
    assert first.endswith("× codex")
    assert "-" not in first.split()
    assert "codex asked for example.com:443: refused" in lines
    assert list((home / ".cache").iterdir()) == []


def test_an_unknown_row_is_refused_with_the_names_of_all() -> None:
    command = [sys.executable, "-m", "bench.peers", "nothing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    assert "no such row: nothing (rows: start, echo," in done.stderr
