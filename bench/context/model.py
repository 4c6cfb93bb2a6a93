"""Simulated models that are billed like Anthropic's, as `Provider`s for real sessions; this one follows a plan. No
network.

It imitates observed behaviour: truncated parts of outputs are sometimes requested again, masked outputs less often with
age, and after a summary a few files are read again."""

import math
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.context.billing import BlockReader, Cache, Rates, RequestBlock
from bench.context.workload import LIGHT, TOKENS_PER_BYTE, Mix, PlannedOutput, PlannedRequest, prose
from ebbtide.agent.context.budget import Window
from ebbtide.agent.context.summary import Wishes, instruction
from ebbtide.agent.context.summary_cost import SummaryJob
from ebbtide.agent.events.session import Event
from ebbtide.agent.messages import Assistant, Text, ToolCall, Usage, User
from ebbtide.agent.providers.base import Chunk, ModelFacts, Prices, Reply, Request, TextChunk
from ebbtide.agent.providers.learned_limits import SummariserSource
from ebbtide.agent.providers.wires.anthropic import AnthropicWriter, body
from ebbtide.agent.providers.wires.encoding import WrittenRequest
from ebbtide.agent.window.keep_alive import ONE_TOKEN
from ebbtide.agent.window.model_summary import READER
from ebbtide.tools.base import Arguments, Effect, Result, Workspace

SUMMARY_TOKENS = 1800
REREAD = PlannedOutput("read", int(2200 / TOKENS_PER_BYTE))
REREADS = 3
"""Files read again after a summary."""
AGAIN_SECONDS = 3.0
"""Seconds before a request that fetches something again."""
REFETCH_RATES = {"read": 0.95, "task": 0.62}
DEFAULT_REFETCH_RATE = 0.22
"""How often the truncated part of an output is fetched immediately, by tool."""
MAX_FETCHED_TOKENS = 2500
"""Tokens."""
HAZARD, AGE = 0.05, 12.0
"""Probability per request that a masked output is fetched again, and the number of requests over which it decays."""
EFFECTS: Mapping[str, Effect] = {
    "read": "read",
    "edit": "write",
    "bash": "run",
    "mcp": "run",
    "grep": "read",
    "task": "none",
    "other": "none",
    "read_result": "read",
}


