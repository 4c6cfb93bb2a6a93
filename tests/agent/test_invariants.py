"""What always holds in the context of a session, whatever is said, done, refused or interrupted in it.

`Anything` plays sessions with a model, a provider and tools that do anything, over the steps, the compaction and the
recorder of the program, with a database in memory; `AnySession` in `test_any_session.py` plays fewer of them through a
whole `Session` with real tools. Where an invariant needs no sequence, a plain property proves it.

| invariant | proved by |
|---|---|
| 1. every call has exactly one output, right after it | `Anything.every_call_has_one_output_right_after_it` |
| 2. no cut inside a step; what a model said stays as it said it | `Anything.steps_stay_whole_and_as_they_were_said` |
| 3. what the user said last stays until it is answered | `Anything.the_open_request_is_shown_unchanged` |
| 4. what is not shown can be reached | `Anything.what_is_not_shown_is_kept` |
| 5. a request fits, or an event says what was done | `Anything.a_request_fits_or_an_event_says_what_was_done` |
| 6. a request is the beginning of the next one | `Anything.requests_keep_their_beginning` |
| 7. mask, last resort, parsing, merging: idempotent | `Anything.what_is_done_twice_is_done_once`, `test_…` |
| 8. what is restored is what was there | `Anything.a_new_process_finds_what_this_one_has` |
| 9. no automatic rewrite makes a request larger | `Anything.rewrites_make_the_view_smaller` |
| 10. what retrieval gives back is never put away again | `Anything.what_is_not_shown_is_kept`, `test_what_…` |
| 11. tools and system text stay the same between rewrites | `Anything.tools_and_system_text_stay` |
| 12. what is said during a compaction survives it | `AnySession` in `test_any_session.py` |
| 13. counters only grow in a turn; reserves are subtracted | `Anything.counters_grow_and_reserves_are_kept_free` |
| 14. every subsystem may fail | `test_degradation.py` |
| 15. no output leaves unseen, whole, cut or named | `Anything.each_output_is_shown_before_it_leaves` |

What the user does to the view by hand (`Anything.steer`) may make a request larger again, when it is undone. A request
that only the tool definitions put over the limit goes out without an event, as decided. A request whose step was not
complete when the program ended is not remembered by the next start, which tells of no change then.
"""

import asyncio
import re
from base64 import b64decode
from collections import ChainMap, Counter
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.recall import SessionRecall, create_fetch_function, create_search_function
from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.budget.prefix import Breakpoints, RequestFingerprint, create_fingerprint
from ebbtide.agent.budget.preflight import ModelTarget
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.calls.output_budget import WINDOW_FULL_NOTE
from ebbtide.agent.calls.output_intake import OutputArchiver
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.compaction.apply_edits import apply_edit
from ebbtide.agent.compaction.bring_back import bring_back_content
from ebbtide.agent.compaction.rewrite import compact_now
from ebbtide.agent.compaction.strategies import CUT_STRATEGIES, keep_last_message
from ebbtide.agent.compaction.summary import Draft, parse_summary, without_tags
from ebbtide.agent.compaction.undo import undo_rewrite
from ebbtide.agent.compaction.view_edits import EditRequest
from ebbtide.agent.errors import AgentError, AuthFailed
from ebbtide.agent.events.session import (
    Event,
    FinalTurn,
    ModelSwitched,
    Noticed,
    ToolFinished,
    TurnFailed,
    WindowLearned,
)
from ebbtide.agent.events.view import Act as ViewAct
from ebbtide.agent.events.view import Cause, ContextCompacted, PrefixDrifted, PrefixRenewed
from ebbtide.agent.eviction.carrying_costs import mask_outputs
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings, RewritePatience, RewritePolicy
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    Image,
    Message,
    Note,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from ebbtide.agent.prompt.attachments import LONG_TEXT_CHARS
from ebbtide.agent.prompt.build import Instructions, build_prompt, merge_user_messages
from ebbtide.agent.prompt.reminder_notes import ReminderFacts
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.providers.fallbacks import ConnectedModel, SessionModels
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.providers.usage import drop_other_model_anchor
from ebbtide.agent.records.images import load_image_bytes
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.rows import decode_request_mark
from ebbtide.agent.request.fit import begin_session
from ebbtide.agent.tokens.estimate import decode_estimator, estimate_message, estimate_tools
from ebbtide.agent.tool_specs import CALL_TOOL, SEARCH_TOOL, HostedSearch, unwrapped_call
from ebbtide.agent.turn import run_turn
from ebbtide.agent.view.items import pin_items, view_items
from ebbtide.agent.view.ledger import parse_ledger, render_ledger, updated_ledger
from ebbtide.agent.view.previews import OffloadLimits, reads_archive, should_show_in_full
from ebbtide.agent.view.references import message_digits
from ebbtide.agent.view.visible import numbered_outputs
from ebbtide.agent.window.deferral import ToolDeferral
from ebbtide.agent.window.prefix_watch import PrefixWatch
from ebbtide.agent.window.reminders import Reminders
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import (
    CallContext,
    ModelContext,
    RecordContext,
    SessionContext,
    SessionTools,
    TurnContext,
    WindowContext,
)
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.blobs import BlobStore
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Workspace
from tests.agent.providers.wires.test_prefixes import as_bytes
from tests.agent.test_pure_context import is_valid
from tests.conftest import seeded, thorough
from tests.kit.adapters import ADAPTERS, PIXEL, Adapter
from tests.kit.conversations import conversations, texts
from tests.kit.fuzzed_sessions import (
    Fuzzed,
    Inline,
    Planned,
    Writing,
    is_for_summary,
    lines_of_program,
    parts_of,
    plans,
    requests_of_users,
    shown_tools,
    without_ids,
    writings,
)
from tests.kit.fuzzed_tools import SERVER_TOOLS, SPECS, own_tools, served_tools, told
from tests.kit.strict_api import Rules, refusal

