"""Replays recorded sessions through a real session, with a model and tools that repeat what was recorded.

What the recorded agent saw is unknown: replies do not depend on what is in context here, and anything they use that is
not shown is a regret."""

import tempfile
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.context.model import MAX_FETCHED_TOKENS, SUMMARY_TOKENS, BilledModel, outputs_in
from bench.context.play import TOOLS, USUAL, Habits, SessionCosts, by_lateness, open_session, session_costs, think
from bench.context.recordings import Kind, RecordedCall, Recording
from bench.context.regrets import Cause, Regret, SeenOutputs, used_in
from bench.context.workload import TOKENS_PER_BYTE, prose
from ebbtide.agent.context.budget import ContextBudget
from ebbtide.agent.context.carrying_costs import RewriteOffer, UnitPrices
from ebbtide.agent.context.mask import numbered_outputs
from ebbtide.agent.context.named_outputs import texts_in
from ebbtide.agent.context.reread_model import content_of
from ebbtide.agent.context.settings import CompactionSettings
from ebbtide.agent.context.summary import without_tags
from ebbtide.agent.events.session import TurnFailed
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.messages import Conversation, Text, ToolCall, Usage, User
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.window.carrying_cost import CarryingCost
from ebbtide.store.blobs import Blobs
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Arguments, Effect, Result, Workspace

RECALL_CALL = 90
"""Tokens of a recall call."""
STAND_IN = (
    "This is a stand-in for a summary, which no model wrote: what the user said last, and the names that the session "
    "itself has used most in what it said and called."
)
_MAX_TEXT_CHARS, _MAX_TEXTS = 400, 4
"""Length and number of user messages quoted in the stand-in summary."""
_END = "(Here the recording ends.)"


class ReplayTool:
    """A tool that returns the output of the next recorded call."""

    schema: Mapping[str, object] = {"type": "object"}
    effect: Effect = "none"
    """The effect does not matter: nothing is asked, and calls run one after another."""

    def __init__(self, name: str, tokens: int, model: "RecordedModel", most: int) -> None:
        """`most` is the number of bytes shown of an output; 0 for all."""
        self.name = name
        self.description = prose(sum(name.encode()), int(tokens / TOKENS_PER_BYTE))
        self._model, self._most = model, most

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        call = self._model.given.popleft()
        return Result(call.output[: self._most] if self._most else call.output, failed=call.failed)


@dataclass(slots=True)
class RecordedModel(BilledModel):
    recording: Recording
    at: int = 0
    """Number of steps so far."""
    given: deque[RecordedCall] = field(default_factory=deque)
    """The calls whose outputs come next."""
    seen: SeenOutputs = field(default_factory=SeenOutputs)
    regrets: list[Regret] = field(default_factory=list)
    recalls: float = 0.0
    """Cost of recalling everything that was regretted, in tokens of fresh input."""
    _delivered_steps: int = 0
    """Number of steps before which user messages were delivered."""
    _summarised: int = 0
    """Number of steps replaced by a summary."""

    @property
    def next_message(self) -> str | None:
        """The next user message; None at the end of the recording."""
        if self.at == len(self.recording.steps):
            return None
        self._delivered_steps = self.at + 1
        return "\n\n".join(self.recording.steps[self.at].user_texts) or "go on"

    def pending_messages(self) -> Sequence[User]:
        """User messages for the next step of a turn that are due."""
        self.wait()
        if self._delivered_steps > self.at or self.at == len(self.recording.steps):
            return ()
        self._delivered_steps = self.at + 1
        return tuple(User((Text(text),)) for text in self.recording.steps[self.at].user_texts)

    @property
    def due(self) -> float:
        """Time of the next request in seconds since the first."""
        steps = self.recording.steps
        return steps[min(self.at, len(steps) - 1)].asked_at - steps[0].asked_at

    def wait(self) -> None:
        """Advance the clock to the next request."""
        self.now = self.due

    def step(self, content: Mapping[str, Any]) -> Reply:
        step = self.recording.steps[self.at]
        self.seen.look(outputs_in(content), self.at)
        found = self.seen.regrets(used_in(step.text, step.calls), self.at, lambda: request_text(content))
        self.at += 1
        for call in step.calls:
            self.seen.add(call, self.at)
        said = _tokens(step.text) + sum(_tokens(text) for call in step.calls for text in texts_in(call.arguments))
        calls = step.calls if self.at < len(self.recording.steps) else ()
        self.given = deque(calls)
        parts: list[Text | ToolCall] = [Text(step.text)] if step.text else []
        parts += [ToolCall(call.id, call.tool, call.arguments) for call in calls]
        tokens = said + round(step.thought * TOKENS_PER_BYTE)
        reply = self.reply("step", content, parts or [Text(_END)], tokens)
        self.regrets += found
        self.recalls += sum(self._price_of(regret) for regret in found)
        return reply

    def _price_of(self, regret: Regret) -> float:
        """Cost of a request that recalls what was regretted."""
        fetched = min(round(regret.characters * TOKENS_PER_BYTE), MAX_FETCHED_TOKENS)
        return self.rates.cost(Usage(cache_read=self.last_prompt_tokens, cache_write=fetched, output=RECALL_CALL))

    def write_summary(self) -> str:
        """The stand-in summary, with the latest files that were read if the policy shows them again."""
        steps = self.recording.steps[: self.at]
        said = [text[:_MAX_TEXT_CHARS] for step in steps for text in step.user_texts][-_MAX_TEXTS:]
        names: Counter[str] = Counter()
        for step in steps:
            names.update(used for used in used_in(step.text, step.calls) if " " not in used)
        ordered = sorted(names, key=lambda name: (-names[name], name))
        lines = "\n".join([STAND_IN, "", *said, ""])
        room = int(SUMMARY_TOKENS / TOKENS_PER_BYTE) - 400 - _bytes(lines)
        text = f"{lines}{_within(ordered, room)}"
        retain, summary = text[:2400], text[2400:] or STAND_IN
        again = self._read_again(int(self.reattached / TOKENS_PER_BYTE))
        return f"<retain>{without_tags(retain)}</retain>\n<summary>{without_tags(summary + again)}</summary>"

    def _read_again(self, room: int) -> str:
        """The latest files that were read, up to `room` bytes."""
        reads = [call.output for step in self.recording.steps[: self.at] for call in step.calls if call.kind == "read"]
        text, most = "", room // 2
        for read in reversed(reads):
            text += f"\n{read[: min(most, room - len(text))]}"
            if len(text) >= room:
                break
        return text


