"""What left the view, found by reference: a real database, real files, whole sessions."""

import base64
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.archive.archive import REPEATED_MESSAGE_SEPARATOR
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.errors import ReferenceFailed
from ebbtide.agent.events.session import Noticed, ToolFinished, TurnFinished
from ebbtide.agent.messages import Assistant, Conversation, Image, Note, Summary, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.view.previews import OffloadLimits
from ebbtide.agent.view.references import message_digits
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.errors import StoreError
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import ToolError
from ebbtide.tools.process.state import ProgramState
from tests.kit.session import ID, OTHER, Home, bash, call, calls, events_of, first_turn, outputs_of


async def test_a_long_output_is_shown_in_part_and_read_back_by_its_reference(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        calls(bash("echo short"), bash("seq 100000; exit 3")),
        calls(call("read_result", ref_id="r2", lines="50000-50001")),
        calls(
            call("tool_output_cache", ref_id="r2", offset=99_998),
            call("tool_output_cache_grep", ref_id="r2", pattern="^77777$"),
        ),
        {"text": "done"},
    )
    session, events = await first_turn(home.session(provider))
    assert events[-1] == TurnFinished("answered", "done")
    short, long, lines, page, found = outputs_of(session)
    assert short == ToolOutput("call-1-1", "short\nexit code 0", program=ProgramState("exit code 0", 0))
    assert long.text.startswith('[Tool result stored — 588,895 bytes, 100,000 lines from "bash".\n1\n2\n')
    assert long.text.endswith(
        '\n100000]\nUse the "read_result" tool with ref_id="r2" to read specific portions.\nexit code 3'
    )
    assert len(long.text) < 2500
    assert (long.status, long.stored is not None) == ("failed", True)
    assert lines.text == "50000\t50000\n50001\t50001\n(lines 50000-50001 of 100,001)"
    assert page.text == "99999\t99999\n100000\t100000\n100001\texit code 3\n(lines 99999-100001 of 100,001)"
    assert found.text == "77777:77777"
    assert os.listdir(home.outputs) == []
    raw = b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert await home.archive().read("r2") == raw + b"exit code 3"
    assert await home.archive().read("r1") == b"short\nexit code 0"
    assert await home.archive().read("r3") == lines.text.encode()
    located = await home.archive().resolve("r2")
    assert (located.tool, located.size, located.line_count) == ("bash", len(raw), 100_000)
    assert located.uri == f"ebb://app/{ID[:8]}/r2"
    assert located.output is not None
    assert located.output.accesses == 4
    assert {spec.name for spec in provider.requests[0].tools} & {"read_result", "tool_output_cache"} == {"read_result"}


async def test_a_session_that_goes_on_counts_on_and_knows_its_references(home: Home) -> None:
    session, _ = await first_turn(
        home.session(ScriptedProvider.from_replies(calls(bash("seq 5000")), {"text": "done"}))
    )
    await session.close()
    provider = ScriptedProvider.from_replies(
        calls(bash("seq 6000"), call("read_result", ref_id="r1", lines="5000")), {"text": "ok"}
    )
    session, _ = await first_turn(home.session(provider, resume=True), "again")
    assert outputs_of(session)[2].text == "5000\t5000\n(lines 5000-5000 of 5,001)"
    assert 'ref_id="r2"' in outputs_of(session)[1].text
    assert await home.archive().read("r2", 0, 4) == b"1\n2\n"


@pytest.mark.parametrize(
    ("command", "printed", "beginning"),
    [
        (r"printf '\033[31mred\033[0m\n'", b"\x1b[31mred\x1b[0m\n", "red\nexit code 0"),
        (r"printf 'caf\351 and more text\n'", b"caf\xe9 and more text\n", "caf\ufffd and more text\nexit code 0"),
        ("head -c 3000 /dev/zero", bytes(3000), '[Tool result stored — 3,000 bytes, 1 line from "bash".\nnot text; '),
        (r"printf 'a\0b, which is some text\n'", b"a\0b, which is some text\n", "ab, which is some text\nexit code 0"),
    ],
)
async def test_bytes_that_the_view_cannot_show_are_kept(
    home: Home, command: str, printed: bytes, beginning: str
) -> None:
    session, _ = await first_turn(home.session(ScriptedProvider.from_replies(calls(bash(command)), {"text": "done"})))
    (output,) = outputs_of(session)
    assert output.text.startswith(beginning)
    ending = b"" if b"\0" in printed else b"exit code 0"
    assert await home.archive().read("r1") == printed + ending
    found = await home.found("r1")
    assert found.trailing_note == ("" if ending else "exit code 0")
    found.content.close()


