"""Recorded sessions read from files, replayed through the real session, and what of them is missed."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.context.model import asks_for_summary
from bench.context.policies import POLICIES
from bench.context.recorded import main, parse_windows
from bench.context.recordings import (
    NOT_RECORDED,
    Recording,
    SkippedRecording,
    join_recordings,
    read_folder,
    read_recording,
)
from bench.context.regrets import Regret
from bench.context.replay import ReplayResult, replay, replay_as_peer, request_texts
from ebbtide.agent.compaction.model_summary import SUMMARISER_PROMPT
from ebbtide.agent.compaction.summary import build_summary_prompt
from ebbtide.agent.eviction.settings import SummaryPreferences
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import Request

Row = Mapping[str, Any]
LONG = "".join(f"line {number} of what a build prints\n" for number in range(400))
HIDDEN = "".join(f"line {number} sets option_{number}_window\n" for number in range(400))
"""Its middle is not shown of a program's output: no line of it stands out."""


def said(text: str, at: float = 0) -> Row:
    return {"t": "user", "text": text, "ts": at}


def replied(text: str, *calls: Row, at: float = 0) -> Row:
    return {"t": "assistant", "text": text, "think": 10, "calls": list(calls), "ts": at}


def called(id: str, name: str = "Bash", **args: object) -> Row:
    return {"id": id, "name": name, "args": args or {"command": "make"}}


def gave(id: str, text: str, at: float = 0, **more: object) -> Row:
    return {"t": "output", "id": id, "text": text, "ts": at, **more}


def written(folder: Path, rows: Sequence[Row | str], name: str = "app-claudecode-00") -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def read(folder: Path, *rows: Row | str) -> Recording:
    found = read_recording(written(folder, rows))
    assert isinstance(found, Recording), found
    return found


async def replayed(folder: Path, *rows: Row | str, policy: str = "ours") -> ReplayResult:
    return await replay(read(folder, *rows), 200_000, POLICIES[policy])


def test_the_tools_of_every_agent_have_our_names(tmp_path: Path) -> None:
    recording = read(
        tmp_path,
        said("go"),
        replied(
            "",
            called("1", "Read", file_path="/a.py", offset=3),
            called("2", "exec_command", cmd="ls"),
            called("3", "view", path="/b.py"),
            called("4", "edit", filePath="/c.py", oldString="a", newString="b"),
            called("5", "Task", prompt="look"),
            called("6", "apply_patch", input="*** Begin Patch"),
            called("7", "mcp__x__y", q="1"),
            called("8", "shell", command=["bash", "-lc", "ls"]),
        ),
    )
    assert [(call.tool, call.kind, call.arguments) for call in recording.steps[0].calls] == [
        ("read", "read", {"path": "/a.py", "offset": 3}),
        ("bash", "bash", {"command": "ls"}),
        ("read", "read", {"path": "/b.py"}),
        ("edit", "edit", {"path": "/c.py", "old": "a", "new": "b"}),
        ("task", "task", {"prompt": "look"}),
        ("apply_patch", "edit", {"patch": "*** Begin Patch"}),
        ("mcp__x__y", "other", {"q": "1"}),
        ("bash", "bash", {"command": "ls"}),
    ]


def test_lines_of_a_file_are_numbered_as_ours_are(tmp_path: Path) -> None:
    recording = read(tmp_path, replied("", called("1", "Read", file_path="/a")), gave("1", "     1→one\n     2→two"))
    assert recording.steps[0].calls[0].output == "1\tone\n2\ttwo"


def test_replies_with_nothing_between_them_are_one_step(tmp_path: Path) -> None:
    rows = [said("go", 5), replied("first", at=6), replied("second", called("1"), at=7), gave("1", "ok", 9)]
    recording = read(tmp_path, *rows, replied("done", at=10), said("more", 20), replied("yes", at=21))
    assert [(step.user_texts, step.asked_at, step.text, len(step.calls)) for step in recording.steps] == [
        (("go",), 5, "first\n\nsecond", 1),
        ((), 9, "done", 0),
        (("more",), 20, "yes", 0),
    ]
    assert recording.problems == {}