@dataclass(slots=True)
class InformedCarryingCost(CarryingCost):
    """Carrying costs of a session that knows its regrets, as if each had been recalled."""

    regrets: Sequence[Regret] = ()
    """The regrets so far; the same list, which grows."""
    _known: int = 0
    _back: dict[str, str] = field(default_factory=dict)

    def offers(
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
            self._back |= {one.ref: content_of(one.call) for one in found}
            self._known = len(self.regrets)
        taught = replace(conversation, recalls=replace(conversation.recalls, back=self._back))
        return CarryingCost.offers(self, taught, budget, prices, how, is_cold=is_cold)


def _within(names: Sequence[str], room: int) -> str:
    """As many names as fit into `room` bytes."""
    taken: list[str] = []
    for name in names:
        room -= len(name) + 1
        if room < 0:
            break
        taken.append(name)
    return " ".join(taken)


def request_text(content: Mapping[str, Any]) -> str:
    """All texts in a request's messages."""
    return "\n".join(
        text
        for message in content["messages"]
        for block in message["content"]
        for text in texts_in([block.get("text"), block.get("input"), block.get("content")])
    )


def _tokens(text: str) -> int:
    return round(_bytes(text) * TOKENS_PER_BYTE)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class ReplayResult:
    recording: Recording
    policy: str
    run: SessionCosts
    steps: int
    all: Usage
    """Without keep-alive requests."""
    unpaused: Usage
    """Usage of requests that came before the cache expired."""
    paused: int
    """Requests that came later."""
    paused_cost: float
    """Their cost in thousands of fresh input tokens."""
    recalls: float
    """Cost of recalling everything that was regretted, in thousands of fresh input tokens."""
    regrets: tuple[Regret, ...]
    left: Mapping[tuple[Cause, Kind], int]
    """Outputs that left the context, completely or partly, by their first cause."""
    masks: tuple[tuple[Kind, int, bool], ...]
    """For each output that was whole until it was masked: kind, age in steps at that time, and whether it was
    regretted."""

    @property
    def cost(self) -> float:
        """Thousands of fresh input tokens, including a recall for each regret."""
        return self.run.cost + self.recalls


async def replay(recording: Recording, window: int, habits: Habits = USUAL, policy: str = "ours") -> ReplayResult:
    """Replay a recording to its end. `policy` is the name of the habits."""
    size = habits.window or window
    model = RecordedModel(recording=recording, size=size, trigger=habits.trigger, reattached=habits.reattached)
    rewritten_before: set[int] = set()
    cold = 0
    names = sorted({call.tool for step in recording.steps for call in step.calls})
    tools = [ReplayTool(name, TOOLS // len(names), model, habits.most) for name in names]
    with tempfile.TemporaryDirectory() as name:
        blobs = Blobs(Path(name) / "blobs")
        thread = StoreThread(lambda: SessionStore(":memory:", blobs=blobs))
        try:
            if habits.learns:
                habits = replace(habits, carrying_cost=lambda: InformedCarryingCost(regrets=model.regrets))
            session = await open_session(model, tools, Path(name), thread, habits)
            while (said := model.next_message) is not None:
                await think(session, model, model.due)
                async for event in session.send(said, pending_messages=model.pending_messages):
                    match event:
                        case ContextCompacted(strategies=strategies, cause=cause) if strategies:
                            rewritten_before.add(len(model.billed))
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
    asked = by_lateness(model)
    unpaused = [billed.usage for billed, is_late in asked if not is_late]
    after_pause = [billed.usage for billed, is_late in asked if is_late]
    return ReplayResult(
        model.recording,
        policy,
        run,
        model.at,
        sum((billed.usage for billed, _ in asked), Usage()),
        sum(unpaused, Usage()),
        len(after_pause),
        sum(map(model.rates.cost, after_pause)) / 1000,
        model.recalls / 1000,
        tuple(model.regrets),
        Counter((cause, output.kind) for output in model.seen.outputs.values() if (cause := output.left_by)),
        tuple(
            (output.kind, output.masked_at, any(regret.id == id for regret in model.regrets))
            for id, output in model.seen.outputs.items()
            if output.left_by == "masked" and output.masked_at is not None
        ),
    )
