"""Each part of the context engine fails alone, for a real reason: the turn is answered all the same, the conversation
is valid, nothing is lost, and what was done instead is told."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.events.session import Event, Noticed, TurnFailed, TurnFinished, WindowLearned
from ebbtide.agent.events.view import ContextCompacted, PrefixDrifted, PrefixRenewed
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.records import store_access, write_queue
from ebbtide.agent.records.stored_view import UNREADABLE_SNAPSHOT
from ebbtide.agent.records.write_queue import LOCKED_NOTICE, UNLOCKED_NOTICE
from ebbtide.agent.session import Session
from ebbtide.agent.tokens.estimate import count_text, estimate_text
from ebbtide.store.sessions import SessionStore
from tests.agent.test_pure_context import is_valid
from tests.kit.files import write_file, write_files
from tests.kit.polling import until
from tests.kit.project import Project
from tests.kit.session import ASKED, READ, events_of, first_turn, turn_in_which


@pytest.fixture(autouse=True)
def files(project: Project) -> None:
    (project.root / "a.txt").write_text("one\n")


def assert_whole(session: Session, project: Project, *texts: str) -> None:
    """The session is valid, shows what was said, and everything is on disk."""
    assert is_valid(build_prompt(session.history, Instructions("")).messages)
    with sqlite3.connect(project.home / "data" / "sessions.db") as db:
        stored = "".join(body for (body,) in db.execute("select body from messages order by position"))
    db.close()
    assert [text for text in texts if json.dumps(text)[1:-1] not in stored] == []


async def goes_on(session: Session, project: Project, text: str, *texts: str) -> None:
    """The same, and one more message is answered."""
    assert (await events_of(session, text))[-1] == TurnFinished("answered", "Yes.")
    assert_whole(session, project, text, *texts)


async def left(project: Project, *replies: dict[str, Any]) -> Session:
    """A session that was told something and closed."""
    session, _ = await first_turn(project.session(*replies, mode="auto"), "go")
    await session.close()
    return session


async def full(project: Project, *summaries: dict[str, Any]) -> Session:
    """A session that can be compacted, with what its model writes then."""
    replies = ({"text": "z" * 30_000}, {"text": "short"}, {"text": "Yes."})
    asked = [{"when": ASKED, **summary} for summary in summaries]
    session = await project.session(*asked, *replies, mode="auto")
    await events_of(session, "never touch b.py")
    await events_of(session, "two")
    return session


@contextmanager
def held(project: Project) -> Iterator[sqlite3.Connection]:
    """The database while another program holds it."""
    with closing(sqlite3.connect(project.home / "data" / "sessions.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        yield other


@pytest.mark.parametrize(
    "damage",
    [
        "nonsense",
        '{"start": 2}',
        '{"start":-4,"summary":"","anchor":null,"anchored":0}',
        '{"start": 0, "summ',
        "[]",
        "null",
        '{"start":"two","summary":"","anchor":null,"anchored":0}',
        '{"start":1e400,"summary":"","anchor":null,"anchored":0}',
        '{"start":0,"summary":"","anchor":{"input":"many"},"anchored":0}',
        '{"start":0,"summary":"","anchor":{"input":5},"anchored":-3}',
        '{"start":0,"summary":"","anchor":{"inputs":5},"anchored":0}',
        '{"start":0,"summary":"","anchor":null,"anchored":0,"masked":7}',
        '{"start":0,"summary":"","anchor":null,"anchored":0,"outputs_before":-1}',
        '{"start":0,"summary":{"retain":[],"summary":"","ledger":"","request":[]},"anchor":null,"anchored":0}',
        '{"start":0,"summary":{"retain":"","summary":"","ledger":"","request":[{"type":"text","text":5}]},'
        '"anchor":null,"anchored":0}',
        '{"start":0,"summary":{"retain":"","summary":"","ledger":"","request":["x"]},"anchor":null,"anchored":0}',
        '{"start":900,"summary":"","anchor":null,"anchored":0}',
        "[" * 5000,
    ],
)
async def test_a_snapshot_that_is_damaged_is_done_without(project: Project, damage: str) -> None:
    before = await left(project, {"calls": [READ]}, {"text": "Done."})
    project.sql(f"update snapshots set body = '{damage}'")
    again = await project.session({"text": "Yes."}, resume="")
    assert again.history.messages == before.history.messages
    assert again.changes_while_closed == (UNREADABLE_SNAPSHOT,)
    await goes_on(again, project, "go on", "go", "one")


async def test_a_count_of_messages_that_are_not_there_is_done_without(project: Project) -> None:
    before = await left(project, {"calls": [READ]}, {"text": "Done."})
    project.sql("update snapshots set body = replace(body, '\"anchored\":4', '\"anchored\":4000')")
    again = await project.session({"text": "Yes."}, resume="")
    assert again.history == replace(before.history, anchor=None, anchored=0)
    await goes_on(again, project, "go on", "go", "one")


@pytest.mark.parametrize(
    "learned",
    ["nonsense", "[]", '{"weights": []}', '{"weights":[1,1,1,1,1,1],"doubt":[],"samples":1e999,"errors":[]}',
     '{"weights":["many"]}', "[" * 5000],
)  # fmt: skip
async def test_what_was_learned_of_a_model_may_be_garbage(project: Project, learned: str) -> None:
    await left(project, {"text": "Done."})
    project.sql(f"update calibrations set body = '{learned}'")
    again = await project.session({"text": "Yes."}, resume="")
    await goes_on(again, project, "go on", "go")


async def test_the_debug_log_may_have_a_file_in_place_of_its_folder(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"EBB_HOME": str(project.home), "CONTEXT_DEBUG": "true"}
    config = load_config(project.root, environment, {"agent.model": f"scripted/{project.script({'text': 'Yes.'})}"})
    write_file(config.folders.logs, "a file")
    sessions = ProjectSessions(config, project.root, environment, is_interactive=False)
    session = await sessions.open()
    await goes_on(session, project, "go")
    assert '"topic": "context-guard/evaluate"' in capsys.readouterr().err
    await session.close()
    await sessions.close()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00broken", b"see @missing.md and @../../../etc/passwd\n@AGENT.md\n"])
async def test_instructions_that_cannot_be_read_are_left_out(project: Project, content: bytes) -> None:
    (project.root / "AGENT.md").write_bytes(content)
    session = await project.session({"text": "Yes."}, mode="auto")
    await goes_on(session, project, "go")


async def test_instructions_may_be_a_folder_a_loop_or_a_pipe(project: Project) -> None:
    (project.root / "AGENT.md").symlink_to("AGENT.md")
    (project.root / "AGENTS.md").mkdir()
    session = await project.session({"text": "Yes."}, mode="auto")
    assert (await events_of(session, "go"))[-1] == TurnFinished("answered", "Yes.")


async def test_a_vocabulary_that_is_broken_leaves_the_count_by_class_of_byte(project: Project) -> None:
    environment = {"EBB_HOME": str(project.home), "TIKTOKEN_CACHE_DIR": str(project.root)}
    script = project.script({"text": "Yes."})
    config = load_config(
        project.root, environment, {"agent.model": f"scripted/{script}", "agent.tokenizer": "tiktoken:o200k_base"}
    )
    folder = config.folders.data / "vocabularies"
    folder.mkdir(parents=True)
    write_files(
        folder,
        ("fb374d419588a4632f3f557e76b4b70aebbca790", "446a9538cb6c348e3516120d7c08b09f57c36495"),
        "IQ== 0\nbroken",
    )
    sessions = ProjectSessions(config, project.root, environment, is_interactive=False)
    session = await sessions.open()
    count = session._ctx.model.meter.token_counter.tokenize
    assert count is not None
    assert count("word " * 300) >= 300
    await goes_on(session, project, "go")
    await session.close()
    await sessions.close()
    assert count_text("word").letters == 4


async def test_outputs_stay_in_the_view_when_there_is_no_folder_to_keep_them_in(project: Project) -> None:
    write_file(project.home / "data" / "outputs", "a file in its project")
    session = await project.session({"calls": [READ]}, {"text": "Yes."}, mode="auto")
    await goes_on(session, project, "go", "one")


@pytest.mark.parametrize(
    "reply",
    [
        {"text": ""},
        {"text": "<summary>(no summary available)</summary>"},
        {"text": "<summary>cut off", "stop": "max_tokens"},
        {"text": "<summary>x</summary>", "calls": [READ]},
        {"error": "auth"},
        {"error": "overflow"},
    ],
    ids=["empty", "says nothing", "capped", "tool call", "no key", "too large"],
)
async def test_a_summary_that_cannot_be_used_is_replaced_by_facts(project: Project, reply: dict[str, Any]) -> None:
    session = await full(project, *[reply] * 8)
    assert (await session.compact()).strategies == ("ledger",)
    assert "never touch b.py" in session.history.summary.ledger
    await goes_on(session, project, "three", "never touch b.py", "two", "z" * 30_000)


async def test_a_summary_that_is_inflated_is_cut_to_its_room(project: Project) -> None:
    session = await full(project, {"text": f"<summary>{'more and more' + chr(10)}{'and more ' * 9000}</summary>"})
    result = await session.compact()
    assert result.after_tokens < result.before_tokens
    assert estimate_text(session.history.summary.summary) <= 1_800
    assert "never touch b.py" in session.history.summary.text
    await goes_on(session, project, "three", "never touch b.py", "two", "z" * 30_000)


async def test_a_summary_in_another_language_still_says_what_was_demanded(project: Project) -> None:
    session = await full(project, {"text": "<retain>无</retain><summary>用户要求修复解析器，我们读了文件。</summary>"})
    assert (await session.compact()).strategies == ("summary",)
    assert "never touch b.py" in session.history.summary.text
    await goes_on(session, project, "three", "never touch b.py", "two", "z" * 30_000)


@pytest.mark.parametrize(("times", "end"), [(2, "answered"), (3, "context")])
async def test_overflow_after_overflow_is_told_and_ends(project: Project, times: int, end: str) -> None:
    steps = [{"calls": [{"name": "bash", "arguments": {"command": f"seq {n} 2000"}}]} for n in range(1, 5)]
    turns = [{"text": "w" * 9_000}] * 6
    no_summary = [{"when": ASKED, "error": "auth"}] * 9
    overflows = [{"error": "overflow"}] * times
    session = await project.session(*no_summary, *turns, *steps, *overflows, {"text": "Yes."}, mode="auto")
    for number in range(6):
        await events_of(session, f"turn {number}")
    events = await events_of(session, "never touch b.py")
    learned = [event for event in events if isinstance(event, WindowLearned)]
    assert [event.attempt for event in learned] == [1, 2, 3][:times]
    assert all(after.size < before.size for before, after in pairwise(learned))
    assert [event.cause for event in events if isinstance(event, ContextCompacted)] == ["overflow"] * 2
    last = events[-1]
    assert (last.code if isinstance(last, TurnFailed) else end) == end
    assert isinstance(last, TurnFinished if end == "answered" else TurnFailed)
    assert_whole(session, project, "never touch b.py", "1999")
    await session.close()

    again = await project.session({"text": "Yes."}, resume="")
    await goes_on(again, project, "go on", "never touch b.py", "1999")


@pytest.fixture
def tells_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that waits a moment only before it tells that another program holds its database."""
    monkeypatch.setattr(store_access, "SessionStore", partial(SessionStore, busy_timeout=0.1))