def test_what_is_wrong_with_a_recording_is_counted_by_name(tmp_path: Path) -> None:
    recording = read(
        tmp_path,
        "no json",
        '["a list"]',
        said("go", 100),
        replied("", called("1"), called("2"), called("3"), called("1"), at=101),
        gave("1", "one", 90),
        gave("1", "again", 103),
        gave("unheard", "?", 104),
        replied("", called("4"), at=105),
        gave("2", "x" * 4_000_000, 106),
        gave("4", "four", 107),
    )
    assert recording.problems == {
        "line that is no row": 2,
        "call that is repeated": 1,
        "time out of order": 1,
        "second output of a call": 1,
        "output that answers no call": 1,
        "output after a later reply": 1,
        "output over a million characters": 1,
        "call never answered": 1,
    }
    assert [call.output[:9] for step in recording.steps for call in step.calls] == [
        "one",
        "xxxxxxxxx",
        NOT_RECORDED[:9],
        "four",
    ]
    assert [step.asked_at for step in recording.steps] == [100, 104]


def test_two_agents_at_once_and_an_empty_recording_are_skipped_by_name(tmp_path: Path) -> None:
    rows: list[Row] = [said("go")]
    for number in range(0, 20, 2):
        rows += [replied("", called(f"{number}")), said("more"), replied("", called(f"{number + 1}"))]
        rows += [gave(f"{number + 1}", "b"), gave(f"{number}", "a")]
    written(tmp_path, rows, "two")
    written(tmp_path, [said("hello")], "none")
    assert read_folder(tmp_path) == (
        [],
        [
            SkippedRecording("none", "no reply of a model is in it"),
            SkippedRecording("two", "two agents are interleaved: 10 of 20 calls are answered after later replies"),
        ],
    )


async def test_a_session_in_another_language_is_replayed_and_named(tmp_path: Path) -> None:
    rows = said("почини разбор строки в модуле"), replied("Разбор починен, все проверки проходят.")
    run = await replayed(tmp_path, *rows)
    assert (run.recording.problems, run.steps, run.regrets) == ({"not in English": 1}, 1, ())


def test_sessions_of_a_project_are_joined_in_the_order_of_their_times(tmp_path: Path) -> None:
    for name, at in (("app-codex-01", 10), ("app-codex-02", 5), ("lib-codex-00", 1)):
        rows = [said(name, at), replied("", called("1", "exec_command", cmd="ls"), at=at), gave("1", name, at)]
        written(tmp_path, [*rows, replied("done", at=at)], name)
    found = join_recordings(read_folder(tmp_path)[0])
    assert [(one.name, [step.user_texts for step in one.steps if step.user_texts]) for one in found] == [
        ("app, Codex, 2", [("app-codex-02",), ("app-codex-01",)]),
        ("lib, Codex, 1", [("lib-codex-00",)]),
    ]
    assert [call.id for step in found[0].steps for call in step.calls] == ["0-1", "1-1"]


async def test_what_is_used_of_the_hidden_part_of_an_output_is_a_regret(tmp_path: Path) -> None:
    rows = (
        said("go"),
        replied("", called("1")),
        gave("1", HIDDEN),
        replied("I set `option_207_window`."),
        said("thanks"),
    )
    run = await replayed(tmp_path, *rows, replied("option_207_window is set"))
    assert run.regrets == (Regret("names", "1", "bash", "cut", "option_207_window", len(HIDDEN), 0, needs_recall=True),)
    assert run.recall_count == 1
    assert run.left_outputs == {("cut", "bash"): 1}
    assert run.recalls > 1.25 * 2500 / 1000
    whole = replay_as_peer(read(tmp_path, *rows), 200_000, "Claude Code")
    assert (whole.regrets, whole.recalls, whole.left_outputs) == ((), 0, {})


async def test_an_output_that_both_measures_regret_is_recalled_once(tmp_path: Path) -> None:
    rows = said("go"), replied("", called("1")), gave("1", HIDDEN)
    by_names = await replayed(tmp_path, *rows, replied("I set `option_207_window`."))
    by_both = await replayed(tmp_path, *rows, replied("line 207 sets option_207_window"))
    assert [(one.measure, one.wanted, one.needs_recall) for one in by_both.regrets] == [
        ("names", "option_207_window", True),
        ("content", "line 207 sets option_207_window", False),
    ]
    assert by_both.recall_count == by_names.recall_count == 1
    assert by_both.recalls == pytest.approx(by_names.recalls, rel=0.01)