T = TypeVar("T")

INSTRUCTIONS = Instructions("Be brief.", "here", "rules of the project")
ON_ITEMS: list[ViewAct] = ["pin", "unpin", "evict", "evict", "evict", "offload", "summarise_before"]
WIRES: dict[str, Adapter] = {adapter.name: adapter for adapter in ADAPTERS}
ROW = SessionRow("aa11bb22cc33", "/p", "", "m", "auto", 1.0, 1.0)

RECALL = "read_result"
ROOM = 200
"""Tokens of room for an output with which more of it has to be shown than its reference."""

counted: Counter[str] = Counter()
"""What has happened in all sessions: requests, those that were compared with the one before them, and some that are
seldom."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request, with what held when it was sent."""

    request: Request
    adapter: Adapter
    """Of the model that it went to."""
    size: int
    """What it took in truth."""
    was_refused: bool
    epoch: int
    window: Window
    projected: int
    is_counted: bool
    """The provider has counted one before it, so that this is no mere estimate."""
    turn: int
    starts: int
    """How often the program was started before."""
    unseen: tuple[tuple[str, ToolOutput], ...] = ()
    """What calls had given back that no reply had followed yet, each with its reference."""
    ran: frozenset[str] = frozenset()
    """The strategies that ran since these were first to be shown."""


@dataclass(frozen=True, slots=True)
class Next:
    """A model that may follow the session's own."""

    wire: str
    size: int
    """Of the window that it is known to have."""
    real: float
    """The share of that which it turns out to have."""
    has_key: bool


followers = st.lists(
    st.builds(Next, st.sampled_from(sorted(WIRES)), st.sampled_from([8_000, 30_000, 200_000]),
              st.sampled_from([1.0, 1.0, 0.4]), st.sampled_from([True, True, False])),
    max_size=2,
)  # fmt: skip
HOSTED: dict[str, HostedSearch] = {"anthropic": "plain", "responses": "grouped"}
"""How providers search for tools that are held back, where they do."""


class Beginnings(Recorder):
    """Remembers of the last request how it began, and no figures: the models of a session here count each in their own
    way, under one address."""

    async def record_snapshot(
        self,
        conversation: Conversation,
        outputs: User,
        request_mark: RequestRecord | None,
        previous_view: Conversation | None = None,
        restored_view_number: int = 0,
    ) -> None:
        if request_mark is not None:
            request_mark = RequestRecord(
                request_mark.model,
                request_mark.settings,
                request_mark.tools,
                request_mark.system,
                request_mark.sections,
                request_mark.messages,
                request_mark.count,
            )
        await super().record_snapshot(conversation, outputs, request_mark, previous_view, restored_view_number)


