"""Plays a session under the context policy of another program, without any of Ebbtide's engine.

The driver stores the history as messages in Anthropic's format and sends it with the same system prompt and tools as
`bench.context.play`. A peer decides everything else: how an output is shown when it arrives, when the history is
rewritten, which requests that takes and what replaces it. Summaries have the same size and text for all peers. Prompts
of peers are texts of the same length as the original.

Two rules apply to all peers: a summary request that exceeds the window is sent without its oldest messages, and a
request that exceeds it although the peer has rewritten the history loses its oldest messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.context.billing import Rates
from bench.context.peers.history import (
    Block,
    History,
    Message,
    ToolOutput,
    count_tokens,
    estimate_tokens,
    output_block,
    user_message,
)
from bench.context.workload import TOKENS_PER_BYTE, prose
from ebbtide.agent.messages import Assistant, AssistantPart, Text, ToolCall, Usage, User

SUMMARY_TOKENS = 1800
MARK = {"cache_control": {"type": "ephemeral"}}
_OVERFLOW_TARGET = 0.9
"""Share of the window that remains used when the oldest messages are dropped."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a peer knows before a request."""

    history: History
    window: int
    usage: Usage | None
    """Usage of the last step since the last summary; None if there was none."""
    idle: float = 0.0
    """Seconds since the last request."""
    opens_turn: bool = False
    """Whether the last message is one with which the user starts a turn."""
    is_overflow: bool = False
    """Whether the request is too large for the window."""

    @property
    def pending(self) -> History:
        """The messages after the last reply."""
        last = max((at for at, one in enumerate(self.history) if one.origin == "model"), default=-1)
        return self.history[last + 1 :]

    @property
    def used(self) -> int:
        """Tokens as most peers count them: those of the last step, and an estimate of what came after it."""
        if self.usage is None:
            return estimate_tokens(self.history)
        return self.usage.prompt + self.usage.output + estimate_tokens(self.pending)

    def before_new_message(self) -> tuple[History, History]:
        """Return the history without the message that starts the turn, and this message."""
        return (self.history[:-1], self.history[-1:]) if self.opens_turn else (self.history, ())


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    messages: History
    system: str | None = None
    """None for the session's own system prompt and tools; otherwise the system prompt of a request without tools."""
    is_marked: bool = True
    """Whether the request has cache breakpoints."""
    follow_up: str = ""
    """A second request, sent after the reply to the first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A rewrite of the history."""

    rebuild: Callable[[str], History]
    """Returns the new history, given the summary."""
    requests: tuple[SummaryRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Peer:
    """A program's context policy. This one never changes anything."""

    marked_messages: int = 2
    """Number of messages at the end that have a cache breakpoint."""

    def show_output(self, output: ToolOutput) -> str:
        """Return the output as it arrives in the history."""
        return output.output

    def plan(self, moment: Moment) -> Plan | None:
        """Return the rewrite that is due before a request."""
        return None

    def renewal_delays(self, prompt_tokens: int, gap: float, rates: Rates, *, in_turn: bool) -> Sequence[float]:
        """Return the seconds after the last request at which it is sent again to keep the cache alive."""
        return ()


class StepReply(Protocol):
    @property
    def message(self) -> Assistant: ...
    @property
    def usage(self) -> Usage: ...


class PlayedModel(Protocol):
    """The simulated model: what the user says, what it replies, and the bill."""

    now: float
    """Seconds of the session's clock."""

    @property
    def size(self) -> int: ...
    @property
    def rates(self) -> Rates: ...
    @property
    def billed_requests(self) -> Sequence[object]: ...
    @property
    def next_message(self) -> str | None: ...
    def wait(self) -> None: ...
    def pending_messages(self) -> Sequence[User]: ...
    def run_call(self, call: ToolCall) -> ToolOutput: ...
    def step(self, content: Mapping[str, Any]) -> StepReply: ...
    def write_summary(self) -> str: ...
    def reply(
        self, purpose: str, content: Mapping[str, Any], parts: Sequence[Text | ToolCall], tokens: int
    ) -> StepReply: ...


@dataclass(slots=True)
class PeerSession:
    model: PlayedModel
    peer: Peer
    tools: Sequence[Block]
    system: str
    history: History = ()
    rewritten_before: set[int] = field(default_factory=set)
    """The numbers of the requests that followed a rewrite."""
    cold: int = 0
    """Number of rewrites after the cache had expired."""
    _usage: Usage | None = None
    _last_body: dict[str, Any] | None = None
    _last_prompt: int = 0
    _sent_at: float = 0.0

    def play(self) -> None:
        """Play the session to its end."""
        while (text := self.model.next_message) is not None:
            self.history += (user_message(text),)
            opens_turn = True
            while self._take_step(opens_turn=opens_turn):
                opens_turn = False
                self.history += tuple(
                    user_message("\n".join(part.text for part in message.parts if isinstance(part, Text)))
                    for message in self.model.pending_messages()
                )

    def _take_step(self, *, opens_turn: bool) -> bool:
        """Send a request and run its calls. Return whether there were any."""
        self._wait(in_turn=not opens_turn)
        self._rewrite(opens_turn=opens_turn)
        body = self._body(self.history, self.system, self.tools, self.peer.marked_messages)
        reply = self.model.step(body)
        self._usage, self._last_body, self._sent_at = reply.usage, body, self.model.now
        self._last_prompt = reply.usage.prompt
        self.history += (Message("model", tuple(map(_reply_block, reply.message.parts)), is_assistant=True),)
        outputs = [self.model.run_call(call) for call in reply.message.calls]
        if outputs:
            blocks = tuple(output_block(one.id, self.peer.show_output(one)) for one in outputs)
            self.history += (Message("outputs", blocks),)
        return bool(outputs)

    def _wait(self, *, in_turn: bool) -> None:
        """Advance the clock to the next request, with the requests that keep the cache alive until then."""
        self.model.wait()
        until = self.model.now
        if self._last_body is None:
            return
        delays = self.peer.renewal_delays(self._last_prompt, until - self._sent_at, self.model.rates, in_turn=in_turn)
        for delay in delays:
            self.model.now = self._sent_at + delay
            self.model.reply("keep-alive", self._last_body, (), 1)
        if delays:
            self._sent_at, self.model.now = self.model.now, until

    def _rewrite(self, *, opens_turn: bool) -> None:
        idle = self.model.now - self._sent_at
        moment = Moment(self.history, self.model.size, self._usage, idle, opens_turn)
        self._apply(self.peer.plan(moment))
        if self._is_too_large():
            self._apply(self.peer.plan(Moment(self.history, self.model.size, self._usage, idle, opens_turn, True)))
        if self._is_too_large():
            room = int(_OVERFLOW_TARGET * self.model.size) - self._static_tokens
            self._install(_without_oldest(self.history, room))

    def _apply(self, plan: Plan | None) -> None:
        if plan is None:
            return
        summary = ""
        if plan.requests:
            summary = self.model.write_summary()
            for request in plan.requests:
                self._send(request, summary)
            self._usage = None
        self._install(plan.rebuild(summary))

    def _install(self, history: History) -> None:
        if history != self.history:
            self.history = history
            self.rewritten_before.add(len(self.model.billed_requests))
            self.cold += self._last_body is not None and self.model.now - self._sent_at >= self.model.rates.ttl

    def _send(self, request: SummaryRequest, summary: str) -> None:
        own = request.system is None
        system, tools = (self.system, self.tools) if request.system is None else (request.system, ())
        static = self._static_tokens if own else round(len(system) * TOKENS_PER_BYTE)
        messages = _without_oldest(request.messages, self.model.size - static)
        marked = (self.peer.marked_messages if own else 1) if request.is_marked else 0
        self.model.reply("summary", self._body(messages, system, tools, marked), (Text(summary),), SUMMARY_TOKENS)
        if request.follow_up:
            reply = Message("model", ({"type": "text", "text": summary},), is_assistant=True)
            messages = _without_oldest((*messages, reply, user_message(request.follow_up)), self.model.size - static)
            self.model.reply("summary", self._body(messages, system, tools, marked), (Text(summary),), SUMMARY_TOKENS)

    def _is_too_large(self) -> bool:
        if self._usage is not None:
            last = max(at for at, one in enumerate(self.history) if one.origin == "model")
            if self._usage.prompt + self._usage.output + count_tokens(self.history[last + 1 :]) <= self.model.size:
                return False  # an upper bound, because a rewrite only removes
        return self._static_tokens + count_tokens(self.history) > self.model.size

    @property
    def _static_tokens(self) -> int:
        described = sum(len(str(tool["description"])) for tool in self.tools)
        return round((len(self.system) + described) * TOKENS_PER_BYTE)

    def _body(self, messages: History, system: str, tools: Sequence[Block], marked: int) -> dict[str, Any]:
        """Return a request body with breakpoints after the system prompt and the last messages."""
        first_marked = len(messages) - marked
        return {
            "tools": list(tools),
            "system": [{"type": "text", "text": system} | (MARK if marked else {})],
            "messages": [
                {
                    "role": one.role,
                    "content": [*one.blocks[:-1], {**one.blocks[-1], **MARK}] if at >= first_marked else one.blocks,
                }
                for at, one in enumerate(messages)
            ],
        }


def _reply_block(part: AssistantPart) -> Block:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case ToolCall(id=id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": arguments}
        case _:
            raise TypeError(f"a simulated model does not reply with {part}")


def _without_oldest(history: History, max_tokens: int) -> History:
    """Return the history without its oldest messages, so that it fits and starts with no output."""
    first = 0
    total = count_tokens(history)
    while first < len(history) - 1 and (total > max_tokens or history[first].origin == "outputs"):
        total -= count_tokens(history[first : first + 1])
        first += 1
    return history[first:]


def peer_tools(names: Sequence[str], tokens: int) -> tuple[Block, ...]:
    """Return definitions of tools that have a number of tokens together."""
    size = int(tokens // len(names) / TOKENS_PER_BYTE)
    return tuple(
        {"name": name, "description": prose(sum(name.encode()), size), "input_schema": {"type": "object"}}
        for name in names
    )