async def test_all_that_was_told_of_an_output_is_part_of_it(home: Home) -> None:
    hooks = [AfterToolHook("bash", "echo look again")]
    edited = [AfterToolHook("read", "echo see also")]
    (home.root / "a.js").write_text("x" * 5000 + "\n" + "y\n")
    wanted = (
        call("bash", command="seq 2000; sleep 60", timeout=1),
        call("read", path="a.js", limit=1),
        bash("seq 2000; kill -SEGV $$"),
        bash("head -c 3000 /dev/zero; exit 4"),
    )
    again = calls(call("recall", ref_id="r1", lines="2001-"), call("read_result", ref_id="r4"))
    session = await home.session(
        ScriptedProvider.from_replies(calls(*wanted), again, {"text": "done"}), hooks=[*hooks, *edited]
    )
    await events_of(session)
    note = "[A hook of the user for `bash` notes:]\nlook again"
    late = "not finished after 1 s: it continues as job-1; bash_output shows its output, bash_kill ends it"
    outputs = outputs_of(session)
    for ref, ending in (("r1", f"\n2000\n{late}\n{note}"), ("r3", f"\n2000\nkilled by SIGSEGV\n{note}")):
        assert (await home.archive().read(ref)).decode().endswith(ending)
    assert (
        (await home.archive().read("r2"))
        .decode()
        .endswith("xx\n(lines 1-1 of 2; go on with offset=2)\n[A hook of the user for `read` notes:]\nsee also")
    )
    found = await home.archive().open(await home.archive().resolve("r2"))
    assert (found.first_line, found.last_line, found.unnumbered_lines) == (
        1,
        1,
        3,
    )  # what is told of a file is no line of it
    assert await home.archive().read("r4") == bytes(3000)
    assert outputs[4].text.rsplit("\n", 1)[0] == (
        f"2001\t{late}\n2002\t{note.replace(chr(10), chr(10) + '2003' + chr(9))}\n(lines 2001-2003 of 2,003)"
    )
    assert outputs[5].text.endswith(f"\nexit code 4\n{note}")
    assert [output.frame for output in outputs[:2]] == [f"{late}\n{note}", ""]


async def test_lines_of_files_that_are_cut_can_be_read_whole(home: Home) -> None:
    (home.root / "a.js").write_text("short\n" + "x" * 5000 + "\n")
    session, _ = await first_turn(
        home.session(ScriptedProvider.from_replies(calls(call("read", path="a.js")), {"text": "done"}))
    )
    (output,) = outputs_of(session)
    cut = f"2\t{'x' * 2000}… [cut: 5000 characters]"
    how = 'Use the "read_result" tool with ref_id="r1" to read specific portions.'
    assert output.text == f"1\tshort\n{cut}\n{how}"
    assert await home.archive().read("r1") == b"1\tshort\n2\t" + b"x" * 5000


async def test_files_are_shown_whole_up_to_their_own_limit(home: Home) -> None:
    text = "".join(f"a line {number} of a file\n" for number in range(1000))
    (home.root / "a.txt").write_text(text)
    session, _ = await first_turn(
        home.session(ScriptedProvider.from_replies(calls(call("read", path="a.txt")), {"text": "done"}))
    )
    (output,) = outputs_of(session)
    assert (output.stored, output.text.count("\n")) == (None, 999)


async def test_a_truncated_output_shows_more_and_is_kept_too(home: Home) -> None:
    session = await home.session(
        ScriptedProvider.from_replies(calls(bash("seq 5000")), {"text": "done"}),
        offloading=OffloadLimits(mode="truncate"),
    )
    await events_of(session)
    (output,) = outputs_of(session)
    assert output.text.endswith(
        '\n[23,893 bytes, 5,000 lines, cut; `read_result` with ref_id="r1" shows all of it]\nexit code 0'
    )
    assert 3800 < len(output.text) < 4300
    assert len(await home.archive().read("r1")) == 23_893 + len("exit code 0")


