"""A model and tools that do anything, as a test has planned it, and a session's parts without a disk or a thread."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, ParamSpec, TypeAlias, TypeVar

from hypothesis import strategies as st

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.errors import AuthFailed, ContextOverflow
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    ProviderItem,
    Reasoning,
    StopReason,
    Text,
    ToolCall,
    Usage,
    User,
    UserPart,
)
from ebbtide.agent.prompt.empty_reply import ANSWER_REQUEST
from ebbtide.agent.providers.base import Chunk, ModelFacts, Reply, Request, TextChunk
from ebbtide.agent.providers.wires.decoder import arguments_as_written
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.tokens.estimate import estimate_messages, estimate_text, estimate_tools
from ebbtide.agent.tool_specs import ToolSpec
from tests.kit.adapters import PIXEL
from tests.kit.fuzzed_tools import calls

P = ParamSpec("P")
T = TypeVar("T")

ASKED = "The context window is nearly full. Write down what is needed"
"""How a request for a summary begins."""

Counting: TypeAlias = Literal["counted", "missing", "negative", "huge", "tiny"]
"""What a provider says of a request's size: the truth, nothing, or what cannot be."""

Act: TypeAlias = Literal[
    "answer", "work", "empty", "cut", "pause", "overflow", "overflow at the end", "refuse", "fail", "interrupted"
]
"""What becomes of a request."""

Writing: TypeAlias = Literal[
    "good", "empty", "says nothing", "untagged", "foreign", "cut", "inflated", "calls", "overflow", "fail"
]
"""What becomes of a request for a summary."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What the model does with one request."""

    act: Act = "answer"
    parts: tuple[AssistantPart, ...] = (Text("done"),)
    counting: Counting = "counted"


pictures = st.sampled_from([Image("image/png", PIXEL), Image("image/png", PIXEL), Image("image/png", "unreadable")])
words = st.text('ab é.\n"\\', min_size=1, max_size=8)


@st.composite
def replies(draw: st.DrawFn, act: Act) -> Planned:
    parts: list[AssistantPart] = []
    if draw(st.booleans()):
        parts.append(Reasoning(draw(words), {}))
    if draw(st.booleans()):
        parts.append(ProviderItem({"type": "item", "id": draw(words)}, tuple(draw(st.lists(words, max_size=2)))))
    if draw(st.booleans()) or act != "work":
        parts.append(Text(draw(words) * draw(st.sampled_from([1, 1, 200]))))
    if act == "pause":
        parts.append(ProviderItem({"type": "server_tool_use", "id": draw(words), "name": "code_execution"}))
    if act == "work":
        parts += [draw(calls(number)) for number in range(draw(st.integers(1, 3)))]
    counting: Counting = draw(st.sampled_from([*(["counted"] * 16), "missing", "negative", "huge", "tiny"]))
    return Planned(act, tuple(parts), counting)


acts: st.SearchStrategy[Act] = st.sampled_from(
    [*(["work"] * 14), "pause", "pause", "answer", "empty", "cut", "overflow", "overflow at the end", "refuse", "fail",
     "interrupted"]
)  # fmt: skip
plans = st.lists(acts.flatmap(replies), min_size=1, max_size=6)
writings: st.SearchStrategy[list[Writing]] = st.lists(
    st.sampled_from(
        ["good", "good", "good", "empty", "says nothing", "untagged", "foreign", "cut", "inflated", "calls",
         "overflow", "fail"]
    ),
    max_size=3,
)  # fmt: skip


@st.composite
def requests_of_users(draw: st.DrawFn) -> tuple[UserPart, ...]:
    """What a user says: words, a demand, a long text or pictures."""
    text = draw(words | st.just("Never touch b.py. Fix the parser.")) * draw(st.sampled_from([1, 1, 1, 100]))
    return (Text(text), *draw(st.lists(pictures, max_size=1)))


WRITTEN: Mapping[Writing, str] = {
    "good": "<retain>[recall:r1]</retain><summary>The parser was read and mended.</summary>",
    "empty": "",
    "says nothing": "<summary>(no summary available)</summary>",
    "untagged": "The parser was read and mended.",
    "foreign": "<summary>我们读了解析器，并修复了它。</summary>",
    "cut": "<summary>The parser was",
    "inflated": f"<summary>{'and then more was said ' * 4000}</summary>",
    "calls": "<summary>x</summary>",
}


