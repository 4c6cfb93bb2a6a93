"""Forks of real sessions: their requests begin as their parent's did, what was kept is found in them, and the parent
stays as it is. And the tree of what was said."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.agent.archive.library import Library
from ebbtide.agent.archive.tree import Branch, MessagePreview, SessionTree, TreeRow, files_changed_since, tree_rows
from ebbtide.agent.compaction.bring_back import require_stored
from ebbtide.agent.compaction.undo import undo_rewrite
from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.messages import Message, Recalls, Text, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.records.file_change import FileChange
from ebbtide.agent.session import Session
from ebbtide.agent.view.references import message_ref
from tests.conftest import thorough
from tests.kit.project import Project
from tests.kit.session import events_of

READ: dict[str, object] = {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
SUMMARY: dict[str, object] = {
    "text": "<retain>a.txt</retain><summary>a.txt was read.</summary>", "when": "Write down what is needed",
}  # fmt: skip
TODO: dict[str, object] = {
    "calls": [{"name": "todo", "arguments": {"items": [{"text": "mend it", "status": "doing"}]}}]
}
WRITE: dict[str, object] = {"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": "x\n"}}]}


@pytest.fixture(autouse=True)
def files(project: Project) -> None:
    (project.root / "a.txt").write_text("".join(f"line {number} of a long text\n" for number in range(400)))


def sent(session: Session) -> list[tuple[Message, ...]]:
    provider = session._ctx.model.provider
    assert isinstance(provider, ScriptedProvider)
    return [request.messages for request in provider.requests]


async def opened(project: Project, *replies: dict[str, object], resume: str | None = None) -> Session:
    model = f"scripted/{project.script(*replies)}"
    return await project.sessions(model=model, permission_mode="auto").open(resume, model)


async def library(project: Project) -> Library:
    return await project.sessions().open_library()


def starts(whole: Sequence[Message], part: Sequence[Message]) -> bool:
    return tuple(whole[: len(part)]) == tuple(part)


async def test_the_first_request_of_a_fork_begins_as_the_parents_last(project: Project) -> None:
    session = await opened(project, READ, {"text": "Read."}, READ, {"text": "Again."})
    await events_of(session, "read it")
    await events_of(session, "once more")
    last, before = sent(session)[-1], session.history
    books = await library(project)
    whole = await books.fork(session.id)
    early = await books.fork(session.id, 4)
    await session.close()

    fork = await opened(project, {"text": "On."}, resume=whole.id)
    assert fork.history == before
    await events_of(fork, "and now?")
    assert starts(sent(fork)[0], last)
    await fork.close()
    fork = await opened(project, {"text": "Else."}, resume=early.id)
    assert fork.history.messages == before.messages[:4]
    await events_of(fork, "something else")
    assert starts(sent(fork)[0], before.messages[:4])
    await fork.close()
    again = await opened(project, resume=session.id)
    assert again.history == before


async def test_a_request_of_a_fork_goes_to_the_same_cache(project: Project) -> None:
    session = await opened(project, {"text": "Hi."})
    await events_of(session, "hello")
    books = await library(project)
    fork = await books.fork((await books.fork(session.id)).id)
    await session.close()
    second = await opened(project, {"text": "On."}, resume=fork.id)
    await events_of(second, "go on")
    provider = second._ctx.model.provider
    assert isinstance(provider, ScriptedProvider)
    assert [request.session_id for request in provider.requests] == [session.id]
    await second.close()


async def test_references_keep_their_numbers_and_go_on_from_there(project: Project) -> None:
    session = await opened(project, READ, READ, {"text": "Read."}, READ, {"text": "Again."})
    await events_of(session, "read it")
    await events_of(session, "once more")
    books = await library(project)
    early = await books.fork(session.id, 6)
    await session.close()
    fork = await opened(project, READ, {"text": "Mine."}, resume=early.id)
    assert len((await fork.archive_listing.page("r2", 1, 900)).lines) == 400
    with pytest.raises(AgentError, match="has 2 outputs"):
        await fork.archive_listing.page("r3", 1, 9)
    await events_of(fork, "read it here")
    assert len((await fork.archive_listing.page("r3", 1, 900)).lines) == 400
    await books.delete(session.id)
    assert len((await fork.archive_listing.page("r1", 1, 900)).lines) == 400


async def test_a_fork_has_learnt_nothing_of_outputs_that_it_does_not_have(project: Project) -> None:
    long: dict[str, object] = {"calls": [{"name": "bash", "arguments": {"command": "seq 4000"}}]}
    first, second = ({"calls": [{"name": "read_result", "arguments": {"ref_id": ref}}]} for ref in ("r1", "r3"))
    session = await opened(project, long, {**first}, long, {**second}, {"text": "Read."})
    await events_of(session, "count")
    assert session.history.recalls == Recalls({"program": 2}, {"r1": "program", "r3": "program"})
    early = await (await library(project)).fork(session.id, 5)
    await session.close()
    fork = await opened(project, resume=early.id)
    assert fork.history.recalls.back == {"r1": "program"}


async def test_a_fork_knows_how_often_what_it_has_was_looked_up(project: Project) -> None:
    session = await opened(project, READ, READ, {"text": "Read."}, SUMMARY, {"text": "Yes."})
    await events_of(session, "read it")
    assert (await session.compact()).strategies
    await events_of(session, "and?")
    asked = [message_ref(User((Text(text),))) for text in ("read it", "and?")]
    here = require_stored(session._ctx.records.archive).recall
    for ref in (asked[0], asked[0], asked[1], "r1", "r2", "sum-1"):
        (await here.fetch(ref)).content.close()
    early = await (await library(project)).fork(session.id, 3)
    whole = await (await library(project)).fork(session.id)
    await session.close()
    everything = (*asked, "r2", "sum-1")
    for fork_id, refs, counts in ((early.id, (asked[0], "r1"), [2, 1]), (whole.id, everything, [2, 1, 1, 1])):
        fork = await opened(project, resume=fork_id)
        there = require_stored(fork._ctx.records.archive).recall
        found = [await there.fetch(ref) for ref in refs]
        assert [stored.access_count for stored in found] == counts
        assert all(stored.last_accessed_at is not None for stored in found)
        for stored in found:
            stored.content.close()
        await fork.close()


async def test_before_a_compaction_a_fork_sees_what_was_seen_then(project: Project) -> None:
    session = await opened(project, READ, READ, READ, {"text": "Read."}, SUMMARY, {"text": "Yes."})
    await events_of(session, "read it")
    before = session.history
    assert (await session.compact()).strategies
    await events_of(session, "and?")
    books = await library(project)
    early, whole = await books.fork(session.id, 3), await books.fork(session.id)
    now = session.history
    await session.close()
    fork = await opened(project, resume=early.id)
    assert (fork.history.messages, fork.history.summary) == (before.messages[:3], before.summary)
    await fork.close()
    fork = await opened(project, resume=whole.id)
    assert fork.history == now
    undone = await fork.change_conversation(undo_rewrite)
    assert undone.conversation.messages == (*before.messages, *now.messages[-2:])


async def test_the_list_is_as_it_was_then(project: Project) -> None:
    session = await opened(project, {"text": "Hi."}, TODO, {"text": "Noted."})
    await events_of(session, "hello")
    await events_of(session, "note it")
    books = await library(project)
    early, whole = await books.fork(session.id, 2), await books.fork(session.id)
    await session.close()
    for fork, items in ((early, ()), (whole, ("mend it",))):
        opened_fork = await opened(project, resume=fork.id)
        assert tuple(item.text for item in opened_fork._ctx.records.recorder.session_state.todos) == items
        await opened_fork.close()


async def test_a_draft_is_used_again_and_goes_when_nobody_uses_it(project: Project) -> None:
    session = await opened(project, {"text": "Hi."}, {"text": "Yes."})
    await events_of(session, "hello")
    await events_of(session, "and?")
    books = await library(project)
    draft = await books.fork(session.id, 2, is_draft=True)
    assert (await books.fork(session.id, 2, is_draft=True)).id == draft.id
    assert [info.id for info in await books.page()] == [session.id]
    fork = await opened(project, resume=draft.id)
    await fork.close()
    with pytest.raises(UsageError):
        await books.rename(draft.id, "gone")

    draft = await books.fork(session.id, 0, is_draft=True)
    fork = await opened(project, {"text": "New."}, resume=draft.id)
    assert fork.history.messages == ()
    await events_of(fork, "something else")
    await fork.close()
    assert {info.id for info in await books.page()} == {session.id, draft.id}


async def test_the_library_lists_searches_and_renames(project: Project) -> None:
    session = await opened(project, {"text": "The moon is out."})
    await events_of(session, "what about tonight?")
    books = await library(project)
    assert [(info.title, info.messages, info.cost) for info in await books.page()] == [("what about tonight?", 2, 0.0)]
    assert await books.page(query="moon") == ()
    (found,), note = await books.search("moon")
    assert (found.info.id, found.excerpt, note) == (session.id, "The moon is out.", "")
    assert await books.search("  ") == ((), "")
    await books.rename(session.id, "  the\nmoon ")
    assert [info.title for info in await books.page(query="moon")] == ["the moon"]
    with pytest.raises(UsageError, match="cannot be empty"):
        await books.rename(session.id, " \n")
    assert [message.text for message in await books.last_messages(session.id, 1)] == ["The moon is out."]
    with pytest.raises(AgentError):
        await books.delete(session.id)
    await session.close()
    await books.delete(session.id)
    assert await books.page() == ()


async def test_a_search_of_the_library_answers_in_time_and_says_what_it_did_not_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [await opened(project, {"text": f"The moon is out {number}."}) for number in range(3)]
    for session in sessions:
        await events_of(session, "what about tonight?")
        await session.close()
    books = await library(project)
    monkeypatch.setattr("ebbtide.agent.archive.library.INDEX_TIMEOUT_S", 0.0)
    monkeypatch.setattr("ebbtide.agent.archive.indexer.start_index_process", lambda *arguments: False)
    monkeypatch.setattr("ebbtide.agent.archive.indexer.MESSAGES_PER_BATCH", 2)
    found = [await books.search("moon") for _ in range(3)]
    assert [len(matches) for matches, _ in found] == [1, 2, 3]
    rest = "the next search continues with the rest"
    assert [note for _, note in found] == [f"{n} of 3 sessions are searchable so far; {rest}" for n in (1, 2)] + [""]


async def test_a_title_that_was_changed_stays_while_the_session_goes_on(project: Project) -> None:
    sessions = project.sessions(model=f"scripted/{project.script({'text': 'Hi.'})}")
    session = await sessions.open()
    await events_of(session, "hello")
    await (await sessions.open_library()).rename(session.id, "mine")
    assert session.title == "mine"
    await session._ctx.records.recorder.end_turn("scripted/other", "plan")
    assert [info.title for info in await (await sessions.open_library()).page()] == ["mine"]


async def test_the_tree_of_real_sessions_knows_the_files_that_were_changed(project: Project) -> None:
    session = await opened(project, {"text": "Hi."}, WRITE, {"text": "Written."}, {"text": "Bye."})
    for text in ("hello", "write it", "bye"):
        await events_of(session, text)
    books = await library(project)
    fork = await books.fork(session.id, 2, is_draft=True)
    other = await opened(project, {"text": "No."}, resume=fork.id)
    await events_of(other, "do not write it")
    tree = await books.tree(other.id)
    rows = tree_rows(tree, other.id)
    assert [(row.message.text, row.depth, row.is_on_path, row.is_first) for row in rows] == [
        ("hello", 0, True, False),
        ("write it", 0, False, False),
        ("do not write it", 1, True, True),
        ("bye", 0, False, False),
    ]
    assert [files_changed_since(tree, row.message) for row in rows] == [("new.txt",), ("new.txt",), (), ()]
    await other.close()
    await session.close()
    project.sql("delete from situation where kind = 'change'")  # as earlier versions left it
    assert [files_changed_since(await books.tree(other.id), row.message) for row in rows][:2] == [
        ("new.txt",),
        ("new.txt",),
    ]


async def test_a_message_that_cannot_be_read_stands_in_the_tree_by_its_number(project: Project) -> None:
    session = await opened(project, WRITE, {"text": "Hi."}, {"text": "Bye."})
    for text in ("hello", "bye"):
        await events_of(session, text)
    await session.close()
    project.sql("delete from situation where kind = 'change'")  # so that the calls tell which files were changed
    project.sql("update messages set body = body || '}' where position < 2")
    rows = tree_rows(await (await library(project)).tree(session.id), session.id)
    assert [row.message.text for row in rows] == ["(message 0 of the session cannot be read)", "bye"]


async def test_a_fork_knows_the_files_that_were_changed_before_it_and_none_that_came_later(project: Project) -> None:
    (project.root / "new.txt").write_text("old\n")
    look: dict[str, object] = {"calls": [{"name": "read", "arguments": {"path": "new.txt"}}]}
    later: dict[str, object] = {"calls": [{"name": "write", "arguments": {"path": "later.txt", "content": "y\n"}}]}
    session = await opened(project, look, WRITE, {"text": "Written."}, later, {"text": "More."})
    for text in ("write it", "and more"):
        await events_of(session, text)
    books = await library(project)
    early, whole = await books.fork(session.id, 6), await books.fork(session.id)
    await session.close()
    await books.delete(session.id)
    for info, known in ((early, ["new.txt"]), (whole, ["later.txt", "new.txt"])):
        fork = await opened(project, resume=info.id)
        found = [change for change in (await fork.file_history.changes("session")).files if change.is_by_tool]
        assert sorted(change.name for change in found) == known
        assert FileChange("new.txt", b"old\n", b"x\n") in found
        await fork.close()


async def test_a_tree_names_what_any_branch_has_changed_since(project: Project) -> None:
    session = await opened(project, {"text": "Hi."})
    await events_of(session, "hello")
    books = await library(project)
    fork = await books.fork(session.id, 2)
    other = await opened(project, WRITE, {"text": "Written."}, resume=fork.id)
    await events_of(other, "write it")
    tree = await books.tree(other.id)
    assert [files_changed_since(tree, row.message) for row in tree_rows(tree, other.id)] == [("new.txt",), ("new.txt",)]


@st.composite
def trees(draw: st.DrawFn) -> SessionTree:
    """Sessions that were forked from each other, with a message of the user at every other position."""
    branches: list[Branch] = []
    for number in range(draw(st.integers(1, 6))):
        parent = draw(st.sampled_from(branches)) if branches else None
        forked = draw(st.integers(0, parent.message_count)) if parent else 0
        count = forked + draw(st.integers(0, 4))
        own_messages = tuple(MessagePreview(str(number), at, f"{number}.{at}", 0.0) for at in range(forked, count))
        branches.append(Branch(str(number), "", parent.session if parent else "", forked, own_messages, (), count))
    return SessionTree(tuple(branches))


@settings(max_examples=thorough(100))
@given(trees(), st.data())
def test_the_tree_shows_each_message_once_and_the_path_is_what_the_session_holds(
    tree: SessionTree, data: st.DataObject
) -> None:
    current = data.draw(st.sampled_from([branch.session for branch in tree.branches]))
    rows = tree_rows(tree, current)
    messages = [row.message for row in rows]
    assert sorted(messages, key=str) == sorted(
        (one for branch in tree.branches for one in branch.own_messages), key=str
    )
    assert [row.message.position for row in rows if row.is_on_path] == list(range(held(tree, current)))
    for branch in tree.branches:
        own = [row.message.position for row in rows if row.message.session == branch.session]
        assert own == sorted(own)


def held(tree: SessionTree, session: str) -> int:
    return next(branch.message_count for branch in tree.branches if branch.session == session)


def test_a_tree_whose_root_is_gone_still_shows() -> None:
    message = MessagePreview("b", 2, "x", 0.0)
    assert tree_rows(SessionTree((Branch("b", "", "gone", 2, (message,), (), 3),)), "b") == (
        TreeRow(message, 0, True, False),
    )
    assert User((Text("x"),)).text == message.text