async def test_content_is_visible_in_what_the_user_and_the_model_have_said(tmp_path: Path) -> None:
    line = "line 207 sets option_207_window"
    rows = said("go"), replied("", called("1")), gave("1", HIDDEN)
    calls = called("2", "Edit", file_path="a", new_string=line), called("3", "Write", file_path="b", content=line)
    edited = replied("", calls[0]), gave("2", "ok")
    assert (await replayed(tmp_path, said(f"Why does {line}?"), *rows[1:], replied("", calls[1]))).regrets == ()
    run = await replayed(tmp_path, *rows, *edited, replied("", calls[1]), gave("3", "ok"), replied("Done."))
    assert [(one.measure, one.age) for one in run.regrets] == [("names", 0), ("content", 0)]


def test_the_texts_of_a_request_are_those_of_all_its_messages() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": {"a": ["b", 1]}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"text": "out"}]}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2", "content": "whole"}]},
    ]
    assert request_texts({"system": "not this", "messages": messages}) == ("go", "b", "out", "whole")


async def test_a_replay_is_the_same_each_time(tmp_path: Path) -> None:
    rows = said("go"), replied("", called("1"), called("2")), gave("2", LONG), gave("1", HIDDEN), replied("done")
    assert await replayed(tmp_path, *rows) == await replayed(tmp_path, *rows)


async def test_what_no_agent_would_write_is_replayed_as_far_as_it_goes(tmp_path: Path) -> None:
    rows = [
        said("\ud800 <retain>", float("inf")),
        {
            "t": "assistant",
            "text": None,
            "think": -5,
            "calls": [None, {"id": 1}, called("a:b|c", "call_tool", tool="x")],
        },
        gave("a:b|c", "\ud800 option_207_window \x1b[2J"),
        replied("", called("d", "séance/x", deep=[{"\ud800": None}]), called("e", "compact_context", message="\ud800")),
        gave("e", "nothing was compacted"),
        replied("option_207_window"),
    ]
    run = await replayed(tmp_path, "[" * 100_000, *rows)
    assert [(call.id, call.tool) for step in run.recording.steps for call in step.calls] == [
        ("a_b_c", "call_tool_recorded"),
        ("d", "s_ance_x"),
        ("e", "compact_context_recorded"),
    ]
    assert run.recording.problems == {
        "line that is no row": 1,
        "row without a time": 2,
        "call without an id or a name": 2,
        "call never answered": 1,
    }
    assert (run.steps, run.regrets, run.costs.drift, run.costs.summaries) == (3, (), 0, 0)


async def test_an_output_of_four_megabytes_is_replayed(tmp_path: Path) -> None:
    rows = said("go"), replied("", called("1")), gave("1", HIDDEN * 250), replied("option_207_window")
    run = await replayed(tmp_path, *rows)
    assert [(one.cause, one.characters) for one in run.regrets] == [("cut", 250 * len(HIDDEN))]
    assert run.recording.problems == {"output over a million characters": 1}
    assert run.costs.peak < 0.2


async def test_a_pause_costs_and_is_told_apart(tmp_path: Path) -> None:
    rows = said("go", 0), replied("yes", at=5), said("more", 20), replied("yes", at=25)
    quick = await replayed(tmp_path, *rows)
    slow = await replayed(tmp_path, *rows, said("again", 900), replied("yes", at=905))
    assert (quick.paused_requests, slow.paused_requests) == (0, 1)
    assert slow.unpaused_usage.cache_read == slow.total_usage.cache_read == quick.total_usage.cache_read
    assert slow.paused_cost > 0.5 * quick.costs.cost


async def test_a_cache_that_is_kept_alive_costs_less_than_one_that_runs_out(tmp_path: Path) -> None:
    rows = said("go", 0), replied("yes", at=5), said("again", 500), replied("yes", at=505)
    usual, once, thrice = [
        await replayed(tmp_path, *rows, policy=policy) for policy in ("ours", "cache kept 1×", "cache kept 3×")
    ]
    assert (usual.costs.keep_alives, once.costs.keep_alives, thrice.costs.keep_alives) == (0, 1, 1)
    assert (usual.paused_requests, once.paused_requests) == (1, 0)
    assert once.costs.cost == thrice.costs.cost < usual.costs.cost
    assert (once.total_usage.cache_read, once.costs.drift) == (once.unpaused_usage.cache_read, 0)


