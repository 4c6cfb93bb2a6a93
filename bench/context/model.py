"""Simulated models that are billed like Anthropic's, for use as `Provider`s in real sessions; `PlannedModel` follows a
plan. No network.

The simulation imitates observed behaviour. The truncated part of an output is sometimes requested immediately. Masked
outputs are fetched again, less often the older they are. After a summary, a few files are read again.
"""

import math
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.context.billing import BlockReader, Cache, Rates, RequestBlock
from bench.context.recordings import KINDS, RecordedCall
from bench.context.workload import LIGHT, TOKENS_PER_BYTE, PlannedOutput, PlannedRequest, WorkloadMix, prose
from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.compaction.model_summary import SUMMARISER_PROMPT
from ebbtide.agent.compaction.summary import build_summary_prompt
from ebbtide.agent.eviction.settings import SummaryPreferences
from ebbtide.agent.messages import Assistant, Text, ToolCall, Usage, User
from ebbtide.agent.providers.base import Chunk, ModelFacts, Reply, Request, TextChunk
from ebbtide.agent.providers.wires.anthropic import AnthropicEncoder, build_body
from ebbtide.agent.providers.wires.encoding import RequestEncodingCache
from ebbtide.agent.request.keep_alive import RENEWAL_OUTPUT_TOKENS
from ebbtide.tools.base import Arguments, Effect, Result, Workspace

SUMMARY_TOKENS = 1800
REREAD_OUTPUT = PlannedOutput("read", int(2200 / TOKENS_PER_BYTE))
REREADS_PER_SUMMARY = 3
"""Number of files that are read again after a summary."""
REFETCH_DELAY_SECONDS = 3.0
"""Seconds before a request that fetches or reads something again."""
REFETCH_RATES = {"read": 0.95, "task": 0.62}
DEFAULT_REFETCH_RATE = 0.22
"""Probability, by tool, that the truncated part of an output is fetched immediately."""
MAX_FETCHED_TOKENS = 2500
"""Tokens."""
REFETCH_HAZARD, REFETCH_DECAY_REQUESTS = 0.05, 12.0
"""Probability per request that a masked output is fetched again, and the number of requests over which it decays."""
TOOL_EFFECTS: Mapping[str, Effect] = {
    "read": "read",
    "edit": "write",
    "bash": "run",
    "mcp": "run",
    "grep": "read",
    "task": "none",
    "other": "none",
    "read_result": "read",
}