async def test_an_archive_that_fails_leaves_the_output_in_view(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StoreError("full", "nothing more can be stored in `b`: the disk is full")

    monkeypatch.setattr(home.blobs, "put", full)
    (home.root / "a.txt").write_text("x" * 3000)
    session = await home.session(
        ScriptedProvider.from_replies(calls(bash("seq 5000"), call("read", path="a.txt")), {"text": "done"})
    )
    events = await events_of(session)
    notice = "the output of `bash` could not be stored, so it is shown in part: nothing more can be stored in `b`"
    assert next(event.text[: len(notice)] for event in events if isinstance(event, Noticed)) == notice
    printed, read = outputs_of(session)
    (log,) = home.outputs.iterdir()
    note = '[23,893 bytes, 5,000 lines, cut; `read_result` with ref_id="r1" shows all of it]'
    assert printed.text.endswith(f"\n{note}\nall of it is in {log}\nexit code 0")
    assert (printed.text.startswith("1\n2\n"), printed.whole, printed.stored) == (True, str(log), None)
    assert log.read_bytes() + b"exit code 0" == await home.archive().read("r1")
    assert read.text.startswith("1\t" + "x" * 2000)
    assert events[-1] == TurnFinished("answered", "done")


async def test_what_finds_no_room_is_kept_whole(home: Home) -> None:
    text = "".join(f"{number}: a line of text\n" for number in range(1500))
    (home.root / "a.txt").write_text(text)
    provider = ScriptedProvider.from_replies(calls(call("read", path="a.txt")), {"text": "done"}, context_window=14_000)
    await events_of(await home.session(provider))
    rows = await home.thread.run(home.store.messages, ID)
    messages = [decode_message(row) for row in rows]
    (output,) = [output for message in messages if isinstance(message, User) for output in message.outputs]
    assert 'nearly full; read_result with ref_id="r1" shows all of it' in output.text
    assert len(output.text) < 10_000
    content = await home.archive().read("r1")
    assert content.decode() == "\n".join(f"{at + 1}\t{line}" for at, line in enumerate(text.splitlines()))


async def test_messages_summaries_and_pictures_have_references(home: Home) -> None:
    asked = User((Text("fix the parser"),))
    reply = Assistant((Text("I look."), ToolCall("c1", "read", {"path": "a"}), ToolCall("c2", "bash", {})), "m")
    picture = Image("image/png", base64.b64encode(b"\x89PNG").decode())
    outputs = User((ToolOutput("c1", "one\ntwo"), ToolOutput("c2", "picture", images=(picture, picture))))
    recorder = await home.said(asked, reply)
    conversation = Conversation((asked, reply))
    await recorder.record_snapshot(conversation.plus(outputs), outputs, None)
    await recorder.record_snapshot(
        replace(conversation.plus(outputs), summary=Summary("keep 7", "what was done")), User(()), None
    )
    await recorder.record_snapshot(replace(conversation.plus(outputs), summary=Summary("", "and more")), User(()), None)
    archive, digits = home.archive(), message_digits(asked)
    assert await archive.read(f"msg-{digits}") == b"fix the parser"
    assert await archive.read(f"msg-{digits[:5]}:B4-7") == b"the"
    assert await archive.read(f"msg-{message_digits(reply)}:tool-1") == b'read({"path": "a"})'
    assert await archive.read(f"msg-{message_digits(outputs)}:tool-1") == b"one\ntwo"
    assert await archive.read("r1:L2-2") == b"two"
    found = await archive.open(await archive.resolve("r2"))
    assert (found.media_type, found.content.read(0, 9)) == ("image/png", b"\x89PNG")
    assert await archive.read("sum-1") == b"keep 7\n\nwhat was done"
    assert await archive.read("sum-2") == b"and more"
    located = await archive.resolve(f"msg-{digits[:5]}")
    assert (located.uri, located.position) == (f"ebb://app/{ID[:8]}/msg-{digits}", 0)


async def test_references_reach_other_sessions_and_projects(home: Home) -> None:
    for session, project, text in ((ID, "/home/me/app", "own"), (OTHER, "/home/me/lib", "another")):
        reply = Assistant((ToolCall("c1", "bash", {}),), "m")
        await home.said(User((Text(text),)), reply, User((ToolOutput("c1", text),)), session=session, project=project)
    archive = home.archive()
    assert await archive.read(f"ebb://lib/{OTHER[:8]}/r1") == b"another"
    assert await archive.read(f"nexora://lib/{OTHER}/r1:L1-1") == b"another"
    assert await archive.read("ebb://_/current/r1") == b"own"
    assert await archive.read(f"ebb://_/{ID[:6]}/r1") == b"own"
    found = await archive.open(await archive.resolve(f"ebb://lib/{OTHER[:8]}/r1"))
    assert found.ref == f"ebb://lib/{OTHER[:8]}/r1"


async def test_what_cannot_be_found_says_what_there_is(home: Home) -> None:
    reply = Assistant((ToolCall("c1", "bash", {}),), "m")
    texts = [User((Text(f"message {number}"),)) for number in range(40)]
    await home.said(*texts, reply, User((ToolOutput("c1", "x"),)))
    await home.said(User((Text("other"),)), session=OTHER)
    digits = [message_digits(text) for text in texts]
    twice = next(d[0] for d in digits if sum(other[0] == d[0] for other in digits) > 1)
    cases = {
        "r2": "there is no `r2`: the session has 1 output so far",
        "sum-1": "there is no `sum-1`: the session has 0 summaries so far",
        "x": "`x` is not a reference: write `r12`",
        "ebb://app/dead/r1": "there is no session `dead` in project `app`: it was deleted, or the reference is wrong",
        "ebb://lib/aa11/r1": "there is no session `aa11` in project `lib`",
        "ebb://app/aa11/r1": "`ebb://app/aa11/r1` is ambiguous: `ebb://app/",
        f"msg-{twice}": f"`ebb://app/{ID}/msg-{twice}` is ambiguous: `msg-{twice}",
        "r1:tool-1": "`r1` has 0 images and files: leave `:tool-1` out",
        "r1:match-1": "the search output has fewer matches",
    }
    for ref, message in cases.items():
        with pytest.raises(ToolError) as caught:
            await home.found(ref)
        assert message in str(caught.value), ref


async def test_the_matches_of_a_search_can_be_named(home: Home) -> None:
    reply = Assistant((ToolCall("c1", "grep", {}),), "m")
    await home.said(User((Text("go"),)), reply, User((ToolOutput("c1", "a.py\n3:one\n9:two\nb.py\n1:three"),)))
    assert await home.archive().read("r1:match-3") == b"1:three"


async def test_references_of_deleted_sessions_and_removed_bytes_say_so(home: Home) -> None:
    session, _ = await first_turn(
        home.session(ScriptedProvider.from_replies(calls(bash("seq 5000")), {"text": "done"}))
    )
    await session.close()
    rows = ArchiveStore(home.store)
    await home.thread.run(rows.expire, max_bytes=1)
    with pytest.raises(
        ReferenceFailed, match=r"`r1` was removed on \d{4}-\d\d-\d\d because stored outputs took more space"
    ):
        await home.archive().read("r1")
    await home.thread.run(home.store.delete, ID)
    with pytest.raises(ReferenceFailed, match=f"there is no session `{ID[:8]}`"):
        await home.archive(OTHER).read(f"ebb://_/{ID[:8]}/r1")


async def test_outputs_that_earlier_versions_kept_in_files_are_read(home: Home, tmp_path: Path) -> None:
    output_file = tmp_path / "bash-1.txt"
    output_file.write_bytes(b"all\nof\nit\n")
    reply = Assistant((ToolCall("c1", "bash", {}), ToolCall("c2", "bash", {})), "m")
    outputs = (ToolOutput("c1", "a part", whole=str(output_file)), ToolOutput("c2", "a part", whole="/gone"))
    await home.said(User((Text("go"),)), reply, User(outputs))
    assert await home.archive().read("r1:L2-3") == b"of\nit\n"
    assert await home.archive().read("r2") == b"a part"


async def test_messages_of_earlier_versions_get_their_names(home: Home) -> None:
    asked = User((Text("fix it"),))
    await home.said(asked)
    await home.thread.run(home.store.query, "update messages set ref = null")
    assert await home.archive().read(f"msg-{message_digits(asked)}") == b"fix it"


async def test_the_terminal_is_shown_what_the_model_is_shown(home: Home) -> None:
    session, events = await first_turn(
        home.session(ScriptedProvider.from_replies(calls(bash("seq 5000")), {"text": "done"}))
    )
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.text == outputs_of(session)[0].text


async def test_a_message_that_was_said_twice_gives_back_all_that_came_with_it(home: Home) -> None:
    pastes = [Note(f"What the user pasted as [#1]:\n\n{text}") for text in ("first", "second", "first")]
    asked = [User((Text("look at [#1]"), paste)) for paste in pastes]
    await home.said(*asked)
    name = f"msg-{message_digits(asked[0])}"
    assert [f"msg-{message_digits(message)}" for message in asked] == [name] * 3
    found = await home.archive().read(name)
    assert found.decode().split(REPEATED_MESSAGE_SEPARATOR) == [
        f"look at [#1]\n\n{pastes[place].text}" for place in (2, 1)
    ]
    assert (await home.archive().resolve(name)).size == len(found)


async def test_a_summary_that_could_not_be_written_is_written_with_the_next_snapshot(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = User((Text("fix the parser"),))
    recorder = await home.said(asked)
    conversation = Conversation((asked,), Summary("", "what was done"))
    write = SessionStore.write

    def without_summaries(store: SessionStore, *rows: Any) -> None:
        if rows[8]:
            raise StoreError("unreadable", "the table is damaged")
        write(store, *rows)

    with monkeypatch.context() as patch:
        patch.setattr(SessionStore, "write", without_summaries)
        await recorder.record_snapshot(conversation, User(()), None)
    await recorder.record_snapshot(conversation, User(()), None)
    assert await home.archive().read("sum-1") == b"what was done"