async def test_what_the_user_says_while_a_turn_runs_is_heard_there(tmp_path: Path) -> None:
    rows = said("go"), replied("", called("1")), gave("1", "ok"), said("and the tests"), replied("", called("2"))
    run = await replayed(tmp_path, *rows, gave("2", "ok"), replied("done"))
    assert (run.steps, run.costs.requests, run.costs.drift) == (3, 3, 0)


async def test_a_user_who_writes_of_summaries_asks_for_none(tmp_path: Path) -> None:
    rows = said("<task><summary>Background command ended</summary></task>"), replied("noted"), said("<retain>")
    run = await replayed(tmp_path, *rows, replied("noted"))
    assert (run.steps, run.costs.summaries) == (2, 0)


def test_only_the_instruction_asks_for_a_summary() -> None:
    def asks(text: str, system: str = "") -> bool:
        return asks_for_summary(Request(system, (User((Text(text),)),), (), 100, "s"))

    asked = build_summary_prompt(
        SummaryPreferences(summary_prompt="be brief"), "the tests", output_lines=("r1 is a test run",)
    )
    assert [asks(asked), asks(f"a transcript\n\n{asked}", SUMMARISER_PROMPT)] == [True, True]
    assert [asks("a <summary>"), asks(f"a transcript\n\n{asked}"), asks("")] == [False, False, False]


def test_the_command_prints_what_it_found_and_what_that_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, [said("go"), replied("", called("1")), gave("1", HIDDEN), replied("option_207_window")])
    written(tmp_path, [said("hello")], "empty")
    arguments = ["--policy", "ours", "--policy", "crush", "--each", "--window", "100k,1M", "--prices", "openai"]
    monkeypatch.setattr("sys.argv", ["recorded", str(tmp_path), *arguments])
    assert main() == 0
    printed = capsys.readouterr().out
    assert "1 recording, 2 steps, 1 call\nskipped empty: no reply of a model is in it\n" in printed
    assert [line for line in printed.splitlines() if "window" in line] == [
        "window 100,000, means of 1 session",
        "window 1,000,000, means of 1 session",
    ]
    cut = [line.split() for line in printed.splitlines() if line.startswith("    cut")]
    assert [line.split() for line in printed.splitlines() if line.startswith("    all")] == [["all"]] * 2
    assert (
        cut
        == [
            ["cut,", "names", "0.00", "50.00", "1/1", "0.00", "0.00", "0.00", "0.00"],
            ["cut,", "content", "0.00", "0.00", "0/1", "0.00", "0.00", "0.00", "0.00"],
            ["cut,", "names", *["0.00"] * 6],
            ["cut,", "content", *["0.00"] * 6],
        ]
        * 2
    )
    assert [line.split()[0] for line in printed.splitlines() if line.startswith(("ours ", "crush "))] == [
        "ours",
        "crush",
    ] * 2


def cells(heading: str, row: str) -> dict[str, str]:
    """The cells of a row by the titles that end where they end."""
    ends = {match.end(): match[0] for match in re.finditer(r"\S+(?: \S+)*", heading)}
    return {ends[match.end()]: match[0] for match in re.finditer(r"\S+", row) if match.end() in ends}


def test_cells_end_where_their_titles_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = "line 207 sets option_207_window"
    written(tmp_path, [said("go"), replied("", called("1")), gave("1", HIDDEN), replied(answer)])
    lines = printed_by(tmp_path, capsys, monkeypatch, "--policy", "ours", "--policy", "Codex", "--each").splitlines()
    costs = next(at for at, line in enumerate(lines) if "unpaused" in line)
    titles = ["cost", "with recalls", "cached", "unpaused", "rewrites", "cold", "summaries", "peak", "drift"]
    assert [list(cells(lines[costs], lines[costs + row])) for row in (1, 2)] == [titles] * 2
    regrets = next(at for at, line in enumerate(lines) if "recalls " in line and "by names" in line)
    row = lines[regrets + 1].split()
    assert row == ["ours", "50.00", *["50.00", "50.00", "0.00", "0.00"] * 2]
    ends = [match.end() for match in re.finditer(r"\S+", lines[regrets + 1])][1:]
    assert ends == [match.end() for match in re.finditer(r"recalls|all|cut|masked|summarised", lines[regrets])]
    recordings = next(at for at, line in enumerate(lines) if line.startswith("    recording"))
    assert [*cells(lines[recordings], lines[recordings + 1])] == ["steps", *titles[:-1], "names", "content"]
    groups = next(at for at, line in enumerate(lines) if line.count("with recalls") == 2)
    assert lines[groups - 1].split() == ["means", "and", "regrets", "per", "100", "steps", "ours", "Codex"]
    ends = [match.end() for match in re.finditer(r"with recalls|names|content", lines[groups])]
    assert [match.end() for match in re.finditer(r"\S+", lines[groups + 1])][-6:] == ends


