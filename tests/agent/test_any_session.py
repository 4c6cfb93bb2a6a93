"""Whole sessions in which anything may happen: real tools, a real database, a model of which nothing can be relied on.
What is said during a compaction, at an interruption or right before the end is never lost."""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.budget.preflight import ModelTarget
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.compaction.undo import UndoneRewrite, undo_rewrite
from ebbtide.agent.errors import AgentError, ReferenceFailed
from ebbtide.agent.events.session import Event, Steered, TurnFailed, TurnFinished
from ebbtide.agent.events.view import PrefixDrifted, RewriteUndone
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings
from ebbtide.agent.messages import Assistant, Conversation, Message, Reasoning, Text, ToolCall, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.providers.fallbacks import ConnectedModel, SessionModels
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.view.references import message_digits
from ebbtide.agent.window.deferral import ToolDeferral
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import TurnContext, WindowContext
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.blobs import BlobStore
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Workspace
from tests.agent.test_pure_context import is_valid
from tests.conftest import seeded, thorough
from tests.kit.files import write_file
from tests.kit.fuzzed_sessions import Act, Fuzzed, Planned, Writing, lines_of_program, without_ids, words, writings
from tests.kit.server_tools import served_tools
from tests.kit.session import assembled

T = TypeVar("T")

ROW = SessionRow("aa11bb22cc33", "/p", "", "fuzzed/a", "auto", 1.0, 1.0)
FACTS, LARGER = ModelFacts("fuzzed", "a", 30_000, 2_000), ModelFacts("fuzzed", "b", 60_000, 4_000)
INSTRUCTIONS = Instructions("Be brief.")

DEFERRED = "mcp__chat__delete_invoice"
CALLS: list[tuple[str, dict[str, object]]] = [
    ("read", {"path": "a.txt"}),
    ("read", {"path": "missing.txt"}),
    ("write", {"path": "new.txt", "content": "new\n" * 300}),
    ("edit", {"path": "a.txt", "old": "one", "new": "two"}),
    ("grep", {"pattern": "line"}),
    ("glob", {"pattern": "*.txt"}),
    ("todo", {"items": [{"text": "mend it", "status": "doing"}]}),
    ("bash", {"command": "seq 1 4000; exit 3"}),
    ("bash", {"command": "echo ok"}),
    ("bash", {}),
    ("compact_context", {}),
    ("nothing_of_the_kind", {}),
    ("read_result", {"ref_id": "r1"}),
    ("read_result", {"ref_id": "r2", "lines": "1-20"}),
    ("recall", {"query": "line"}),
    ("recall", {"ref_id": "r3"}),
    ("tool_search", {"query": "delete an invoice"}),
    ("call_tool", {"name": DEFERRED, "arguments": {"title": "May"}}),
    (DEFERRED, {"title": "June"}),
]
calls = st.sampled_from(CALLS)
acts: st.SearchStrategy[Act] = st.sampled_from(
    [*(["work"] * 8), "answer", "empty", "cut", "overflow", "refuse", "fail", "interrupted"]
)


@st.composite
def replies(draw: st.DrawFn) -> Planned:
    act = draw(acts)
    made_calls = [ToolCall("", name, arguments) for name, arguments in draw(st.lists(calls, min_size=1, max_size=3))]
    opening = (Reasoning(draw(words), {}), Text(draw(words) * 50))
    return Planned(act, (*opening, *made_calls) if act == "work" else opening)


plans = st.lists(replies(), min_size=1, max_size=4)
requests = st.sampled_from(["go on", "never touch b.txt", "look again " * 400])


async def caught_up(conversation: Conversation, window: WindowContext, turn: TurnContext) -> UndoneRewrite:
    """The conversation as it is on disk, where a turn failed before."""
    return UndoneRewrite(conversation, RewriteUndone(0, 0))


