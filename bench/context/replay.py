"""Replays recorded sessions with a model and tools that repeat what was recorded: through a real session, or under the
context policy of another program (`bench.context.peers`).

The context of the recorded agent is unknown, and its replies do not depend on the context here. If a reply uses content
that is no longer in context, this counts as a regret.
"""

import tempfile
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.context.billing import Rates
from bench.context.model import MAX_FETCHED_TOKENS, SUMMARY_TOKENS, BilledModel, request_outputs
from bench.context.play import (
    DEFAULT_SETTINGS,
    TOOL_TOKENS,
    PolicySettings,
    SessionCosts,
    open_session,
    peer_window,
    run_peer,
    session_costs,
    simulate_user_pause,
    with_cache_expiry,
)
from bench.context.recordings import Kind, RecordedCall, Recording, strings_in
from bench.context.regrets import Cause, Regret, SeenOutputs, reply_parts
from bench.context.workload import TOKENS_PER_BYTE, prose
from ebbtide.agent.budget.prices import UnitPrices
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.compaction.summary import without_tags
from ebbtide.agent.events.session import TurnFailed
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.eviction.carrying_costs import CarryingCostTracker, RewriteOffer
from ebbtide.agent.eviction.settings import CompactionSettings
from ebbtide.agent.messages import Conversation, Text, ToolCall, Usage, User
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.view.recalls import content_kind
from ebbtide.agent.view.visible import numbered_outputs
from ebbtide.store.blobs import BlobStore
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Arguments, Effect, Result, Workspace

RECALL_CALL_TOKENS = 90
"""Tokens of a recall call."""
PLACEHOLDER_SUMMARY = (
    "This is a stand-in for a summary, which no model wrote: what the user said last, and the names that the session "
    "itself has used most in what it said and called."
)
_MAX_QUOTED_CHARS, _MAX_QUOTED_TEXTS = 400, 4
"""Maximum length and number of the user messages quoted in the placeholder summary."""
_END_REPLY = "(Here the recording ends.)"
DEFAULT_RATES = Rates()


class ReplayTool:
    """A tool that returns the output of the next recorded call."""

    schema: Mapping[str, object] = {"type": "object"}
    effect: Effect = "none"
    """The effect is irrelevant: the user is never asked, and calls run one after another."""

    def __init__(self, name: str, tokens: int, model: "RecordedModel") -> None:
        self.name = name
        self.description = prose(sum(name.encode()), int(tokens / TOKENS_PER_BYTE))
        self._model = model

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        call = self._model.pending_calls.popleft()
        return Result(call.output, has_failed=call.failed)


