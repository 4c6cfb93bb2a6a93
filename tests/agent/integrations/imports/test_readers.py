"""Transcripts of Codex, opencode, Gemini and aider, and what any transcript becomes."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.integrations.imports.agent_folders import AgentName, find_agent_folders
from ebbtide.agent.integrations.imports.assembly import MessageAssembler
from ebbtide.agent.integrations.imports.transcript import (
    CallEntry,
    ImportProblems,
    OutputEntry,
    ProgramEntry,
    ReplyEntry,
    SummaryEntry,
    TranscriptEntry,
    UserEntry,
)
from ebbtide.agent.integrations.imports.transcripts import TRANSCRIPT_READERS, find_transcripts
from ebbtide.agent.messages import Assistant, Image, Note, Summary, Text, ToolCall, ToolOutput, User
from ebbtide.tools.catalog import create_builtin_tools
from tests.kit.transcripts import PIXEL, Json, write_lines

TOOLS = {tool.name: tool for tool in create_builtin_tools()}


def read(home: Path, agent: AgentName) -> tuple[list[tuple[str, str, list[object]]], ImportProblems]:
    """Id, title and messages of each transcript of an agent, and what was wrong with them."""
    troubles, found = ImportProblems(), []
    environment = {"HOME": str(home)}
    for one in find_transcripts(find_agent_folders(environment), home / "app", [agent], troubles):
        assert one.project == str(home / "app")
        opened = TRANSCRIPT_READERS[agent]().open_transcript(one, troubles)
        messages = [message for message, _ in MessageAssembler(TOOLS, one.project, troubles).assemble(opened.entries)]
        found.append((one.id, opened.title, list(map(brief, messages))))
    return found, troubles


def brief(message: object) -> object:
    """A message in few words: who, and its parts."""
    if isinstance(message, Summary):
        return message.text
    assert isinstance(message, User | Assistant)
    parts = list[object]()
    for part in message.parts:
        match part:
            case Note(text=text):
                parts.append(f"({text})")
            case Image():
                parts.append("picture")
            case ToolCall(name=name, arguments=arguments):
                parts.append((name, dict(arguments)))
            case ToolOutput(text=text, status=status, images=images):
                parts.append((status, text, *["picture"] * len(images)))
            case Text(text=text):
                parts.append(text)
            case _:
                parts.append(type(part).__name__)
    return ("> " if isinstance(message, User) else "") + str(parts[0]) if len(parts) == 1 and isinstance(
        parts[0], str
    ) else parts  # fmt: skip


def line(kind: str, **payload: object) -> Json:
    return {"timestamp": "2026-03-01T10:00:00.000Z", "type": kind, "payload": payload}


def item(kind: str, **more: object) -> Json:
    return line("response_item", type=kind, **more)


def message(role: str, *texts: str, **more: object) -> Json:
    return item("message", role=role, content=[{"type": "input_text", "text": text} for text in texts], **more)


def test_a_rollout_of_codex_is_read_without_what_was_rolled_back(tmp_path: Path) -> None:
    day = tmp_path / ".codex" / "sessions" / "2026" / "03" / "01"
    meta = {"id": "c1", "cwd": str(tmp_path / "app"), "cli_version": "0.99", "source": "cli"}
    write_lines(day / "rollout-2026-03-01T10-00-00-c1.jsonl", [
        line("session_meta", **meta),
        message("developer", "be good"),
        message("user", "<environment_context>here</environment_context>"),
        message("user", "mend it"),
        line("event_msg", type="user_message", message="mend it"),
        line("turn_context", model="gpt-test", cwd="/x"),
        item("reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="x"),
        item("function_call", name="shell", call_id="a", arguments='{"command": ["bash", "-lc", "ls"]}'),
        item("function_call", name="update_plan", call_id="b", arguments="{broken \ud800"),
        item("function_call_output", call_id="a", output='{"output": "calc.py", "metadata": {"exit_code": 2}}'),
        item("function_call_output", call_id="b", output=[{"type": "input_text", "text": "ok"}]),
        item("custom_tool_call", name="apply_patch", call_id="c", input="*** Begin Patch\n*** End Patch"),
        message("user", "this is taken back"),
        message("assistant", "and this"),
        line("event_msg", type="thread_rolled_back", num_turns=1),
        line("compacted", message="calc.py was mended"),
        message("assistant", "What is next?"),
        message("user", "<turn_aborted>stopped</turn_aborted>"),
        '{"timestamp": "cut',
    ])  # fmt: skip
    write_lines(day / "rollout-2026-03-01T11-00-00-c2.jsonl", [line("session_meta", **meta | {
        "id": "c2", "source": {"subagent": "review"}
    })])  # fmt: skip
    (day / "rollout-2026-03-01T12-00-00-c3.jsonl.zst").write_bytes(b"packed")
    found, troubles = read(tmp_path, "codex")
    assert found == [("c1", "", [
        "> mend it",
        ["Reasoning", ("bash", {"command": "ls"}), ("update_plan", {"input": "{broken ?"})],
        [("failed", "calc.py"), ("done", "ok")],
        [("apply_patch", {"patch": "*** Begin Patch\n*** End Patch"})],
        [("interrupted", "[no output was recorded]")],
        "> ([The conversation was compacted here.])",
        "calc.py was mended",
        "What is next?",
        "> (<turn_aborted>stopped</turn_aborted>)",
    ])]  # fmt: skip
    assert troubles.skipped_counts == {"conversations of sub-agents": 1}
    assert troubles.problem_counts == {
        "compressed transcripts": 1, "calls without an output": 1, "lines that cannot be read": 1
    }  # fmt: skip


def opencode_session(app: Path) -> tuple[Json, list[tuple[Json, list[Json]]]]:
    info = {"id": "ses_1", "directory": str(app), "title": "Mend", "version": "1.0",
            "time": {"created": 1_770_000_000_000, "updated": 1_770_000_009_000},
            "revert": {"messageID": "msg_9"}}  # fmt: skip
    tool = {"type": "tool", "callID": "a", "tool": "read"}
    return info, [
        ({"id": "msg_1", "role": "user"}, [
            {"type": "text", "text": "mend it"}, {"type": "text", "text": "told", "synthetic": True},
            {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{PIXEL}"},
        ]),
        ({"id": "msg_2", "role": "assistant", "modelID": "m"}, [
            {"type": "step-start"}, {"type": "reasoning", "text": "hm"},
            {**tool, "state": {"status": "completed", "input": {"filePath": "/x/a"}, "output": "1"}},
            {**tool, "callID": "b", "tool": "odd tool", "state": {"status": "error", "input": {}, "error": "no"}},
            {"type": "step-start"}, {"type": "text", "text": "Mended."},
            {**tool, "callID": "c", "tool": "bash", "state": {"status": "running", "input": {"command": "ls"}}},
        ]),
        ({"id": "msg_3", "role": "assistant", "summary": True}, [{"type": "text", "text": "It was mended."}]),
        ({"id": "msg_4", "role": "assistant"}, [{"type": "text", "text": "What is next?"}]),
        ({"id": "msg_9", "role": "user"}, [{"type": "text", "text": "reverted"}]),
    ]  # fmt: skip


OPENCODE = [("ses_1", "Mend", [
    "> mend it", "> (told)", "> picture",
    ["Reasoning", ("read", {"path": "/x/a"}), ("odd_tool", {})],
    [("done", "1"), ("failed", "no")],
    ["Mended.", ("bash", {"command": "ls"})],
    [("interrupted", "[no output was recorded]")],
    "> ([The conversation was compacted here.])",
    "It was mended.",
    "What is next?",
])]  # fmt: skip


def test_opencode_s_files_and_its_database_are_read_alike(tmp_path: Path) -> None:
    data = tmp_path / ".local" / "share" / "opencode"
    info, messages = opencode_session(tmp_path / "app")
    write_lines(data / "storage" / "session" / "p" / "ses_1.json", [info])
    write_lines(data / "storage" / "session" / "p" / "ses_2.json", [{**info, "id": "ses_2", "parentID": "ses_1"}])
    for body, parts in messages:
        write_lines(data / "storage" / "message" / "ses_1" / f"{body['id']}.json", [body])
        for number, part in enumerate(parts):
            write_lines(data / "storage" / "part" / str(body["id"]) / f"prt_{number}.json", [part])
    found, troubles = read(tmp_path, "opencode")
    assert found == OPENCODE
    assert troubles.skipped_counts == {"conversations of sub-agents": 1, "messages that were reverted": 1}

    with closing(sqlite3.connect(data / "opencode.db")) as db:
        db.execute(
            "create table session (id, parent_id, directory, title, version, revert, time_created, time_updated)"
        )
        db.execute("create table message (id, session_id, time_created, data)")
        db.execute("create table part (id, message_id, session_id, data)")
        row = (info["id"], None, info["directory"], info["title"], "1.1", json.dumps(info["revert"]), 1, 2)
        db.execute("insert into session values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        for place, (body, parts) in enumerate(messages):
            db.execute("insert into message values (?, 'ses_1', ?, ?)", (body["id"], place, json.dumps(body)))
            for number, part in enumerate(parts):
                db.execute("insert into part values (?, ?, 'ses_1', ?)", (number, body["id"], json.dumps(part)))
        db.execute("insert into part values (9, 'msg_4', 'ses_1', '{broken')")
        db.commit()
    found, troubles = read(tmp_path, "opencode")
    assert (found, troubles.problem_counts) == (
        OPENCODE, {"rows that cannot be read": 1, "calls without an output": 1}
    )  # fmt: skip
    (data / "opencode.db").rename(data / "opencode-dev.db")
    shutil.rmtree(data / "storage")
    assert read(tmp_path, "opencode")[0] == OPENCODE
    (data / "opencode.db").write_bytes(b"no database " * 100)
    assert read(tmp_path, "opencode")[0] == OPENCODE


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_gemini_s_chats_are_read_in_both_of_their_forms(tmp_path: Path, form: str) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "app-1" / "chats"
    write_lines(tmp_path / ".gemini" / "projects.json", [{"projects": {str(tmp_path / "app"): "app-1"}}])
    meta = {"sessionId": "g1", "startTime": "2026-03-01T10:00:00Z", "summary": "Mend"}
    response = [{"functionResponse": {"id": "a", "name": "read_file", "response": {"output": "1"}}}]
    messages: Sequence[Json] = [
        {"id": "1", "type": "user", "content": [{"text": "mend it"}, {"inlineData": {"data": PIXEL}}]},
        {"id": "2", "type": "gemini", "content": "I look.", "thoughts": [{"subject": "hm"}], "toolCalls": [
            {"id": "a", "name": "read_file", "args": {"absolute_path": "/x/a"}, "result": response},
            {"id": "b", "name": "run_shell_command", "args": {"command": "ls"}, "status": "cancelled"},
        ]},
        {"id": "3", "type": "info", "content": "Request cancelled."},
        {"id": "4", "type": "user", "content": "go on"},
    ]  # fmt: skip
    if form == "json":
        write_lines(chats / "session-1.json", [{**meta, "messages": messages}])
    else:
        first = {**messages[1], "toolCalls": []}
        write_lines(chats / "session-1.jsonl", [
            {**meta, "kind": "main"}, messages[0], first, messages[1], {"id": "x", "type": "user", "content": "left"},
            {"$rewindTo": "x"}, *messages[2:], {"$set": {"summary": "Mend"}}, "{cut",
        ])  # fmt: skip
        write_lines(chats / "session-2.jsonl", [{"sessionId": "g2", "kind": "subagent"}])
    found, _ = read(tmp_path, "gemini")
    ((_, title, entries),) = found
    assert (title, entries) == ("Mend", [
        "> mend it", "> picture",
        ["Reasoning", "I look.", ("read", {"path": "/x/a"}), ("bash", {"command": "ls"})],
        [("done", "1"), ("denied", "")],
        "> go on",
    ])  # fmt: skip


def test_aider_s_history_has_a_session_under_each_heading(tmp_path: Path) -> None:
    write_lines(tmp_path / "app" / ".aider.chat.history.md", [
        "# aider chat started at 2026-03-01 10:00:00", "", "> Aider v0.86", "", "#### mend it", "#### please", "",
        "I mend it.", "", "```python", "1 + 1", "```", "> Applied edit to calc.py", "#### thanks",
        "# aider chat started at 2026-03-01 10:00:00", "#### again", "", "Yes.",
        "# aider chat started at 2026-13-01 10:00:00", "#### in no month",
    ])  # fmt: skip
    found, _ = read(tmp_path, "aider")
    assert found == [
        (f"{tmp_path / 'app'}@2026-13-01 10:00:00", "", ["> in no month"]),
        (f"{tmp_path / 'app'}@2026-03-01 10:00:00", "", [
            "> (Aider v0.86)", "> mend it\nplease", "I mend it.\n\n```python\n1 + 1\n```",
            "> (Applied edit to calc.py)", "> thanks",
        ]),
        (f"{tmp_path / 'app'}@2026-03-01 10:00:00#2", "", ["> again", "Yes."]),
    ]  # fmt: skip


IDS = st.sampled_from(["a", "b", "", "so/odd id", "x" * 60])
TEXTS = st.sampled_from(["", " ", "said", "more"])
KEYS = st.sampled_from(["", "k", "l"])
ENTRIES = st.one_of(
    st.builds(UserEntry, TEXTS, st.just(1.0), st.just(())),
    st.builds(ProgramEntry, TEXTS, st.just(1.0)),
    st.builds(ReplyEntry, st.sampled_from(["text", "thought"]), TEXTS, st.just(1.0), KEYS),
    st.builds(CallEntry, IDS, st.sampled_from(["Bash", "read", "recall", "odd tool", ""]),
              st.sampled_from([{}, {"command": "ls"}, {"file_path": "/a"}]), st.just(1.0), KEYS),
    st.builds(OutputEntry, IDS, TEXTS, st.just(1.0)),
    st.builds(SummaryEntry, TEXTS, st.just(1.0)),
)  # fmt: skip


@given(st.lists(ENTRIES, max_size=30))
def test_whatever_a_transcript_holds_every_call_is_answered_once_right_behind_it(
    entries: list[TranscriptEntry],
) -> None:
    assembled = [one for one, _ in MessageAssembler(TOOLS, "/app", ImportProblems()).assemble(entries)]
    messages = [one for one in assembled if not isinstance(one, Summary)]
    ids = [call.id for one in messages if isinstance(one, Assistant) for call in one.calls]
    assert len(set(ids)) == len(ids)
    assert not any(isinstance(one, Assistant) for one in messages[:1])
    for before, after in zip(messages, [*messages, User(())][1:], strict=True):
        if isinstance(before, Assistant):
            assert isinstance(after, User)
            assert [output.call_id for output in after.outputs] == [call.id for call in before.calls]
            assert any(isinstance(part, Text | ToolCall) for part in before.parts)
        else:
            assert before.parts
    outputs = sum(len(one.outputs) for one in messages if isinstance(one, User))
    assert outputs == len(ids)
    assert texts(messages) == [entry.text for entry in entries if isinstance(entry, UserEntry) and entry.text.strip()]


def texts(messages: Iterable[object]) -> list[str]:
    return [part.text for one in messages if isinstance(one, User) for part in one.parts if isinstance(part, Text)]


def test_every_agent_has_a_reader() -> None:
    assert set(TRANSCRIPT_READERS) == set(get_args(AgentName))


def test_of_several_files_of_one_conversation_the_newest_is_taken(tmp_path: Path) -> None:
    for place, (text, changed) in enumerate((("old", 20), ("new", 30), ("older", 10))):
        path = tmp_path / ".codex" / "sessions" / f"{place}" / f"rollout-{place}.jsonl"
        write_lines(path, [line("session_meta", id="same", cwd=str(tmp_path / "app")), message("user", text)])
        os.utime(path, (changed, changed))
    found, troubles = read(tmp_path, "codex")
    assert (found, troubles.skipped_counts) == ([("same", "", ["> new"])], {"older copies of a conversation": 2})