@pytest.mark.usefixtures("tells_soon")
async def test_what_is_to_be_stored_waits_for_a_database_that_another_program_holds(project: Project) -> None:
    session, _ = await first_turn(project.session({"text": "Done."}, {"text": "Yes."}, mode="auto"), "one")
    with held(project) as other:
        events = await turn_in_which(
            session, Noticed, lambda _: other.in_transaction and other.execute("rollback"), "two"
        )
    assert events[-1] == TurnFinished("answered", "Yes.")
    assert [event for event in events if isinstance(event, Noticed)] == [
        Noticed(LOCKED_NOTICE),
        Noticed(UNLOCKED_NOTICE),
    ]
    assert_whole(session, project, "one", "two")


@pytest.mark.usefixtures("tells_soon")
async def test_a_turn_can_be_interrupted_while_another_program_holds_the_database(project: Project) -> None:
    session, _ = await first_turn(project.session({"text": "Done."}, {"text": "Yes."}, mode="auto"), "one")
    between: list[Event] = []
    session.set_listener(between.append)
    with held(project):
        events = await turn_in_which(session, Noticed, lambda _: session.interrupt(), "two")
        assert [event for event in events if isinstance(event, Noticed)] == [Noticed(LOCKED_NOTICE)]
        assert events[-1] == TurnFinished("interrupted", "")
    await until(lambda: bool(between))
    assert between == [Noticed(UNLOCKED_NOTICE)]
    await goes_on(session, project, "three", "one", "two", "Yes.")
    await session.close()
    again = await project.session(resume="")
    assert again.history.messages == session.history.messages