@dataclass(slots=True)
class RecordedModel(BilledModel):
    recording: Recording
    step_count: int = 0
    """Number of steps replayed so far."""
    pending_calls: deque[RecordedCall] = field(default_factory=deque)
    """The calls whose outputs come next."""
    seen_outputs: SeenOutputs = field(default_factory=SeenOutputs)
    regrets: list[Regret] = field(default_factory=list)
    recalls: float = 0.0
    """Cost of recalling every regretted output, in fresh input tokens."""
    _delivered_steps: int = 0
    """Number of steps whose user messages have been delivered."""
    _summarised: int = 0
    """Number of steps replaced by a summary."""

    @property
    def next_message(self) -> str | None:
        if self.step_count == len(self.recording.steps):
            return None
        self._delivered_steps = self.step_count + 1
        return "\n\n".join(self.recording.steps[self.step_count].user_texts) or "go on"

    def run_call(self, call: ToolCall) -> RecordedCall:
        return self.pending_calls.popleft()

    def pending_messages(self) -> Sequence[User]:
        self.wait()
        if self._delivered_steps > self.step_count or self.step_count == len(self.recording.steps):
            return ()
        self._delivered_steps = self.step_count + 1
        return tuple(User((Text(text),)) for text in self.recording.steps[self.step_count].user_texts)

    @property
    def next_request_time(self) -> float:
        """Time of the next request in seconds since the first."""
        steps = self.recording.steps
        return steps[min(self.step_count, len(steps) - 1)].asked_at - steps[0].asked_at

    def wait(self) -> None:
        self.now = self.next_request_time

    def step(self, content: Mapping[str, Any]) -> Reply:
        step = self.recording.steps[self.step_count]
        self.seen_outputs.record_request(request_outputs(content), self.step_count)
        texts = tuple[str, ...]()

        def view() -> Sequence[str]:
            nonlocal texts
            texts = texts or request_texts(content)
            return texts

        found = self.seen_outputs.regrets(step.text, step.calls, self.step_count, view)
        self.step_count += 1
        for call in step.calls:
            self.seen_outputs.add(call, self.step_count)
        tokens_written = _tokens(step.text) + sum(
            _tokens(text) for call in step.calls for text in strings_in(call.arguments)
        )
        calls = step.calls if self.step_count < len(self.recording.steps) else ()
        self.pending_calls = deque(calls)
        parts: list[Text | ToolCall] = [Text(step.text)] if step.text else []
        parts += [ToolCall(call.id, call.tool, call.arguments) for call in calls]
        tokens = tokens_written + round(step.thought_chars * TOKENS_PER_BYTE)
        reply = self.reply("step", content, parts or [Text(_END_REPLY)], tokens)
        self.regrets += found
        self.recalls += sum(self._recall_cost(regret) for regret in found if regret.needs_recall)
        return reply

    def _recall_cost(self, regret: Regret) -> float:
        """Return the cost of a request that recalls the regretted output."""
        fetched = min(round(regret.characters * TOKENS_PER_BYTE), MAX_FETCHED_TOKENS)
        return self.rates.cost(
            Usage(cache_read=self.last_prompt_tokens, cache_write=fetched, output=RECALL_CALL_TOKENS)
        )

    def write_summary(self) -> str:
        """Return the placeholder summary."""
        steps = self.recording.steps[: self.step_count]
        texts = [text[:_MAX_QUOTED_CHARS] for step in steps for text in step.user_texts][-_MAX_QUOTED_TEXTS:]
        names: Counter[str] = Counter()
        for step in steps:
            names.update(used for used in reply_parts(step.text, step.calls) if " " not in used)
        ordered = sorted(names, key=lambda name: (-names[name], name))
        lines = "\n".join([PLACEHOLDER_SUMMARY, "", *texts, ""])
        room = int(SUMMARY_TOKENS / TOKENS_PER_BYTE) - 400 - _bytes(lines)
        text = f"{lines}{_names_within(ordered, room)}"
        retain, summary = text[:2400], text[2400:] or PLACEHOLDER_SUMMARY
        return f"<retain>{without_tags(retain)}</retain>\n<summary>{without_tags(summary)}</summary>"


@dataclass(slots=True)
class InformedCarryingCost(CarryingCostTracker):
    """Carrying costs of a session that learns from its regrets, as if each output had been recalled."""

    regrets: Sequence[Regret] = ()
    """The regrets so far. The list is shared with the model, which appends to it."""
    _known: int = 0
    _recalled_refs: dict[str, str] = field(default_factory=dict)

    def rewrite_offers(
        self,
        conversation: Conversation,
        budget: ContextBudget,
        prices: UnitPrices,
        how: CompactionSettings,
        *,
        is_cold: bool,
    ) -> tuple[RewriteOffer, RewriteOffer]:
        if len(self.regrets) > self._known:
            ids = {regret.id for regret in self.regrets[self._known :] if regret.cause != "summarised"}
            found = [one for one in numbered_outputs(conversation) if one.output.call_id in ids]
            self._recalled_refs |= {one.ref: content_kind(one.call) for one in found}
            self._known = len(self.regrets)
        taught = replace(conversation, recalls=replace(conversation.recalls, back=self._recalled_refs))
        return CarryingCostTracker.rewrite_offers(self, taught, budget, prices, how, is_cold=is_cold)


def _names_within(names: Sequence[str], max_bytes: int) -> str:
    """Return as many names as fit into `max_bytes` bytes, separated by spaces."""
    used: list[str] = []
    for name in names:
        max_bytes -= len(name) + 1
        if max_bytes < 0:
            break
        used.append(name)
    return " ".join(used)


