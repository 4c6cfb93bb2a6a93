"""Transcripts of Claude Code: what becomes of them, how any model goes on, and what damage costs."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.integrations.imports import json_lines
from ebbtide.tui.view.sessions import session_details, session_line
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.transcripts import PIXEL, ClaudeSession, result, said, use, write_lines
from tests.kit.user import User

WIRES = ("anthropic/claude-haiku-5-5", "openai/gpt-6-sol", "openai-chat/x", "ollama/x")


def file_of(user: User, name: str = "one") -> Path:
    return user.home / ".claude" / "projects" / "-app" / f"{name}.jsonl"


def imported(user: User, *flags: str) -> dict[str, Any]:
    """What `ebb import` says it did."""
    run = user.ebb("import", "--yes", "--json", *flags, env={"HOME": str(user.home)})
    assert run.code == 0, run.err
    found: dict[str, Any] = json.loads(run.out)
    return found


def messages(user: User, session: str) -> list[Any]:
    """The parts of each message, without what does not matter here."""
    lines = user.ebb("sessions", "show", session, "--json").lines
    return [[{name: part[name] for name in part if name not in ("native", "inserted", "stored")}
             for part in line["parts"]] for line in lines]  # fmt: skip


def worked(user: User) -> ClaudeSession:
    """A session with a thought, two calls at once on branches of their own, one that was left, and a compaction."""
    made = ClaudeSession(str(user.project))
    made.add("user", "mend calc.py")
    made.add("user", "Caveat: all this was made by commands", isMeta=True)
    made.add("assistant", [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}], reply="A")
    first = made.add("assistant", [use("t1", "Bash", command="ls", description="List")], reply="A")
    made.add("user", [result("t1", "calc.py\n")])
    second = made.add("assistant", [use("t2", "Read", file_path="/x/calc.py", limit=2)], reply="A", after=first)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PIXEL}}
    made.add("user", [result("t2", [said("1 + 1"), picture])], after=second)
    fork = made.add("assistant", [said("It is mended.")])
    made.add("user", "this was rewound")
    made.add("assistant", [said("and this")])
    made.add("user", "a sub-agent was told this", isSidechain=True, after=None)
    made.add("user", "<command-name>/test</command-name><command-args>all</command-args>", after=fork)
    made.add("assistant", [use("t3", "mcp__hub__make it", title="z"), use("t1", "Edit", old_string="1", new_string="2",
                                                                          file_path="calc.py")])  # fmt: skip
    made.add("user", [result("t3", "no such hub", failed=True), result("t1", "word " * 2_000)])
    last = made.add("assistant", [said("Tested.")])
    made.lines.append({"type": "system", "subtype": "compact_boundary", "uuid": "cb", "parentUuid": None,
                       "logicalParentUuid": last})  # fmt: skip
    made.add("user", "calc.py was mended", isCompactSummary=True, after="cb")
    made.add("assistant", [said("What is next?")])
    made.add("user", [picture, said("see <system-reminder>be quick</system-reminder>")])
    made.add("assistant", [use("t9", "Bash", command="pytest")])
    return made


def test_the_newest_branch_becomes_a_session_with_every_call_answered_once(user: User) -> None:
    worked(user).write(file_of(user))
    done = imported(user)
    left_out = {"lines of sub-agents": 1, "lines on abandoned branches": 2}
    assert (done["states"], done["left_out"]) == ({"new": 1}, left_out)
    assert done["problems"] == ["imported claude:one in part: calls without an output (1)"]
    (id,) = done["sessions"]
    shown = messages(user, id)
    shown[7][1]["text"] = shown[7][1]["text"][:34]
    assert shown == [
        [{"type": "text", "text": "mend calc.py"}],
        [{"type": "note", "text": "Caveat: all this was made by commands", "kind": "told"}],
        [
            {"type": "reasoning", "text": "hm"},
            {"type": "call", "id": "t1", "name": "bash", "arguments": {"command": "ls"}},
            {"type": "call", "id": "t2", "name": "read", "arguments": {"path": "/x/calc.py", "limit": 2}},
        ],
        [
            {"type": "output", "call_id": "t1", "text": "calc.py\n", "status": "done"},
            {"type": "output", "call_id": "t2", "text": "1 + 1", "status": "done", "images": [
                {"media_type": "image/png", "digest": shown[3][1]["images"][0]["digest"]}
            ]},
        ],
        [{"type": "text", "text": "It is mended."}],
        [{"type": "text", "text": "/test all"}],
        [
            {"type": "call", "id": "t3", "name": "mcp__hub__make_it", "arguments": {"title": "z"}},
            {"type": "call", "id": "t1_2", "name": "edit", "arguments": {"path": "calc.py", "old": "1", "new": "2"}},
        ],
        [
            {"type": "output", "call_id": "t3", "text": "no such hub", "status": "failed"},
            {"type": "output", "call_id": "t1_2", "text": "[Tool result stored — 10,000 bytes", "status": "done"},
        ],
        [{"type": "text", "text": "Tested."}],
        [{"type": "note", "text": "[The conversation was compacted here.]", "kind": "told"}],
        [{"type": "text", "text": "What is next?"}],
        [{"type": "note", "text": "<system-reminder>be quick</system-reminder>", "kind": "told"}],
        [{"type": "text", "text": "see"}],
        [{"type": "image", "media_type": "image/png", "data": PIXEL}],
        [{"type": "call", "id": "t9", "name": "bash", "arguments": {"command": "pytest"}}],
        [{"type": "output", "call_id": "t9", "text": "[no output was recorded]", "status": "interrupted"}],
    ]  # fmt: skip
    assert user.ebb("sessions", "show", id, "r4").out.count("word") == 2_000
    assert "mended" in user.ebb("sessions", "search", "was mended").out


@pytest.mark.parametrize("model", WIRES)
def test_any_model_goes_on_with_an_imported_session_and_is_shown_its_summary(user: User, model: str) -> None:
    worked(user).write(file_of(user))
    (id,) = imported(user)["sessions"]
    with FakeProvider([Turn(text="Gone on.")]) as server:
        env = {
            "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url, "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": f"{server.url}/v1", "OLLAMA_HOST": server.url,
        }  # fmt: skip
        run = user.ebb("-p", "go on", "-r", id, "-m", model, env=env)
        assert (run.code, run.out) == (0, "Gone on.\n"), run.err
        sent = json.dumps(server.requests[-1].body)
    assert "calc.py was mended" in sent
    assert "What is next?" in sent
    assert not any(text in sent for text in ("rewound", "Tested.", "c2ln"))


def test_to_import_again_changes_nothing_until_the_transcript_or_the_session_is_another(user: User) -> None:
    transcript = worked(user)
    path = transcript.write(file_of(user))
    (id,) = imported(user)["sessions"]
    assert imported(user) == {"found": 1, "new": 0, "settings": [], "servers": []}

    transcript.add("user", [result("t9", "1 passed")])
    transcript.add("assistant", [said("All is well.")])
    transcript.write(path)
    again = imported(user)
    assert (again["states"], again["sessions"], again["problems"]) == ({"renewed": 1}, [id], [])
    assert messages(user, id)[-1] == [{"type": "text", "text": "All is well."}]

    user.ebb("-p", "go on", "-r", id, "-m", user.script({"text": "Gone on."}))
    transcript.add("user", "and there it goes on, too")
    transcript.write(path)
    other = imported(user)
    assert (other["states"], imported(user)["new"]) == ({"new": 1}, 0)
    assert [messages(user, one)[-1] for one in (id, *other["sessions"])] == [
        [{"type": "text", "text": "Gone on."}], [{"type": "text", "text": "and there it goes on, too"}]
    ]  # fmt: skip

    removed = json.loads(user.ebb("import", "--remove", "--yes", "--json").out)
    assert removed == {"removed": 1, "stayed": [id]}
    assert "All is well." not in user.ebb("sessions", "search", "there it goes").out


def test_what_is_damaged_costs_its_line_and_the_rest_is_taken(user: User) -> None:
    made = ClaudeSession(str(user.project))
    made.add("user", "begin \ud800 half")
    made.add("assistant", [use("big", "Bash", command="make")])
    made.add("user", [result("big", "x" * (json_lines.MAX_LINE_BYTES + 10))])
    made.add("assistant", [said("That was long.")])
    lost = made.add("user", "this line is lost")
    made.lines[-1] = "{not json"
    made.add("assistant", [said("After the lost one.")], after=lost)
    made.lines.append(dict(made.lines[0]) if isinstance(made.lines[0], dict) else "")
    made.add("user", "end", future={"type": ["unknown"]})
    path = made.write(file_of(user))
    path.write_bytes(path.read_bytes() + b'\xff\xfe{"type":"user","uuid":')
    write_lines(file_of(user, "empty"), [{"type": "summary", "summary": "nothing"}])
    write_lines(file_of(user, "agent-side"), made.lines)
    os.mkfifo(file_of(user, "pipe"))

    done = imported(user)
    assert done["states"] == {"new": 1, "unreadable": 2}
    assert sorted(done["problems"]) == [
        "imported claude:one in part: lines of more than 12 MiB (1), lines that cannot be read (2), "
        "lines with a duplicate id (1), lines that are missing (1)",
        "skipped claude:empty: it has no messages",
        "skipped claude:pipe: it is not a regular file",
    ]
    (id,) = done["sessions"]
    assert [part.get("text") for message in messages(user, id) for part in message] == [
        "begin ? half", None, "[This output had more than 12 MiB and was not imported.]",
        "That was long.", "After the lost one.", "end",
    ]  # fmt: skip


async def test_the_list_of_sessions_says_where_one_comes_from(user: User) -> None:
    worked(user).write(file_of(user))
    (id,) = imported(user)["sessions"]
    sessions = ProjectSessions(
        load_config(user.project, {"EBB_HOME": str(user.home)}, {}), user.project, {}, is_interactive=False
    )
    try:
        (info,) = await (await sessions.open_library()).page()
    finally:
        await sessions.close()
    assert (info.id, info.title, info.project, info.origin) == (id, "mend calc.py", str(user.project), "claude:one")
    assert info.updated_at == datetime(2026, 3, 1, 10, 0, 19, tzinfo=UTC).timestamp()
    (_, _, _, _, (provenance,), *_) = session_details(info, "", ())
    assert provenance == ("imported from claude (one)", "accent")
    assert "from claude" in session_line(info, 120, 0.0, "", (), shows_projects=False)[2][0]