@pytest.mark.usefixtures("tells_soon")
async def test_a_database_that_another_program_keeps_holding_ends_the_turn(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "LOCK_TIMEOUT_S", 0.0)
    session = await project.session({"text": "Done."}, {"text": "Yes."}, {"text": "Yes."}, mode="auto")
    await events_of(session, "one")
    with held(project):
        failed = (await events_of(session, "two"))[-1]
    assert isinstance(failed, TurnFailed)
    assert "is locked by another program" in failed.message
    assert failed.message.endswith("; not stored: your last message")
    await goes_on(session, project, "three", "one")


async def test_a_view_that_could_not_be_written_is_read_again_from_all_messages_after_a_failure(
    project: Project,
) -> None:
    summary = {"when": ASKED, "text": "<summary>they talked</summary>"}
    replies = [{"text": "z" * 30_000}, {"text": "short"}, {"text": "fine"}, {"error": "auth"}, {"text": "Yes."}]
    session, _ = await first_turn(project.session(summary, *replies, mode="auto"), "one")
    await events_of(session, "two")
    project.sql("drop table snapshots")
    assert (await session.compact()).strategies == ("summary",)
    await events_of(session, "three")
    assert isinstance((await events_of(session, "four"))[-1], TurnFailed)
    events = await events_of(session, "five")
    changes = [event for event in events if isinstance(event, PrefixDrifted | PrefixRenewed)]
    assert (changes, events[-1]) == ([PrefixRenewed(("messages",))], TurnFinished("answered", "Yes."))
    assert_whole(session, project, "one", "two", "three", "four", "five")
    assert not session.history.summary