class SizedOutputTool:
    """A tool that returns as many bytes as its call requests."""

    schema: Mapping[str, object] = {"type": "object"}

    def __init__(self, name: str, tokens: int, wait: Callable[[], None] = lambda: None) -> None:
        """`tokens`: approximate size of the tool's definition. `wait`: advances the clock for a call."""
        self._wait = wait
        self.name = name
        self.description = prose(sum(name.encode()), int(tokens / TOKENS_PER_BYTE))
        self.effect = TOOL_EFFECTS[name]

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(arguments["command"]),) if self.effect == "run" else (str(workspace.root / str(arguments["path"])),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        self._wait()
        return Result(planned_output(arguments))


def planned_output(arguments: Mapping[str, object]) -> str:
    """Return the output that a planned call requests."""
    return prose(int(str(arguments["seed"])), int(str(arguments["size"])))


@dataclass(frozen=True, slots=True)
class BilledRequest:
    purpose: str
    usage: Usage
    blocks: tuple[RequestBlock, ...]
    sent_at: float = 0.0
    """Seconds of the session's clock."""


@dataclass(slots=True)
class OriginalOutput:
    """An output as the model first saw it."""

    output: PlannedOutput
    text: str
    request: int


@dataclass(slots=True, kw_only=True)
class BilledModel:
    """The common part of simulated models: billing cache, clock and summary requests."""

    size: int = 200_000
    rates: Rates = field(default_factory=Rates)
    now: float = 0.0
    """Seconds of the session's clock."""
    billed_requests: list[BilledRequest] = field(default_factory=list)
    _cache: Cache = field(init=False)
    _written: RequestEncodingCache[AnthropicEncoder] = field(
        default_factory=lambda: RequestEncodingCache(AnthropicEncoder)
    )
    _blocks: BlockReader = field(default_factory=BlockReader)

    def __post_init__(self) -> None:
        self._cache = Cache(self.rates.ttl, self.rates.is_automatic)

    @property
    def facts(self) -> ModelFacts:
        prices = Prices(1.0, self.rates.output, self.rates.read, self.rates.write)
        is_renewed = not self.rates.is_automatic
        return ModelFacts(
            "anthropic",
            "planned",
            self.size,
            64_000,
            prices=prices,
            cache_ttl=self.rates.ttl,
            renews_cache=is_renewed,
        )

    @property
    def window(self) -> Window:
        return Window(self.size, 16_384, 8_192, 0.95, 0.98)

    @property
    def last_prompt_tokens(self) -> int:
        """Prompt tokens of the last request."""
        return self.billed_requests[-1].usage.prompt

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        content = build_body(request, self.facts, self._written)
        if request.max_output_tokens == RENEWAL_OUTPUT_TOKENS:
            reply = self.reply("keep-alive", content, (), RENEWAL_OUTPUT_TOKENS)
        elif asks_for_summary(request):
            reply = self.reply("summary", content, (Text(self.write_summary()),), SUMMARY_TOKENS)
        else:
            reply = self.step(content)
        yield TextChunk(reply.message.text)
        yield reply

    async def prepare(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to close."""

    @property
    def next_message(self) -> str | None:
        """The next user message; None at the end of the session."""
        raise NotImplementedError

    def wait(self) -> None:
        """Advance the clock to the next request."""
        raise NotImplementedError

    def pending_messages(self) -> Sequence[User]:
        """Return the user messages that are due before the next step of the current turn."""
        return ()

    def run_call(self, call: ToolCall) -> RecordedCall:
        """Return a call with its output, for a session without tools."""
        raise NotImplementedError

    def step(self, content: Mapping[str, Any]) -> Reply:
        """Reply to a request that is not for a summary."""
        raise NotImplementedError

    def write_summary(self) -> str:
        """Return the text of a summary."""
        raise NotImplementedError

    def reply(self, purpose: str, content: Mapping[str, Any], parts: Sequence[Text | ToolCall], tokens: int) -> Reply:
        """Return a reply of `tokens` tokens, and bill its request."""
        blocks = self._blocks.blocks_of(content)
        usage = self._cache.bill(blocks, self.now, tokens)
        self.billed_requests.append(BilledRequest(purpose, usage, blocks, self.now))
        message = Assistant(tuple(parts), self.facts.id)
        return Reply(message, usage, "calls" if message.calls else "end")


_SUMMARY_REQUEST_PREFIX = build_summary_prompt(SummaryPreferences()).partition("<retain>")[0][:120]
"""The text with which a summary request begins."""


def asks_for_summary(request: Request) -> bool:
    """Whether a request is for a summary. The word `<summary>` alone proves nothing, because it may occur in text of
    users and tools."""
    last = request.messages[-1]
    if not isinstance(last, User) or not last.parts or not isinstance(last.parts[-1], Text):
        return False
    asked = last.parts[-1].text
    return asked.startswith(_SUMMARY_REQUEST_PREFIX) or (
        request.system == SUMMARISER_PROMPT and f"\n\n{_SUMMARY_REQUEST_PREFIX}" in asked
    )


@dataclass(slots=True)
class PlannedModel(BilledModel):
    plan: list[PlannedRequest]
    seed: int
    mix: WorkloadMix = LIGHT
    """Determines the tool definitions."""
    _rng: random.Random = field(init=False)
    _planned_outputs: dict[str, PlannedOutput] = field(default_factory=dict)
    _original_outputs: dict[str, OriginalOutput] = field(default_factory=dict)
    _refetches: list[PlannedOutput] = field(default_factory=list)
    """Outputs to fetch again before the plan continues."""
    _calls: int = 0
    _clock_request: int = -1
    """Number of requests sent when the clock last advanced."""
    _refetch_plan_length: int = -1
    """Length of the remaining plan when refetches were last decided."""
    _clock_plan_length: int = -1
    """Length of the remaining plan when the clock last advanced by a planned gap."""

    def __post_init__(self) -> None:
        BilledModel.__post_init__(self)  # `super()` fails here, because `dataclass` with slots replaces the class
        self._rng = random.Random(self.seed)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tool names, including the one that retrieves outputs."""
        return tuple(name for name in TOOL_EFFECTS if name in self.mix.tools or name == "read_result")

    @property
    def next_message(self) -> str | None:
        """The next user message; None at the end of the plan."""
        return (
            prose(len(self.plan), int(self.plan[0].message_tokens / TOKENS_PER_BYTE)) or "go on" if self.plan else None
        )

    def wait(self) -> None:
        """Advance the clock to the next request. Further calls before that request do nothing."""
        if self._clock_request == len(self.billed_requests) or not self.plan:
            return
        self._clock_request = len(self.billed_requests)
        if self._refetches or self._clock_plan_length == len(self.plan):
            self.now += REFETCH_DELAY_SECONDS
            return
        self._clock_plan_length = len(self.plan)
        self.now += self.plan[0].gap

    def run_call(self, call: ToolCall) -> RecordedCall:
        self.wait()
        kind = call.name if call.name in KINDS else "other"
        return RecordedCall(call.id, call.name, kind, call.arguments, planned_output(call.arguments))

    def write_summary(self) -> str:
        """Return the text of a summary, and schedule files to be read again."""
        self.now += REFETCH_DELAY_SECONDS
        self._refetches = [REREAD_OUTPUT] * REREADS_PER_SUMMARY
        written = prose(len(self.billed_requests), int(SUMMARY_TOKENS / TOKENS_PER_BYTE) - 400)
        return f"<retain>{written[:2400]}</retain>\n<summary>{written[2400:]}</summary>"

    def step(self, content: Mapping[str, Any]) -> Reply:
        if self._refetch_plan_length != len(self.plan):
            self._refetch_plan_length = len(self.plan)
            self._schedule_refetches(content)
        if self._refetches and self.plan:
            return self._compose_reply("again", content, (self._refetches.pop(0),), 100)
        planned = self.plan.pop(0)
        return self._compose_reply("step", content, planned.outputs, planned.reply)

    def _schedule_refetches(self, content: Mapping[str, Any]) -> None:
        """Find outputs that were truncated or masked, and decide which of them to fetch again."""
        masked_weight = 0.0
        for id, text in request_outputs(content).items():
            if id not in self._original_outputs:
                output = self._planned_outputs[id]
                self._original_outputs[id] = OriginalOutput(output, text, len(self.billed_requests))
                if len(text) < 0.8 * output.size and self._rng.random() < REFETCH_RATES.get(
                    output.tool, DEFAULT_REFETCH_RATE
                ):
                    missing = output.size - len(text)
                    fetched = missing if output.tool == "read" else int(MAX_FETCHED_TOKENS / TOKENS_PER_BYTE)
                    self._refetches.append(PlannedOutput("read_result", min(missing, fetched)))
            elif text != self._original_outputs[id].text:
                masked_weight += math.exp(
                    -(len(self.billed_requests) - self._original_outputs[id].request) / REFETCH_DECAY_REQUESTS
                )
        if masked_weight and self._rng.random() < 1 - math.exp(-REFETCH_HAZARD * masked_weight):
            self._refetches.append(PlannedOutput("read_result", int(MAX_FETCHED_TOKENS / TOKENS_PER_BYTE)))

    def _compose_reply(
        self, purpose: str, content: Mapping[str, Any], outputs: tuple[PlannedOutput, ...], tokens: int
    ) -> Reply:
        calls = tuple(self._call(output) for output in outputs)
        text = prose(self._calls, max(20, int(tokens / TOKENS_PER_BYTE) - 110 * len(calls)))
        return self.reply(purpose, content, (Text(text), *calls), tokens)

    def _call(self, output: PlannedOutput) -> ToolCall:
        self._calls += 1
        id = f"toolu_{self._calls:06}"
        self._planned_outputs[id] = output
        subject = {"path": f"src/module_{self._calls % 40}.py"}
        if TOOL_EFFECTS[output.tool] == "run":
            subject = {"command": f"make check-{self._calls % 40}"}
        return ToolCall(id, output.tool, {**subject, "size": output.size, "seed": self._calls})


def request_outputs(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the outputs in a request, by call id."""
    blocks = (block for message in content["messages"] for block in message["content"])
    return {
        block["tool_use_id"]: "".join(part.get("text", "") for part in block["content"])
        for block in blocks
        if block["type"] == "tool_result"
    }