@dataclass(slots=True)
class Fuzzed:
    """A `Provider` that does what was planned, with a real window of its own. It counts `scale` tokens where this
    program estimates one."""

    facts: ModelFacts
    window: Window
    real: int
    scale: float
    interrupt: Interrupt
    look: Callable[[Request, int, bool], None]
    """Sees each request with its true size, and whether it was too large."""
    native: Mapping[str, object]
    """Reasoning as its provider sends it."""
    names_sizes: bool = True
    """Whether it says how large a request is that it finds too large."""
    plan: deque[Planned] = field(default_factory=deque)
    given: list[Assistant] = field(default_factory=list)
    """Every reply, as it left here."""
    writings: deque[Writing] = field(default_factory=deque)
    calls: int = 0

    def size(self, request: Request) -> int:
        """What the request takes in truth."""
        text = estimate_text(request.system) + estimate_tools(shown_tools(request))
        return round((text + estimate_messages(request.messages)) * self.scale)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        size, limit = self.size(request), self.real - request.max_output_tokens
        self.look(request, size, size > limit)
        if size > limit:
            raise self._too_large(size, limit)
        if is_for_summary(request):
            yield self._written(request, size)
            return
        plan = self.plan.popleft() if self.plan else Planned()
        match plan.act:
            case "overflow":
                raise self._too_large(size, size * 2)
            case "fail":
                raise AuthFailed("the key is not accepted")
            case "interrupted":
                yield TextChunk("so far ")
                self.given.append(Assistant((Text("so far "),), self.facts.id))
                self.interrupt.request()
                await asyncio.Event().wait()
            case _:
                yield self._reply(plan, size)

    def _too_large(self, size: int, limit: int) -> ContextOverflow:
        sizes = (size, limit) if self.names_sizes else (None, None)
        return ContextOverflow("the request is too large", size=sizes[0], limit=sizes[1])

    def _reply(self, plan: Planned, size: int) -> Reply:
        stops: Mapping[Act, StopReason] = {
            "work": "calls", "cut": "max_tokens", "pause": "pause", "overflow at the end": "overflow",
            "refuse": "refusal",
        }  # fmt: skip
        parts = () if plan.act == "empty" else tuple(self._named(part) for part in plan.parts)
        message = Assistant(parts, self.facts.id)
        self.given.append(message)
        return Reply(message, counted(plan.counting, size, estimate_messages([message])), stops.get(plan.act, "end"))

    def _named(self, part: AssistantPart) -> AssistantPart:
        """The part as this model's provider would have sent it."""
        match part:
            case Reasoning():
                return replace(part, native=self.native)
            case ToolCall(id=""):
                self.calls += 1
                return replace(part, id=f"toolu_{self.calls}")
            case _:
                return part

    def _written(self, request: Request, size: int) -> Reply:
        how = self.writings.popleft() if self.writings else "good"
        if how == "overflow":
            raise self._too_large(size, size * 2)
        if how == "fail":
            raise AuthFailed("the key is not accepted")
        parts: tuple[AssistantPart, ...] = (Text(WRITTEN[how]),) if WRITTEN[how] else ()
        if how == "calls":
            parts += (ToolCall("summary-1", "read", {"path": "a.py"}),)
        stop: StopReason = "max_tokens" if how == "cut" else "end"
        return Reply(Assistant(parts, self.facts.id), Usage(input=size, output=100), stop)

    async def prepare(self) -> None:
        """Nothing needs to be loaded."""

    async def close(self) -> None:
        """Nothing is open."""


def counted(how: Counting, size: int, output: int) -> Usage:
    match how:
        case "counted":
            return Usage(input=size - size // 2, cache_read=size // 2, output=output)
        case "missing":
            return Usage()
        case "negative":
            return Usage(input=-size, output=output)
        case "huge":
            return Usage(input=size * 50 + 10_000, output=output)
        case "tiny":
            return Usage(input=1)


def shown_tools(request: Request) -> tuple[ToolSpec, ...]:
    """The tools whose definitions the model is shown."""
    return tuple(spec for spec in request.tools if spec.deferred_group is None)


def is_for_summary(request: Request) -> bool:
    last = request.messages[-1] if request.messages else User(())
    return isinstance(last, User) and ASKED in last.text


class Inline(StoreThread):
    """A store in the thread that asks, for a database in memory."""

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return work(*args, **kwargs)


def parts_of(messages: Sequence[Message]) -> list[UserPart | AssistantPart]:
    """What is said in the messages, in one row."""
    return [part for message in messages for part in message.parts]


def without_ids(message: Assistant) -> Assistant:
    """The message as the model wrote it, but for the ids of its calls: those that are there already are given anew."""
    return replace(message, parts=tuple(_as_written(p) if isinstance(p, ToolCall) else p for p in message.parts))


def lines_of_program(log: Sequence[Message]) -> list[Assistant]:
    """What the program wrote in the place of a model that said nothing even when it was asked for a sentence."""
    return [
        message
        for before, message in pairwise(log)
        if ANSWER_REQUEST in before.parts
        and isinstance(message, Assistant)
        and message.text.startswith("[The model ended without text, so the program added this line. ")
    ]


def _as_written(call: ToolCall) -> ToolCall:
    """The call without what the program made of it: it runs under our names, and goes back under the model's."""
    return ToolCall("", call.called or call.name, arguments_as_written(call))