class AnySession(RuleBasedStateMachine):
    """One session, opened again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="ebb-any-")).resolve()
        self.requests: list[Request] = []
        self.events: list[Event] = []
        self.texts: list[str] = []
        """All that the user said, in order."""
        self.time = 0.0
        self.has_expired = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize(
        size=st.sampled_from([30_000, 14_000]),
        on_full=st.sampled_from(["compact", "compact", "final"]),
        follow=st.lists(st.just(ModelTarget("fuzzed", "b", Window(60_000, 4_000, 2_000))), max_size=1),
    )
    def start(self, size: int, on_full: Any, follow: list[ModelTarget]) -> None:
        self.root = self.folder / "project"
        write_file(self.root / "a.txt", "one line\n" * 200)
        self.compacting = CompactionSettings(
            CompactionCaps(tail=300, ledger=900, retain=100, summary=200, protected_output_tokens=400), on_full=on_full
        )
        window = Window(size, size // 8, size // 16)
        self.model = Fuzzed(FACTS, window, size, 1.0, Interrupt(), self.look, {"text": "hm"})
        self.follow = follow
        self.thread = StoreThread(lambda: SessionStore(":memory:", blobs=BlobStore(self.folder / "blobs")))
        self.store = self.run(self.thread.open())
        self.run(self.open())

    async def open(self) -> None:
        is_new = await self.thread.run(self.store.session, ROW.id) is None
        self.archive = Archive(self.thread, self.store, ROW.id, ROW.project)
        served = ServerTools()
        served.offer(served_tools())
        self.session = await assembled(
            SessionModels(self.model, self.follow, self.connect),
            Workspace(self.root, self.folder / "outputs"),
            self.thread,
            self.store,
            ROW,
            is_new=is_new,
            interactive=True,
            instructions=INSTRUCTIONS,
            compaction_settings=self.compacting,
            deferral=ToolDeferral(last_uses=await Recorder(self.thread, self.store, ROW).last_tool_uses()),
            served=served,
            now=lambda: self.time,
        )
        self.model.interrupt = self.session._channel.interrupt

    async def connect(self, id: str) -> ConnectedModel:
        window = Window(60_000, 4_000, 2_000)
        return ConnectedModel(replace(self.model, facts=LARGER, window=window, real=window.size), TokenMeter())

    def look(self, request: Request, size: int, was_refused: bool) -> None:
        self.requests.append(request)

    def plan(self, plan: list[Planned], written: list[Writing]) -> None:
        self.requests.clear()
        self.events.clear()
        self.model.plan.clear()
        self.model.plan.extend(plan)
        self.model.writings.clear()
        self.model.writings.extend(written)

    async def say(self, text: str, *, stop_after: int | None = None, leave: bool = False) -> None:
        self.texts.append(text)
        events = self.session.send(text)
        number = 0
        async for event in events:
            self.events.append(event)
            number += 1
            if number == stop_after and leave:
                await events.aclose()
                return
            if number == stop_after:
                self.session.interrupt()
        assert isinstance(self.events[-1], TurnFinished | TurnFailed)

    @rule(text=requests, plan=plans, written=writings)
    def work(self, text: str, plan: list[Planned], written: list[Writing]) -> None:
        """Said at once, also while the session still compacts in the background."""
        self.plan(plan, written)
        self.run(self.say(text))

    @rule(text=requests, plan=plans, after=st.integers(2, 30), leave=st.booleans())
    def stop(self, text: str, plan: list[Planned], after: int, leave: bool) -> None:
        self.plan(plan, [])
        self.run(self.say(text, stop_after=after, leave=leave))

    @rule(
        text=requests,
        more=st.lists(requests, min_size=1, max_size=3),
        plan=plans,
        at=st.integers(0, 12),
        stop=st.booleans(),
    )
    def steer(self, text: str, more: list[str], plan: list[Planned], at: int, stop: bool) -> None:
        """What is said while a turn runs is heard in it, or still waits; only a turn that fails may have taken it."""
        self.plan(plan, [])
        waiting: list[str] = []

        def pending_messages() -> Sequence[User]:
            messages = tuple(User((Text(each),)) for each in waiting)
            waiting.clear()
            return messages

        async def turn() -> None:
            self.texts.append(text)
            left = list(more)
            async for event in self.session.send(text, pending_messages=pending_messages):
                self.events.append(event)
                if isinstance(event, Steered):
                    self.texts.append(event.text)
                if len(self.events) > at and left:
                    waiting.append(left.pop(0))
                if stop and not left:
                    self.session.interrupt()
            waiting.extend(left)

        self.run(turn())
        steered = [event.text for event in self.events if isinstance(event, Steered)]
        assert isinstance(self.events[-1], TurnFailed) or [*steered, *waiting] == more

    @rule(text=requests, written=writings)
    def say_while_it_compacts(self, text: str, written: list[Writing]) -> None:
        self.plan([], written)

        async def both() -> None:
            compacting = asyncio.create_task(self.session.compact("the parser"))
            await asyncio.sleep(0)
            await self.say(text)
            with suppress(AgentError):
                await compacting

        self.run(both())
        # Words that are too long for the window are shown by both ends, with the reference of all of them.
        ref = f"msg-{message_digits(User((Text(text),)))}"
        newest = [str(request.messages[-1]) for request in self.requests]
        asked = [message for message in newest if text in message or ref in message]
        failed = isinstance(self.events[-1], TurnFailed)
        assert asked or failed

    @rule()
    def compact_and_undo(self) -> None:
        """The next request is what it would have been without the compaction, unless that would not fit."""
        self.plan([], [])
        before = self.run(self.session.change_conversation(caught_up)).conversation
        with suppress(AgentError):
            if self.run(self.session.compact()).strategies:
                undone = self.run(self.session.change_conversation(undo_rewrite)).conversation
                assert build_prompt(undone, INSTRUCTIONS) == build_prompt(before, INSTRUCTIONS)

    @rule()
    def undo_the_last_rewrite(self) -> None:
        self.plan([], [])
        with suppress(AgentError):
            self.run(self.session.change_conversation(undo_rewrite))

    @rule(keep=st.sampled_from([None, None, 0]))
    def tidy(self, keep: int | None) -> None:
        """Hours later, what nobody needs goes, and sometimes what somebody needs, for its size."""
        self.plan([], [])
        self.time += 10_000
        archive = ArchiveStore(self.store)
        self.run(self.thread.run(archive.collect_garbage))
        if keep is not None:
            self.has_expired = True
            self.run(self.thread.run(archive.expire, max_bytes=keep))

    @rule()
    def open_again(self) -> None:
        self.plan([], [])

        async def both() -> None:
            await self.session.close()
            await self.open()

        self.run(both())

    def teardown(self) -> None:
        with suppress(AttributeError):
            self.run(self.session.close())
            self.run(self.thread.close())
        self.loop.close()
        shutil.rmtree(self.folder)

    @invariant()
    def nothing_that_was_said_is_lost(self) -> None:
        log = self.run(self.log())
        users = [message for message in log if isinstance(message, User)]
        texts = [part.whole or part.text for m in users for part in m.parts if isinstance(part, Text)]
        assert texts == self.texts
        spoken = [message for message in log if isinstance(message, Assistant)]
        said = [without_ids(message) for message in (*self.model.given, *lines_of_program(log))]
        assert all(without_ids(message) in said or message.text == "" for message in spoken)

    @invariant()
    def the_conversation_is_valid_and_the_newest_part_of_what_was_said(self) -> None:
        log = self.run(self.log())
        messages = self.session.history.messages
        assert is_valid(log)
        assert all(is_valid(request.messages) for request in self.requests)
        if not self.session._needs_reload:
            assert messages == log[len(log) - len(messages) :]
            assert is_valid(build_prompt(self.session.history, INSTRUCTIONS).messages)

    @invariant()
    def what_is_not_shown_can_be_reached(self) -> None:
        """Until it goes for its age or size, which is said."""
        log = self.run(self.log())
        outputs = [output for message in log if isinstance(message, User) for output in message.outputs]
        for number, output in enumerate(outputs, 1):
            if output.stored is not None:
                found, behind = self.run(self.found(f"r{number}", output.stored.size))
                is_marked = f"`r{number}` was removed on" in found
                assert found == output.stored.digest or (self.has_expired and is_marked)
                assert behind in ("", output.frame)

    async def found(self, ref: str, size: int) -> tuple[str, str]:
        """The digest of the bytes that a reference stands for, or why it stands for nothing any more; and what was
        told of the end of a program, which follows them."""
        try:
            found = await self.archive.read(ref)
        except ReferenceFailed as error:
            return str(error), ""
        return hashlib.sha256(found[:size]).hexdigest(), found[size:].decode().removeprefix("\n")

    @invariant()
    def requests_keep_their_beginning(self) -> None:
        assert not [event for event in self.events if isinstance(event, PrefixDrifted)]

    async def log(self) -> tuple[Message, ...]:
        return tuple(decode_message(row) for row in await self.thread.run(self.store.messages, ROW.id))


TestAnySession = seeded(AnySession).TestCase
TestAnySession.settings = settings(stateful_step_count=8, deadline=None, max_examples=thorough(25))
