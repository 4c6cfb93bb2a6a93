"""Recordings of every agent, and bad ones: each trouble is counted or is a reason to skip the recording."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.context.recordings import (
    OUR_TOOLS,
    RecordedCall,
    Recording,
    SkippedRecording,
    join_recordings,
    read_folder,
    read_recording,
    strings_in,
)
from bench.context.replay import replay
from ebbtide.tools.catalog import create_builtin_tools
from tests.bench.test_recorded import called, gave, read, replied, said, written

HALF_DAY = 43_200.0
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
IDS = st.sampled_from(("1", "2", "a:b", "a_b")) | JSON_VALUES
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS,
        "name": st.sampled_from(("exec", "Bash", "wait", "apply_patch", "read")) | JSON_VALUES,
        "args": JSON_VALUES
        | st.fixed_dictionaries({}, optional={name: JSON_VALUES for name in ("command", "input", "cmd", "cell_id")}),
    },
)
ROWS = st.fixed_dictionaries(
    {"t": st.sampled_from(("user", "assistant", "output", "compacted")) | JSON_VALUES},
    optional={
        "text": JSON_VALUES,
        "think": JSON_VALUES,
        "id": IDS,
        "err": JSON_VALUES,
        "ts": JSON_VALUES,
        "calls": st.lists(CALLS | JSON_VALUES, max_size=3) | JSON_VALUES,
    },
)


def script_call(code: str, id: str = "1") -> Mapping[str, Any]:
    return called(id, "exec", input=code)


def calls_of(folder: Path, *calls: Mapping[str, Any]) -> list[RecordedCall]:
    recording = read(folder, said("go"), replied("", *calls))
    return [call for step in recording.steps for call in step.calls]


def test_an_output_half_a_day_ahead_leaves_the_later_pauses(tmp_path: Path) -> None:
    rows = [said("go", 100), replied("", called("1"), at=105), gave("1", "ok", 110 + HALF_DAY), replied("done", at=111)]
    recording = read(tmp_path, *rows, said("more", 1_000), replied("yes", at=1_005), said("and?", 2_000), replied("."))
    assert [step.asked_at for step in recording.steps] == [100, 111, 1_000, 2_000]
    assert recording.problems == {"time out of order": 2}  # also the last reply, which has the time 0


def test_a_script_is_read_as_the_calls_that_it_makes(tmp_path: Path) -> None:
    """The scripts follow those of Codex in public sessions of entireio/entire-graph."""
    found = calls_of(
        tmp_path,
        script_call(
            'const r = await tools.exec_command({\n  cmd: "sed -n \'1,9p\' a.go",\n  workdir: "/app"\n});', "1"
        ),
        script_call(
            'await Promise.all([tools.exec_command({cmd:"git status"}),tools.exec_command({cmd:"git log"})])', "2"
        ),
        script_call('const patch = "*** Begin Patch\\n*** End Patch";\ntext(await tools.apply_patch(patch));', "3"),
        script_call('const r = await tools.write_stdin({session_id: 7, chars: ""});', "4"),
        script_call('const v = load("diff"); text(v);', "5"),
        script_call("await Promise.all([1,2].map(n=>tools.exec_command({cmd:`gh pr view ${n}`})))", "6"),
        script_call('await tools.mcp__github__get_pr({number: 5}); await tools.exec_command({cmd: "ls"});', "7"),
        script_call("await tools.mcp__github__get_pr({number: 5})", "8"),
        called("9", "wait", cell_id="20", yield_time_ms=10_000),
        called("10", "wait", timeout_ms=5),
    )
    assert [(call.tool, call.kind, call.arguments) for call in found] == [
        ("bash", "bash", {"command": "sed -n '1,9p' a.go", "workdir": "/app"}),
        ("bash", "bash", {"command": "git status\ngit log"}),
        ("apply_patch", "edit", {"patch": "*** Begin Patch\n*** End Patch"}),
        ("bash_output", "bash", {"job": 7, "chars": ""}),
        ("exec", "other", {"input": 'const v = load("diff"); text(v);'}),
        ("bash", "bash", {"command": "await Promise.all([1,2].map(n=>tools.exec_command({cmd:`gh pr view ${n}`})))"}),
        (
            "exec",
            "other",
            {"input": 'await tools.mcp__github__get_pr({number: 5}); await tools.exec_command({cmd: "ls"});'},
        ),
        ("mcp__github__get_pr", "other", {"number": 5}),
        ("bash_output", "bash", {"job": "20", "yield_time_ms": 10_000}),
        ("wait", "other", {"timeout_ms": 5}),
    ]


def test_a_recording_of_scripts_is_one_of_codex(tmp_path: Path) -> None:
    rows = (
        said("go"),
        replied("", script_call("await tools.exec_command(args)")),
        gave("1", "Script failed\nWall time 0.0"),
    )
    recording = read(tmp_path, *rows)
    assert recording.agent == "Codex"
    assert recording.steps[0].calls[0].failed
    assert read(tmp_path, said("go"), replied("", called("1", "exec", command="ls"))).agent == "unknown"


def test_a_file_that_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    path = written(tmp_path, [said("go"), replied("", called("1"), called("2")), gave("1", "ok")])
    path.write_text(path.read_text("utf-8") + json.dumps(gave("2", "never ends"))[:-9], "utf-8")
    recording = read_recording(path)
    assert isinstance(recording, Recording)
    assert recording.problems == {"last line that is cut off": 1, "call never answered": 1}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is empty"),
        ("\n \n", "it is empty"),
        ("{}\n[]\n", "no row is in it"),
        ('{"t": "user", "text": "hello"}\n', "no reply of a model is in it"),
        ('{"t": "assistant", "text": ["hello"], "calls": "none"}\n', "no reply of a model is in it"),
    ],
)
def test_a_file_without_replies_is_skipped_with_a_reason(content: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content, "utf-8")
    assert read_recording(path) == SkippedRecording("bad", why)


def test_what_is_no_file_is_skipped_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to("nowhere")
    assert read_folder(tmp_path) == (
        [],
        [
            SkippedRecording("folder", "it cannot be read: Is a directory"),
            SkippedRecording("gone", "it cannot be read: No such file or directory"),
        ],
    )


def test_bytes_that_are_no_text_are_read_as_far_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(b'\xff\xfe\x00\n{"t": "assistant", "text": "caf\xe9"}\n')
    recording = read_recording(path)
    assert isinstance(recording, Recording)
    assert (recording.steps[0].text, recording.problems) == (
        "caf\ufffd",
        {"line that is no row": 1, "row without a time": 1},
    )


def test_an_id_that_is_used_again_belongs_to_the_newest_call(tmp_path: Path) -> None:
    rows: list[Mapping[str, Any]] = [said("go")]
    for number in range(3):
        rows += [replied("", called("call_0", command=f"echo {number}")), gave("call_0", f"{number}")]
    recording = read(tmp_path, *rows)
    assert [(call.id, call.output) for step in recording.steps for call in step.calls] == [
        ("call_0", "0"),
        ("call_0-2", "1"),
        ("call_0-3", "2"),
    ]
    assert recording.problems == {"call with the id of another": 2}


def test_ids_that_differ_only_in_invalid_characters_stay_apart(tmp_path: Path) -> None:
    rows = replied("", called("a:b", command="x"), called("a_b", command="y")), gave("a_b", "y"), gave("a:b", "x")
    recording = read(tmp_path, *rows)
    assert [(call.id, call.output) for call in recording.steps[0].calls] == [("a_b", "x"), ("a_b-2", "y")]
    assert recording.problems == {}


def test_a_history_that_is_repeated_is_counted_and_read_once(tmp_path: Path) -> None:
    history = [said("go", 1), replied("", called("1"), at=2), gave("1", "ok", 3)]
    recording = read(tmp_path, *history, *history, replied("done", at=4))
    assert [call.id for step in recording.steps for call in step.calls] == ["1"]
    assert recording.problems == {"call that is repeated": 1, "second output of a call": 1, "time out of order": 2}


async def test_sessions_of_three_steps_and_of_three_thousand_are_read(tmp_path: Path) -> None:
    for count in (3, 3_000):
        rows: list[Mapping[str, Any]] = [said("go")]
        for number in range(count - 1):
            rows += [replied("", called(f"{number}"), at=number), gave(f"{number}", f"made part_{number}", number)]
        recording = read(tmp_path, *rows, replied("done", at=count))
        assert (len(recording.steps), recording.problems) == (count, {})
        if count == 3:
            assert (await replay(recording, 200_000)).steps == 3


def test_an_output_of_five_megabytes_is_counted(tmp_path: Path) -> None:
    rows = said("go"), replied("", called("1")), gave("1", "x" * 5_000_000)
    recording = read(tmp_path, *rows)
    assert recording.problems == {"output over a million characters": 1}
    assert recording.characters > 5_000_000


@pytest.mark.parametrize("text", ["修复解析器中的错误", "почини разбор строки", "تصحيح المحلل", "répare l'analyseur"])
def test_other_languages_are_not_skipped(text: str, tmp_path: Path) -> None:
    recording = read(tmp_path, said(text), replied(text))
    assert recording.problems == ({} if text.startswith("r") else {"not in English": 1})


def test_the_rows_of_an_agent_and_its_sub_agent_are_skipped_if_they_are_interleaved(tmp_path: Path) -> None:
    rows: list[Mapping[str, Any]] = [said("go")]
    for number in range(6):
        rows += [replied("", called(f"main{number}")), gave(f"sub{number - 1}", "found")]
        rows += [replied("", called(f"sub{number}", "Grep")), gave(f"main{number}", "ok")]
    path = written(tmp_path, rows)
    assert read_recording(path) == SkippedRecording(
        path.stem, "two agents are interleaved: 11 of 12 calls are answered after later replies"
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(st.lists(ROWS | JSON_VALUES, max_size=8))
def test_wrong_types_anywhere_are_no_traceback(tmp_path: Path, rows: Sequence[Any]) -> None:
    found = read_recording(written(tmp_path, [json.dumps(row) for row in rows]))
    if isinstance(found, Recording):
        ids = [call.id for step in found.steps for call in step.calls]
        assert len(ids) == len(set(ids))
        times = [step.asked_at for step in found.steps]
        assert times == sorted(times)
        assert join_recordings([found])[0].characters >= found.characters


async def test_empty_and_strange_arguments_are_replayed(tmp_path: Path) -> None:
    deep: Any = "bottom"
    for _ in range(300):
        deep = [deep]
    rows: list[Mapping[str, Any] | str] = [
        replied(
            "", called("1", "shell", command=[]), {"id": "2", "name": "", "args": 5}, called("3", "exec", input="")
        ),
        replied("", called("4", deep=deep)),
        gave("1", "ok"),
        '{"t": "assistant", "text": "x", "ts": NaN}',
    ]
    recording = read(tmp_path, said("go"), *rows)
    assert [(call.tool, call.arguments) for call in recording.steps[0].calls] == [
        ("bash", {"command": ""}),
        ("tool", {"input": 5}),
        ("exec", {"input": ""}),
    ]
    assert recording.problems == {"line that is no row": 1, "row without a time": 1, "call never answered": 2}
    assert (await replay(recording, 200_000)).steps == 2


def test_the_names_of_our_tools_are_complete() -> None:
    assert {tool.name for tool in create_builtin_tools()} == OUR_TOOLS


def test_all_strings_of_a_value_are_found_in_order() -> None:
    assert list(strings_in({"a": "1", "b": ["2", {"c": ("3", 4, None)}]})) == ["1", "2", "3"]