def printed_by(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    monkeypatch.setattr("sys.argv", ["recorded", str(folder), *more])
    assert main() == 0
    return capsys.readouterr().out


def test_groups_and_intervals_are_those_of_projects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    regretted = [said("go"), replied("", called("1")), gave("1", HIDDEN), replied("option_207_window")]
    for name in ("app-claudecode-00", "app-claudecode-01", "lib-claudecode-00"):
        written(tmp_path, regretted if name.startswith("app") else [said("go"), replied("done")], name)
    printed = printed_by(tmp_path, capsys, monkeypatch, "--policy", "ours", "--policy", "cache kept 1×")
    rows = {line[:42].strip(): line[42:].split() for line in printed.splitlines()}
    assert [rows[name][1] for name in ("app (2)", "lib (1)", "without app (1)", "without lib (2)")] == [
        "50.00", "0.00", "0.00", "50.00"
    ]  # fmt: skip
    intervals = printed[printed.index("95 % intervals, 2 projects") :].splitlines()
    assert intervals[1].split() == ["ours", "0.00", "to", "50.00", "0.00", "to", "0.00"]
    assert intervals[2].startswith("  cache kept 1× ")
    cost, with_recalls, *regrets = re.findall(r"\S+ to \S+", intervals[2])
    assert (cost.count("%"), with_recalls.count("%"), regrets) == (2, 2, ["0.00 to 50.00", "0.00 to 0.00"])


def test_a_part_is_replayed_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("app-codex-00", "app-codex-01"):
        written(tmp_path, [said("go"), replied("done")], name)
    monkeypatch.setattr("sys.argv", ["recorded", str(tmp_path), "--part", "fit"])
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, "split.json` is missing" in capsys.readouterr().err) == (2, True)
    (tmp_path / "split.json").write_text('{"fit": ["app-codex-00.jsonl"], "check": ["app-codex-01.jsonl"]}', "utf-8")
    printed = printed_by(tmp_path, capsys, monkeypatch, "--part", "check", "--policy", "ours", "--each")
    assert "app-codex-01" in printed
    assert "app-codex-00" not in printed
    assert "one session" in printed


def test_windows_are_written_as_people_say_them() -> None:
    assert parse_windows("100k,200000,1M") == [100_000, 200_000, 1_000_000]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere/at/all"], "`/nowhere/at/all` is not a folder"),
        (["."], "no file in it ends in `.jsonl`"),
        ([".", "--window", "10k"], "use tokens from 40k on"),
        ([".", "--window", "large"], "use tokens from 40k on"),
    ],
)
def test_a_folder_or_a_window_that_cannot_be_used_is_told(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["recorded", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert message in capsys.readouterr().err


async def test_a_session_that_learns_keeps_what_is_like_what_was_regretted(tmp_path: Path) -> None:
    built = "".join(f"building part {number}\n" for number in range(20))
    many = [f"a{number}" for number in range(24)]
    small = [row for id in "xyz" for row in (replied("", called(id)), gave(id, "ok"))]
    names = ("option", "choice", "setting", "feature", "profile", "variant")
    rows = (
        said("go"),
        replied("", *map(called, names)),
        *(gave(name, HIDDEN.replace("option", name)) for name in names),
        replied(f"One of {', '.join(f'{name}_200_window' for name in names)}.", *(called(id) for id in many)),
        *(gave(id, built) for id in many),
        *small,
        replied("Done."),
        said("and now?", at=1_000),
        replied("Nothing.", at=1_001),
    )
    usual, learning = [await replayed(tmp_path, *rows, policy=policy) for policy in ("ours", "learning")]
    assert usual.regrets == learning.regrets != ()
    assert (usual.left_outputs, learning.left_outputs) == (
        {("cut", "bash"): 6, ("masked", "bash"): 24},
        {("cut", "bash"): 6},
    )