class Produce:
    """A tool that returns as many bytes as its call requests."""

    schema: Mapping[str, object] = {"type": "object"}

    def __init__(self, name: str, tokens: int, wait: Callable[[], None] = lambda: None, most: int = 0) -> None:
        """The definition takes about `tokens` tokens. `wait` advances the clock for a call. `most` is the number of
        bytes shown of an output; 0 for all."""
        self._wait = wait
        self._most = most
        self.name = name
        self.description = prose(sum(name.encode()), int(tokens / TOKENS_PER_BYTE))
        self.effect = EFFECTS[name]

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(arguments["command"]),) if self.effect == "run" else (str(workspace.root / str(arguments["path"])),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        self._wait()
        text = prose(int(str(arguments["seed"])), int(str(arguments["size"])))
        return Result(text[: self._most] if self._most else text)


@dataclass(frozen=True, slots=True)
class BilledRequest:
    purpose: str
    usage: Usage
    blocks: tuple[RequestBlock, ...]
    at: float = 0.0
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
    trigger: float = 0.95
    reattached: int = 0
    """Tokens of files shown again with a summary."""
    elsewhere: float = 0.0
    """Cost of other models."""
    read_elsewhere: int = 0
    """Number of summaries written by other models."""
    now: float = 0.0
    """Seconds of the session's clock."""
    billed: list[BilledRequest] = field(default_factory=list)
    _cache: Cache = field(init=False)
    _written: WrittenRequest[AnthropicWriter] = field(default_factory=lambda: WrittenRequest(AnthropicWriter))
    _blocks: BlockReader = field(default_factory=BlockReader)

    def __post_init__(self) -> None:
        self._cache = Cache(self.rates.ttl)

    @property
    def facts(self) -> ModelFacts:
        prices = Prices(1.0, self.rates.output, self.rates.read, self.rates.write)
        ttl = self.rates.ttl
        return ModelFacts("anthropic", "planned", self.size, 64_000, prices=prices, cache_ttl=ttl, renews_cache=True)

    @property
    def window(self) -> Window:
        return Window(self.size, 16_384, 8_192, self.trigger, max(self.trigger, 0.98))

    @property
    def last_prompt_tokens(self) -> int:
        """Tokens of the last request."""
        return self.billed[-1].usage.prompt

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        content = body(request, self.facts, self._written)
        if request.max_output_tokens == ONE_TOKEN:
            reply = self.reply("keep-alive", content, (), ONE_TOKEN)
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

    def step(self, content: Mapping[str, Any]) -> Reply:
        """Reply to a request that is not for a summary."""
        raise NotImplementedError

    def write_summary(self) -> str:
        """The text of a summary."""
        raise NotImplementedError

    def reply(self, purpose: str, content: Mapping[str, Any], parts: Sequence[Text | ToolCall], tokens: int) -> Reply:
        """A reply of `tokens` tokens, billed with its request."""
        blocks = self._blocks.blocks_of(content)
        usage = self._cache.bill(blocks, self.now, tokens)
        self.billed.append(BilledRequest(purpose, usage, blocks, self.now))
        message = Assistant(tuple(parts), self.facts.id)
        return Reply(message, usage, "calls" if message.calls else "end")


_SUMMARY_REQUEST_PREFIX = instruction(Wishes()).partition("<retain>")[0][:120]
"""Prefix of a summary request."""


def asks_for_summary(request: Request) -> bool:
    """Whether a request is for a summary. Text of users and tools may contain `<summary>` without being one."""
    last = request.messages[-1]
    if not isinstance(last, User) or not last.parts or not isinstance(last.parts[-1], Text):
        return False
    asked = last.parts[-1].text
    return asked.startswith(_SUMMARY_REQUEST_PREFIX) or (
        request.system == READER and f"\n\n{_SUMMARY_REQUEST_PREFIX}" in asked
    )


@dataclass(slots=True)
class PlannedModel(BilledModel):
    plan: list[PlannedRequest]
    seed: int
    mix: Mix = LIGHT
    """Determines the tool definitions."""
    _rng: random.Random = field(init=False)
    _made: dict[str, PlannedOutput] = field(default_factory=dict)
    _seen: dict[str, OriginalOutput] = field(default_factory=dict)
    _again: list[PlannedOutput] = field(default_factory=list)
    """Outputs to fetch before the plan continues."""
    _calls: int = 0
    _waited: int = -1
    """Number of requests when the clock last advanced."""
    _looked: int = -1
    """Remaining plan when refetches were last decided."""
    _reached: int = -1
    """Remaining plan when its own time last passed."""

    def __post_init__(self) -> None:
        BilledModel.__post_init__(self)  # `super()` fails here, since a dataclass with slots is a new class
        self._rng = random.Random(self.seed)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tool names, including the one that retrieves outputs."""
        return tuple(name for name in EFFECTS if name in self.mix.tools or name == "read_result")

    @property
    def next_message(self) -> str | None:
        """The next user message; None at the end of the plan."""
        return (
            prose(len(self.plan), int(self.plan[0].message_tokens / TOKENS_PER_BYTE)) or "go on" if self.plan else None
        )

    def wait(self) -> None:
        """Advance the clock to the next request, once."""
        if self._waited == len(self.billed) or not self.plan:
            return
        self._waited = len(self.billed)
        if self._again or self._reached == len(self.plan):
            self.now += AGAIN_SECONDS
            return
        self._reached = len(self.plan)
        self.now += self.plan[0].gap

    def write_summary(self) -> str:
        """The text of a summary, after which files are read again."""
        self.now += AGAIN_SECONDS
        self._again = [REREAD] * REREADS
        written = prose(len(self.billed), int((SUMMARY_TOKENS + self.reattached) / TOKENS_PER_BYTE) - 400)
        return f"<retain>{written[:2400]}</retain>\n<summary>{written[2400:]}</summary>"

    def step(self, content: Mapping[str, Any]) -> Reply:
        if self._looked != len(self.plan):
            self._looked = len(self.plan)
            self._look(content)
        if self._again and self.plan:
            return self._compose_reply("again", content, (self._again.pop(0),), 100)
        planned = self.plan.pop(0)
        return self._compose_reply("step", content, planned.outputs, planned.reply)

    def _look(self, content: Mapping[str, Any]) -> None:
        """Detect what happened to outputs, and decide which to fetch again."""
        masked = 0.0
        for id, text in outputs_in(content).items():
            if id not in self._seen:
                output = self._made[id]
                self._seen[id] = OriginalOutput(output, text, len(self.billed))
                if len(text) < 0.8 * output.size and self._rng.random() < REFETCH_RATES.get(
                    output.tool, DEFAULT_REFETCH_RATE
                ):
                    left = output.size - len(text)
                    most = left if output.tool == "read" else int(MAX_FETCHED_TOKENS / TOKENS_PER_BYTE)
                    self._again.append(PlannedOutput("read_result", min(left, most)))
            elif text != self._seen[id].text:
                masked += math.exp(-(len(self.billed) - self._seen[id].request) / AGE)
        if masked and self._rng.random() < 1 - math.exp(-HAZARD * masked):
            self._again.append(PlannedOutput("read_result", int(MAX_FETCHED_TOKENS / TOKENS_PER_BYTE)))

    def _compose_reply(
        self, purpose: str, content: Mapping[str, Any], outputs: tuple[PlannedOutput, ...], tokens: int
    ) -> Reply:
        calls = tuple(self._call(output) for output in outputs)
        text = prose(self._calls, max(20, int(tokens / TOKENS_PER_BYTE) - 110 * len(calls)))
        return self.reply(purpose, content, (Text(text), *calls), tokens)

    def _call(self, output: PlannedOutput) -> ToolCall:
        self._calls += 1
        id = f"toolu_{self._calls:06}"
        self._made[id] = output
        subject = {"path": f"src/module_{self._calls % 40}.py"}
        if EFFECTS[output.tool] == "run":
            subject = {"command": f"make check-{self._calls % 40}"}
        return ToolCall(id, output.tool, {**subject, "size": output.size, "seed": self._calls})


@dataclass(slots=True)
class SummaryReader:
    """A model that reads the session's last request uncached and writes summaries."""

    model: BilledModel
    price: float
    """Price of an input token relative to the session's model; output costs five times as much."""

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts("anthropic", "reader", self.window.size, 64_000)

    @property
    def window(self) -> Window:
        return Window(100_000_000, 16_384, 8_192)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.model.elsewhere += self.price * (self.model.last_prompt_tokens + self.model.rates.output * SUMMARY_TOKENS)
        self.model.read_elsewhere += 1
        text = self.model.write_summary()
        yield TextChunk(text)
        yield Reply(
            Assistant((Text(text),), self.facts.id), Usage(self.model.last_prompt_tokens, output=SUMMARY_TOKENS), "end"
        )

    async def prepare(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to close."""


def reader_of(model: BilledModel, price: float) -> SummariserSource:
    """The summary reader, in place of models configured for summaries."""

    async def readers(job: SummaryJob, emit: Callable[[Event], None]) -> Sequence[SummaryReader]:
        return (SummaryReader(model, price),)

    return readers


def outputs_in(content: Mapping[str, Any]) -> dict[str, str]:
    """The outputs in a request, by call id."""
    blocks = (block for message in content["messages"] for block in message["content"])
    return {
        block["tool_use_id"]: "".join(part.get("text", "") for part in block["content"])
        for block in blocks
        if block["type"] == "tool_result"
    }