class Anything(RuleBasedStateMachine):
    """A session in which anything may happen."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.events: list[Event] = []
        self.sent: list[Sent] = []
        """Of the last operation."""
        self.before: Sent | None = None
        """The request for a step before the next one."""
        self.asked: list[UserPart] = []
        """What the user said that nothing has answered yet."""
        self.received: list[UserPart] = []
        self.surroundings = ReminderFacts(date="2026-11-22")
        self.turns = 0
        self.time = 0.0
        self.epochs = 0
        """Those of watches that are gone."""
        self.starts = 0
        self.is_remembered = False
        """Whether the last start knew what was sent last, as it does when that step was complete."""
        self.is_resumed = False
        """Whether nothing was written down since the session went on."""
        self.ran: set[str] = set()
        """The strategies that ran since the last request for a step."""
        self.ran_since: tuple[set[str], set[str]] = set(), set()
        """The strategies that ran since what is unseen was to be shown first, and its references."""
        self.is_by_hand = False
        """Whether the user has chosen what to show of what the model has not seen yet."""
        self.switches = 0
        """Of the model, because the conversation did not fit."""
        self.adapters: dict[str, Adapter] = {}
        """By the models whose requests they make."""
        self.is_honest = True
        self.is_other_model = False
        """Whether the session has gone on with another model than it began with."""
        self.interrupt = Interrupt()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize(
        wire=st.sampled_from(sorted(WIRES)),
        size=st.sampled_from([20_000, 8_000, 30_000, 200_000, 4_000, 600, 16_000, 1_000_000]),
        real=st.sampled_from([1.0, 1.0, 1.0, 0.6, 2.0]),
        scale=st.sampled_from([1.0, 1.0, 0.7, 1.3, 1.5]),
        caps=st.sampled_from(
            [
                CompactionCaps(),
                CompactionCaps(tail=200, ledger=900, retain=60, summary=120, protected_output_tokens=200),
            ]
        ),
        on_full=st.sampled_from(["compact", "compact", "final"]),
        policy=st.sampled_from(["cost", "fixed", "off"]),
        patience=st.sampled_from([RewritePatience(), RewritePatience(0.02, 0.05)]),
        steps=st.sampled_from([None, None, 3]),
        names_sizes=st.booleans(),
        offloading=st.sampled_from(
            [OffloadLimits(), OffloadLimits(max_output_bytes=10**6), OffloadLimits(mode="truncate")]
        ),
        chain=followers,
        is_hosted=st.booleans(),
    )
    def open(
        self,
        wire: str,
        size: int,
        real: float,
        scale: float,
        caps: CompactionCaps,
        on_full: Any,
        policy: RewritePolicy,
        patience: RewritePatience,
        steps: int | None,
        names_sizes: bool,
        offloading: OffloadLimits,
        chain: list[Next],
        is_hosted: bool,
    ) -> None:
        window = window_with(size)
        self.offloading = offloading
        self.is_hosted = is_hosted
        self.folder = TemporaryDirectory()
        self.thread = Inline(lambda: SessionStore(":memory:", blobs=BlobStore(Path(self.folder.name))))
        self.store = self.run(self.thread.open())
        facts, native = self.facts_on(wire), WIRES[wire].native
        model = Fuzzed(facts, window, int(size * real), scale, self.interrupt, self.look, native, names_sizes)
        self.chain = {f"next/{place}": follower for place, follower in enumerate(chain)}
        follow = [ModelTarget("next", str(place), window_with(follower.size)) for place, follower in enumerate(chain)]
        self.targets = SessionModels(model, follow, self.connect)
        self.compacting = CompactionSettings(caps, on_full=on_full, policy=policy, patience=patience)
        self.limits = TurnLimits(steps)
        self.conversation = Conversation()
        self.ctx = self.make_context(Beginnings(self.thread, self.store, ROW), TokenMeter())
        begin_session(self.conversation, self.ctx.window, self.emit)

    @property
    def model(self) -> Fuzzed:
        assert isinstance(self.targets.provider, Fuzzed)
        return self.targets.provider

    @property
    def adapter(self) -> Adapter:
        return self.adapters[self.model.facts.id]

    def facts_on(self, wire: str, id: str = "") -> ModelFacts:
        """Those of a model that is asked through a wire."""
        provider, _, name = id.partition("/")
        facts = WIRES[wire].facts
        facts = replace(facts, provider=provider, name=name) if id else facts
        self.adapters[facts.id] = WIRES[wire]
        return replace(facts, tool_search=HOSTED.get(wire, "none") if self.is_hosted else "none")

    async def connect(self, id: str) -> ConnectedModel:
        follower = self.chain[id]
        if not follower.has_key:
            raise AuthFailed("there is no key")
        self.is_other_model = True
        size = int(follower.size * follower.real)
        facts, native = self.facts_on(follower.wire, id), WIRES[follower.wire].native
        return ConnectedModel(
            replace(self.model, facts=facts, window=window_with(size), real=size, native=native), TokenMeter()
        )

    def make_context(self, recorder: Recorder, meter: TokenMeter) -> SessionContext:
        served = ServerTools()
        served.offer(served_tools(self.interrupt, self.wait))
        tools = {tool.name: tool for tool in own_tools(self.interrupt, self.wait)}
        fetch = create_fetch_function(self.recall)
        workspace = Workspace(
            Path("/nowhere"),
            Path("/nowhere/outputs"),
            get_stored_content=lambda ref: fetch(ref, None),
            fetch_stored_content=fetch,
            search_history=create_search_function(self.recall),
            get_deferred_tools=lambda: [
                tool for tool in served.listed_tools if tool.name in self.ctx.window.tools.deferral.deferred_names
            ],
        )
        call_runner = CallRunner(
            ChainMap(tools, served.callable_tools),
            workspace,
            Approver(Policy("/nowhere", "auto")),
            self.interrupt,
            self.emit,
            OutputArchiver(self.archive, self.offloading, self.emit),
        )
        window = WindowContext(
            ModelContext(self.targets, recorder.fork_root_id, meter),
            INSTRUCTIONS,
            SessionTools(SPECS, served, ToolDeferral(0.10, self.run(recorder.last_tool_uses()), lambda: self.time)),
            compaction_settings=self.compacting,
            prefix_watch=PrefixWatch(
                self.emit, None, lambda: self.time, INSTRUCTIONS.sections, recorder.last_request_mark
            ),
            reminders=Reminders(lambda: self.surroundings, self.conversation),
        )
        turn = TurnContext(RecordContext(recorder), self.interrupt, self.emit, self.limits)
        return SessionContext(window, CallContext(call_runner), turn)

    def wait(self) -> None:
        """Hours pass: the provider forgets what it had cached, and somebody tidies the archive."""
        self.time += 10_000
        ArchiveStore(self.store).collect_garbage()

    @property
    def archive(self) -> Archive:
        return Archive(self.thread, self.store, ROW.id, ROW.project)

    @property
    def recall(self) -> SessionRecall:
        return SessionRecall(self.thread, self.store, self.archive, ROW.id, ROW.project, "session")

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.ran |= strategies_of([event])
        self.switches += isinstance(event, ModelSwitched)
        counted["switched"] += isinstance(event, ModelSwitched)
        counted["brought back"] += isinstance(event, ToolFinished) and (event.name, event.status) == (RECALL, "done")
        self.ctx.records.recorder.queue_event_rows(event)
        self.ctx.window.tools.deferral.record_tool_use(event)

    def look(self, request: Request, size: int, was_refused: bool) -> None:
        epoch = self.epochs + self.ctx.window.prefix_watch.rewrite_count
        counters = self.ctx.model.meter.counters
        projected = counters.projected_tokens()
        window, sent = self.ctx.model.known_window, self.adapter
        refused = refusal(sent.name, sent.body(request, self.model.facts), Rules(checks_pictures=False))
        assert refused is None, refused
        unseen = () if self.is_by_hand else unseen_in(self.log)
        refs = {ref for ref, _ in unseen}
        if is_step(request):
            # What no reply followed is to be shown once more.
            self.ran_since = (self.ran_since[0] | self.ran if self.ran_since[1] & refs else set(self.ran)), refs
            self.ran.clear()
        ran = frozenset(self.ran_since[0])
        self.sent.append(
            Sent(
                request,
                sent,
                size,
                was_refused,
                epoch,
                window,
                projected,
                counters.is_schema_counted,
                self.turns,
                self.starts,
                unseen,
                ran,
            )
        )

    def begin(self, plan: Sequence[Planned], written: Sequence[Writing]) -> None:
        self.interrupt.reset()
        self.events.clear()
        self.before = next((sent for sent in reversed(self.sent) if is_step(sent.request)), self.before)
        self.sent.clear()
        self.model.plan.clear()
        self.model.plan.extend(plan)
        self.model.writings.clear()
        self.model.writings.extend(written)
        self.is_honest = self.is_honest and all(planned.counting == "counted" for planned in plan)

    @rule(parts=requests_of_users(), plan=plans, written=writings)
    def work(self, parts: tuple[UserPart, ...], plan: list[Planned], written: list[Writing]) -> None:
        self.turn(parts, plan, written)

    @rule(parts=requests_of_users(), plan=plans, branch=st.sampled_from(["main", "topic"]))
    def work_later(self, parts: tuple[UserPart, ...], plan: list[Planned], branch: str) -> None:
        """After a long pause."""
        self.wait()
        self.surroundings = replace(self.surroundings, branch=branch)
        self.turn(parts, plan, ())

    def turn(self, parts: tuple[UserPart, ...], plan: Sequence[Planned], written: Sequence[Writing]) -> None:
        self.begin(plan, written)
        self.is_resumed = False
        self.turns += 1
        self.receive(parts)
        try:
            self.conversation, _, _ = self.run(run_turn(User(parts), self.conversation, self.ctx))
            self.is_by_hand = False
            self.ctx.model.meter.end_turn(self.conversation)
            self.run(self.ctx.records.recorder.record_tool_uses(self.ctx.window.tools.deferral.take_new_uses()))
            self.run(
                self.ctx.records.recorder.end_turn(
                    self.model.facts.id, "auto", self.ctx.model.meter.serialise_estimates()
                )
            )
        except AgentError as error:
            self.events.append(TurnFailed(error.code, str(error), error.exit_code))
            self.run(self.ctx.records.recorder.end_turn(self.model.facts.id, "auto"))
            self.catch_up()

    @rule(cause=st.sampled_from(["asked", "full", "background", "overflow"]), written=writings)
    def compact(self, cause: Cause, written: list[Writing]) -> None:
        self.begin((), written)
        compacted = self.run(compact_now(self.conversation, self.ctx.window, self.ctx.turn, cause, "the parser"))
        assert compacted.result.previous_message_count - compacted.result.new_message_count == len(
            self.conversation.messages
        ) - len(compacted.conversation.messages)
        self.conversation = compacted.conversation
        self.is_resumed = self.is_resumed and not compacted.result.strategies

    @rule(ref=st.sampled_from(["r1", "r2", "r5", "sum-1"]))
    def bring(self, ref: str) -> None:
        """The user wants the model to see something again."""
        self.begin((), ())

        async def work() -> Conversation:
            return (
                await bring_back_content(self.conversation, self.ctx.window, self.ctx.turn, ref, self.recall)
            ).conversation

        with suppress(AgentError):  # there is no such thing yet, or no room
            self.conversation = self.run(work())

    @precondition(lambda self: self.conversation.messages)
    @rule(act=st.sampled_from(ON_ITEMS), place=st.integers(0, 5), written=writings, is_undone=st.booleans())
    def steer(self, act: ViewAct, place: int, written: list[Writing], is_undone: bool) -> None:
        """The user changes by hand what the model is shown, one of what takes most of it, and may take that back."""
        items = sorted(view_items(self.conversation, estimate_message), key=lambda item: -item.tokens)
        self.do(EditRequest(act, items[place % len(items)].key), written)
        if is_undone:
            self.take_back()

    @precondition(lambda self: self.conversation.messages)
    @rule(act=st.sampled_from(["defer", "offer"]), name=st.sampled_from([*SERVER_TOOLS, "chat", "chat"]))
    def steer_tools(self, act: ViewAct, name: str) -> None:
        self.do(EditRequest(act, name), ())

    @precondition(lambda self: self.conversation.messages)
    @rule()
    def take_back(self) -> None:
        """The user wants the view from before the last rewrite."""
        self.begin((), ())
        with suppress(AgentError):  # there was none, or it does not fit
            undone = self.run(undo_rewrite(self.conversation, self.ctx.window, self.ctx.turn)).conversation
            assert undone.pinned == self.conversation.pinned
            self.conversation = undone
            self.is_resumed = False
            counted["taken back"] += 1

    def do(self, wish: EditRequest, written: Sequence[Writing]) -> None:
        self.begin((), written)
        before = self.conversation
        self.is_by_hand = bool(unseen_in(self.log))

        async def work() -> Conversation:
            return (await apply_edit(before, self.ctx.window, self.ctx.turn, wish)).conversation

        try:
            self.conversation = self.run(work())
        except AgentError:  # it makes no sense there
            return
        counted[f"act: {wish.act}"] += 1
        self.is_resumed = False
        if wish.act == "summarise_before":
            assert self.conversation.messages == before.messages[-len(self.conversation.messages) :]
        else:
            assert self.conversation.messages == before.messages

    @rule(names=st.sets(st.sampled_from(SERVER_TOOLS)))
    def serve(self, names: set[str]) -> None:
        """The server offers other tools from now on."""
        self.begin((), ())
        self.ctx.window.tools.server_tools.offer(
            [tool for tool in served_tools(self.interrupt, self.wait) if tool.name in names]
        )

    @rule(wire=st.none() | st.sampled_from(sorted(WIRES)))
    def restore(self, wire: str | None) -> None:
        """The program ends and goes on, perhaps with another model."""
        self.begin((), ())
        self.epochs += self.ctx.window.prefix_watch.rewrite_count
        self.starts += 1
        if self.ctx.window.prefix_watch.has_sent:
            snapshot = self.store.snapshot(ROW.id)
            self.is_remembered = (
                snapshot is not None and decode_request_mark(snapshot.body) == self.ctx.window.prefix_watch.mark
            )
        recorder = Beginnings(self.thread, self.store, ROW, is_new=self.store.session(ROW.id) is None)
        self.conversation = self.run(recorder.load())
        if wire is not None and WIRES[wire] is not self.adapter:
            other = replace(self.model, facts=self.facts_on(wire), native=WIRES[wire].native)
            self.targets = SessionModels(other, self.targets.fallbacks, self.connect)
            self.before, self.is_other_model = None, True
        self.conversation = self.as_left(self.conversation)
        estimator = decode_estimator(self.store.calibration(self.model.facts.id))
        self.ctx = self.make_context(recorder, TokenMeter(estimator))
        self.conversation = begin_session(self.conversation, self.ctx.window, self.emit)
        self.is_resumed = True

    @precondition(lambda self: self.turns)
    @rule(text=texts, plan=st.lists(st.sampled_from([(), ("c1",), ("c1", "c2")]), min_size=1, max_size=1))
    def die(self, text: str, plan: list[tuple[str, ...]]) -> None:
        """The program is killed while the calls of a reply run, and goes on."""
        self.begin((), ())
        asked = User((Text(text or "go"),))
        self.receive(asked.parts)
        reply = Assistant(
            (Text("I look."), *(ToolCall(f"{id}-{len(self.log)}", "read", {}) for id in plan[0])), self.model.facts.id
        )
        self.model.given.append(reply)
        self.run(self.ctx.records.recorder.record_user_message(asked))
        self.run(self.ctx.records.recorder.record_reply(reply))
        self.catch_up()

    def catch_up(self) -> None:
        self.is_resumed = False
        found = self.run(self.ctx.records.recorder.load())
        self.conversation = self.as_left(found)
        self.ctx.model.meter.reset_counters()

    def as_left(self, conversation: Conversation) -> Conversation:
        return drop_other_model_anchor(conversation, self.model.facts.id)

    def receive(self, parts: tuple[UserPart, ...]) -> None:
        self.received += parts
        log = self.log
        is_open = bool(log) and isinstance(log[-1], User) and any(isinstance(p, Text | Image) for p in log[-1].parts)
        if not is_open:
            self.asked = []
        self.asked += parts

    def teardown(self) -> None:
        with suppress(AttributeError):
            self.run(self.thread.close())
            self.folder.cleanup()
        self.loop.close()

    @property
    def log(self) -> tuple[Message, ...]:
        return load_image_bytes([decode_message(row) for row in self.store.messages(ROW.id)], self.store.blobs)

    @property
    def steps(self) -> list[Sent]:
        return [sent for sent in self.sent if is_step(sent.request)]

    @invariant()
    def every_call_has_one_output_right_after_it(self) -> None:
        assert is_valid(self.log)
        assert is_valid(self.conversation.messages)
        for sent in self.sent:
            assert is_valid(sent.request.messages)

    @invariant()
    def steps_stay_whole_and_as_they_were_said(self) -> None:
        log, messages = self.log, self.conversation.messages
        said = [without_ids(message) for message in (*self.model.given, *lines_of_program(log))]
        ids = [call.id for message in messages if isinstance(message, Assistant) for call in message.calls]
        assert len(set(ids)) == len(ids)
        assert messages == log[len(log) - len(messages) :]
        assert not (messages and isinstance(messages[0], User) and messages[0].outputs)
        for message in (*log, *(message for sent in self.steps for message in sent.request.messages)):
            assert not isinstance(message, Assistant) or without_ids(message) in said

    @invariant()
    def the_open_request_is_shown_unchanged(self) -> None:
        views = [sent.request.messages for sent in self.steps]
        newest = takewhile(lambda message: isinstance(message, User), reversed(self.log))
        if any(not isinstance(part, Note) for part in parts_of([*newest])):
            views.append(build_prompt(self.conversation, INSTRUCTIONS).messages)
        for messages in views:
            parts = iter(parts_of(messages))
            assert all(any(stands_for(one, part) for one in parts) for part in self.asked)

    @invariant()
    def what_is_not_shown_is_kept(self) -> None:
        log = self.log
        parts = parts_of([message for message in log if isinstance(message, User)])
        words = [Text(part.whole) if isinstance(part, Text) and part.whole else part for part in parts]
        assert [part for part in words if isinstance(part, Text | Image)] == self.received
        outputs = [output for message in log if isinstance(message, User) for output in message.outputs]
        calls = [call for message in log if isinstance(message, Assistant) for call in message.calls]
        for number, (call, output) in enumerate(zip(calls, outputs, strict=False), 1):
            if reads_archive(unwrapped_call(call).name):
                assert output.stored is None
            elif output.stored is not None:
                stored = self.run(self.archive.read(f"r{number}")).decode()
                # What is said of a call that was not run for want of room may itself be cut.
                assert stored == told(unwrapped_call(call).arguments) or (output.status, stored) == (
                    "failed",
                    WINDOW_FULL_NOTE,
                )
                assert f'ref_id="r{number}"' in output.text
            elif output.status == "done":
                assert "left out" not in output.text
        for found in numbered_outputs(self.conversation):
            assert outputs[found.number - 1] == found.output
        for name, number in LEFT_OUT.findall(str(self.conversation.summary.request)):
            sources = [message for message in log if f"msg-{message_digits(message)}" == name]
            pictures = [[part for part in message.parts if isinstance(part, Image)] for message in sources]
            picture = next(found for found in reversed(pictures) if len(found) >= int(number))[int(number) - 1]
            if picture.data == PIXEL:
                assert self.run(self.archive.read(f"{name}:tool-{number}")) == b64decode(picture.data)

    @invariant()
    def each_output_is_shown_before_it_leaves(self) -> None:
        """In the request after it, whole or cut and with its reference; where not even references fit, it is named."""
        for sent in self.steps:
            outputs = {output.call_id: output for message in sent.request.messages for output in outputs_in(message)}
            lines, sent_texts = 0, set(texts_in(sent.adapter.body(sent.request, sent.adapter.facts)))
            for ref, output in sent.unseen:
                found = outputs.get(output.call_id)
                counted["unseen"] += 1
                if found is None:
                    counted["named"] += 1
                    assert "drop_unseen_step" in sent.ran
                    assert is_named(ref, sent.request)
                    continue
                assert any(found.text in text for text in sent_texts)
                if (found.text, found.images) != (output.text, output.images):
                    counted["cut"] += 1
                    is_named_whole = f'"{ref}"' in found.text or f"[recall:{ref}]" in found.text
                    assert is_named_whole or lacks_pictures_only(found, output, ref)
                    assert {*CUT_STRATEGIES, "mask_unseen", "pictures"} & sent.ran
                    lines += found.text.endswith(f"[recall:{ref}]") and "\n" not in found.text
            # A line alone may stand for it only where there is hardly room for more: here, or with the model before,
            # for which it was cut until a larger one took over.
            was_switched = any(isinstance(event, ModelSwitched) for event in self.events)
            if self.is_honest and self.model.scale == 1.0 and not sent.was_refused and not was_switched:
                assert not lines or sent.window.available_tokens - sent.size < ROOM * lines

    @invariant()
    def what_is_pinned_is_shown(self) -> None:
        """In less of itself only where all that is pinned leaves too little room."""
        keys = {item.key for item in view_items(self.conversation, estimate_message)}
        keys |= {item.key for item in pin_items(self.conversation, estimate_message)}
        assert self.conversation.pinned <= keys
        for found in numbered_outputs(self.conversation):
            assert found.ref not in self.conversation.pinned or found.output.call_id not in self.conversation.masked

    @invariant()
    def a_request_fits_or_an_event_says_what_was_done(self) -> None:
        emergencies = [event for event in self.events if is_emergency(event)]
        assert sum(sent.was_refused for sent in self.steps) <= len(emergencies)
        if self.is_honest and self.model.scale == 1.0 and not emergencies:
            # Tools alone hold nothing back.
            tools = [estimate_tools(shown_tools(sent.request)) for sent in self.steps]
            assert all(
                sent.size - size <= sent.window.available_tokens for sent, size in zip(self.steps, tools, strict=True)
            )

    @invariant()
    def requests_keep_their_beginning(self) -> None:
        assert not [event for event in self.events if isinstance(event, PrefixDrifted)]
        renewed = {why for event in self.events if isinstance(event, PrefixRenewed) for why in event.reasons}
        assert self.is_other_model or renewed <= ({"tools"} if self.starts else set())
        for before, after in pairwise([*([self.before] if self.before else []), *self.steps]):
            counted["requests"] += 1
            if before.epoch == after.epoch:
                counted["compared"] += 1
                parts = parts_of(before.request.messages)
                assert parts_of(after.request.messages)[: len(parts)] == parts
                if before.request.tools != after.request.tools:  # by a new start of the program, which is told
                    assert "tools" in renewed or not self.is_remembered
                    continue
                counted["compared to the byte"] += 1
                assert bytes_of(after.request, after.adapter).startswith(
                    bytes_of(without_last_message(before.request), after.adapter)
                )

    @invariant()
    def what_is_done_twice_is_done_once(self) -> None:
        masked = mask_outputs(self.conversation, 100)
        assert mask_outputs(masked, 100) is masked
        prompt = build_prompt(self.conversation, INSTRUCTIONS)
        assert build_prompt(self.conversation, INSTRUCTIONS) == prompt
        assert merge_user_messages(prompt.messages) == prompt.messages

    @invariant()
    def a_new_process_finds_what_this_one_has(self) -> None:
        found = self.run(Recorder(self.thread, self.store, ROW, is_new=False).read_conversation())
        if self.is_resumed:  # what was counted with other tools does not hold any more
            found = replace(found, anchor=self.conversation.anchor, anchored=self.conversation.anchored)
        assert self.as_left(found) == self.conversation
        assert digest_of(found) == digest_of(self.conversation)

    @invariant()
    def rewrites_make_the_view_smaller(self) -> None:
        for event in self.events:
            # What a provider counts at next to nothing is told as that, and what is estimated instead may be more.
            if isinstance(event, ContextCompacted) and self.is_honest:
                assert event.after_tokens < event.before_tokens
        rewrites = [rewrite for rewrite in self.run(self.ctx.records.recorder.log.rewrites()) if rewrite.strategies]
        assert len(rewrites) + self.switches == self.epochs + self.ctx.window.prefix_watch.rewrite_count

    @invariant()
    def tools_and_system_text_stay(self) -> None:
        steps = [*([self.before] if self.before else []), *self.steps]
        for sent in steps:
            names = {spec.name for spec in sent.request.tools}
            assert sent.request.system == INSTRUCTIONS.text
            assert {spec.name for spec in SPECS} - {SEARCH_TOOL, CALL_TOOL} <= names
        for before, after in pairwise(steps):
            if (before.epoch, before.starts) == (after.epoch, after.starts):
                assert before.request.tools == after.request.tools
                counted["held back"] += set(SERVER_TOOLS) > {spec.name for spec in shown_tools(after.request)} & set(
                    SERVER_TOOLS
                )

    @invariant()
    def counters_grow_and_reserves_are_kept_free(self) -> None:
        for before, after in pairwise(self.steps):
            is_first_count = before.is_counted < after.is_counted  # an estimate may have been too high
            assert after.projected >= before.projected or before.epoch < after.epoch or is_first_count
        for sent in self.steps:
            window = sent.window
            assert window.available_tokens == window.size - window.output - window.buffer


def outputs_in(message: Message) -> tuple[ToolOutput, ...]:
    return message.outputs if isinstance(message, User) else ()


def unseen_in(log: Sequence[Message]) -> tuple[tuple[str, ToolOutput], ...]:
    """The outputs behind the last reply, with their references."""
    replies = [place for place, message in enumerate(log) if isinstance(message, Assistant)]
    last = replies[-1] if replies else len(log)
    before = sum(len(outputs_in(message)) for message in log[:last])
    behind = [output for message in log[last:] for output in outputs_in(message)]
    return tuple((f"r{number}", output) for number, output in enumerate(behind, before + 1))


def texts_in(body: object) -> Iterator[str]:
    """Each text of a body, as it is on the wire."""
    match body:
        case str():
            yield body
        case dict():
            for value in body.values():
                yield from texts_in(value)
        case list() | tuple():
            for value in body:
                yield from texts_in(value)


def lacks_pictures_only(found: ToolOutput, output: ToolOutput, ref: str) -> bool:
    """Whether an output has its whole text, and says where each of the pictures is that it does not show."""
    missing = range(len(found.images) + 1, len(output.images) + 1)
    names_each = all(f'"{ref}:tool-{number}"' in found.text for number in missing)
    return found.text.startswith(output.text) and bool(missing) and names_each


def is_named(ref: str, request: Request) -> bool:
    """Whether a request says where an output is that it does not show."""
    text = str(request.messages)
    ranges = re.findall(r"- and r(\d+) to r(\d+)", text)
    return f"[recall:{ref}]" in text or any(int(first) <= int(ref[1:]) <= int(last) for first, last in ranges)


def strategies_of(events: Sequence[Event]) -> set[str]:
    return {name for event in events if isinstance(event, ContextCompacted) for name in event.strategies}


def without_last_message(request: Request) -> Request:
    """The request without the message that may still grow: what the user says next is sent as part of it."""
    return replace(request, messages=request.messages[:-1], breakpoints=Breakpoints())


def window_with(size: int) -> Window:
    return Window(size, size // 8, size // 16)


def bytes_of(request: Request, adapter: Adapter) -> str:
    return as_bytes(adapter.body(request, adapter.facts))[1]


LEFT_OUT = re.compile(r'ref_id="(msg-[0-9a-f]{8}):tool-(\d+)" shows it')


def stands_for(visible: object, original: UserPart) -> bool:
    """Whether it is what was said, or says where the picture is that was, or the middle of long words."""
    is_named_picture = isinstance(visible, Note) and visible.text.startswith("[An image (image/png) is not shown")
    if isinstance(original, Text) and isinstance(visible, Text) and " bytes left out: " in visible.text:
        begins, ends = visible.text.partition("\n[… ")[0], visible.text.rpartition(" …]\n")[2]
        return (
            len(original.text) > LONG_TEXT_CHARS and original.text.startswith(begins) and original.text.endswith(ends)
        )
    return visible == original or (isinstance(original, Image) and is_named_picture)


def is_emergency(event: Event) -> bool:
    match event:
        case WindowLearned() | FinalTurn() | ModelSwitched() | TurnFailed(exit_code=7):
            return True
        case Noticed(text=text):  # the second try of a reply that was cut found no room
            return text.startswith("the cut-off reply is kept")
        case _:
            return False


def is_step(request: Request) -> bool:
    return not is_for_summary(request)


def digest_of(conversation: Conversation) -> RequestFingerprint:
    return create_fingerprint("s", SPECS, build_prompt(conversation, INSTRUCTIONS).messages)


def test_what_always_holds_in_a_session_and_how_often_that_was_seen() -> None:
    """In one test, so that one process plays the sessions and counts: the invariants above would hold of sessions that
    never send anything."""
    run_state_machine_as_test(
        seeded(Anything), settings=settings(stateful_step_count=12, deadline=None, max_examples=thorough(300))
    )
    play_a_step_of_which_not_even_references_fit()
    play_a_switch_after_which_an_output_is_read_again()
    assert counted["compared"] > counted["requests"] / 4 > 50
    assert min(counted["held back"], counted["switched"], counted["brought back"]) > 0
    assert min(counted["unseen"] / 10, counted["cut"], counted["named"]) > 0
    acts = sum(count for name, count in counted.items() if name.startswith("act: "))
    assert min(acts, counted["taken back"]) > 0


def play_a_step_of_which_not_even_references_fit() -> None:
    """The last rung, which the sessions above hardly reach: a hundred calls that say next to nothing, in 4k."""
    machine, parrot = Anything(), {"path": "a.py", "piece": "ok", "times": 1, "how": "done"}
    calls = tuple(ToolCall(f"call_{number}", "read", parrot) for number in range(100))
    machine.open(
        *("chat", 4_000, 1.0, 1.0, CompactionCaps(), "compact", "cost", RewritePatience()),
        *(None, True, OffloadLimits(), [], False),
    )
    try:
        machine.turn((Text("Read all of them."),), [Planned("work", calls), Planned()], ())
        machine.each_output_is_shown_before_it_leaves()
        machine.a_request_fits_or_an_event_says_what_was_done()
        assert "drop_unseen_step" in strategies_of(machine.events)
    finally:
        machine.teardown()


def play_a_switch_after_which_an_output_is_read_again() -> None:
    """With some seeds, almost no session changes its model or brings an output back."""
    machine, long = Anything(), {"path": "a.py", "piece": "line of output\n", "times": 4_000, "how": "done"}
    machine.open(
        *("chat", 8_000, 1.0, 1.0, CompactionCaps(), "compact", "cost", RewritePatience()),
        *(None, True, OffloadLimits(), [Next("anthropic", 200_000, 1.0, True)], False),
    )
    read, again = ToolCall("call_0", "read", long), ToolCall("call_1", RECALL, {"ref_id": "r1"})
    try:
        plan = [Planned("work", (read,)), Planned("work", (again,)), Planned()]
        machine.turn((Text("Fix the parser. " * 4_000),), plan, ())
        machine.the_open_request_is_shown_unchanged()
        machine.what_is_not_shown_is_kept()
        machine.a_request_fits_or_an_event_says_what_was_done()
        machine.a_new_process_finds_what_this_one_has()
        assert machine.switches == 1
        assert [event.status for event in machine.events if isinstance(event, ToolFinished)] == ["done"] * 2
    finally:
        machine.teardown()


@given(conversations(), st.integers(0, 2000))
def test_masking_twice_masks_no_more(conversation: Conversation, protect: int) -> None:
    masked = mask_outputs(conversation, protect)
    assert mask_outputs(masked, protect) is masked
    everything = mask_outputs(masked, 0)
    assert mask_outputs(everything, protect) is everything


@given(conversations())
def test_after_the_last_resort_there_is_nothing_left_to_cut(conversation: Conversation) -> None:
    last = keep_last_message(conversation)
    assert last is None or keep_last_message(last) is None


@given(texts, texts)
def test_a_summary_that_was_read_reads_the_same_again(retain: str, summary: str) -> None:
    match parse_summary(f"<retain>{retain}</retain><summary>{summary}</summary>", (), "end"):
        case Draft(kept, said):
            assert parse_summary(f"<retain>{kept}</retain><summary>{said}</summary>", (), "end") == Draft(kept, said)
            assert without_tags(said) == said


@given(conversations())
def test_a_ledger_that_was_written_reads_the_same_again(conversation: Conversation) -> None:
    ledger = updated_ledger("", conversation.messages)
    text = render_ledger(ledger, 10**6)
    assert parse_ledger(text) == ledger
    assert render_ledger(parse_ledger(text), 10**6) == text


@given(conversations())
def test_messages_that_were_merged_merge_no_further(conversation: Conversation) -> None:
    merged = merge_user_messages(conversation.messages)
    assert merge_user_messages(merged) == merged


@given(conversations())
def test_equal_conversations_make_equal_prompts(conversation: Conversation) -> None:
    prompt = build_prompt(conversation, INSTRUCTIONS)
    assert build_prompt(deepcopy(conversation), INSTRUCTIONS) == prompt
    assert create_fingerprint("s", SPECS, prompt.messages) == create_fingerprint("s", SPECS, deepcopy(prompt.messages))


RETRIEVAL = ("read_result", "recall", "tool_output_cache", "tool_output_cache_grep")


@given(st.sampled_from(RETRIEVAL), st.integers(0, 10**10), st.integers(1, 10**6))
def test_what_retrieval_gives_back_is_never_put_away_again(tool: str, size: int, threshold: int) -> None:
    assert should_show_in_full(ToolCall("1", tool, {}), size, OffloadLimits(threshold, threshold, threshold))
    assert reads_archive(tool)