def request_texts(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all texts in a request's messages."""
    return tuple(
        text
        for message in content["messages"]
        for block in message["content"]
        for text in strings_in([block.get("text"), block.get("input"), block.get("content")])
    )


def _tokens(text: str) -> int:
    return round(_bytes(text) * TOKENS_PER_BYTE)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class ReplayResult:
    recording: Recording
    policy: str
    costs: SessionCosts
    steps: int
    total_usage: Usage
    """Total usage without keep-alive requests."""
    unpaused_usage: Usage
    """Usage of requests sent before the cache expired."""
    paused_requests: int
    """Number of requests sent after the cache had expired."""
    paused_cost: float
    """Cost of the requests after a pause, in thousands of fresh input tokens."""
    recalls: float
    """Cost of recalling every regretted output, in thousands of fresh input tokens."""
    regrets: tuple[Regret, ...]
    recall_count: int
    """Number of outputs that the model would have had to recall."""
    left_outputs: Mapping[tuple[Cause, Kind], int]
    """Number of outputs that left the context, completely or partly, by first cause and kind."""
    masks: tuple[tuple[Kind, int, bool], ...]
    """For each output that was complete until it was masked: its kind, its age in steps at that time, and whether it
    was regretted."""

    @property
    def cost(self) -> float:
        """Total cost in thousands of fresh input tokens, including a recall for each regret."""
        return self.costs.cost + self.recalls


def replay_as_peer(recording: Recording, window: int, name: str, rates: Rates = DEFAULT_RATES) -> ReplayResult:
    """Replay a recording to its end under the policy of a peer."""
    model = RecordedModel(recording=recording, size=peer_window(name, window), rates=rates)
    return _replay_result(model, name, run_peer(model, _tool_names(recording), name))


def _tool_names(recording: Recording) -> list[str]:
    return sorted({call.tool for step in recording.steps for call in step.calls}) or ["read"]


async def replay(
    recording: Recording,
    window: int,
    habits: PolicySettings = DEFAULT_SETTINGS,
    policy: str = "ours",
    rates: Rates = DEFAULT_RATES,
) -> ReplayResult:
    """Replay a recording to its end. `policy`: the name of the policy that `habits` implements."""
    model = RecordedModel(recording=recording, size=window, rates=rates)
    rewritten_before: set[int] = set()
    cold = 0
    names = _tool_names(recording)
    tools = [ReplayTool(name, TOOL_TOKENS // len(names), model) for name in names]
    with tempfile.TemporaryDirectory() as name:
        blobs = BlobStore(Path(name) / "blobs")
        thread = StoreThread(lambda: SessionStore(":memory:", blobs=blobs))
        try:
            if habits.learns:
                habits = replace(habits, carrying_cost=lambda: InformedCarryingCost(regrets=model.regrets))
            session = await open_session(model, tools, Path(name), thread, habits)
            while (text := model.next_message) is not None:
                await simulate_user_pause(session, model, model.next_request_time)
                async for event in session.send(text, pending_messages=model.pending_messages):
                    match event:
                        case ContextCompacted(strategies=strategies, cause=cause) if strategies:
                            rewritten_before.add(len(model.billed_requests))
                            cold += cause == "cold"
                        case TurnFailed(message=message):
                            raise SystemExit(f"{recording.name} ended early: {message}")
                        case _:
                            pass
            await session.close()
        finally:
            await thread.close()
    return _replay_result(model, policy, session_costs(model, rewritten_before, cold))


def _replay_result(model: RecordedModel, policy: str, run: SessionCosts) -> ReplayResult:
    asked = with_cache_expiry(model)
    unpaused = [billed.usage for billed, is_late in asked if not is_late]
    after_pause = [billed.usage for billed, is_late in asked if is_late]
    return ReplayResult(
        model.recording,
        policy,
        run,
        model.step_count,
        sum((billed.usage for billed, _ in asked), Usage()),
        sum(unpaused, Usage()),
        len(after_pause),
        sum(map(model.rates.cost, after_pause)) / 1000,
        model.recalls / 1000,
        tuple(model.regrets),
        sum(regret.needs_recall for regret in model.regrets),
        Counter(
            (cause, output.kind) for output in model.seen_outputs.outputs.values() if (cause := output.first_cause)
        ),
        tuple(
            (output.kind, output.masked_at, any(regret.id == id for regret in model.regrets))
            for id, output in model.seen_outputs.outputs.items()
            if output.first_cause == "masked" and output.masked_at is not None
        ),
    )
