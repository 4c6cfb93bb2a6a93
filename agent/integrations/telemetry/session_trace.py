"""The spans and metrics of one session, derived from its events.

Names and attributes follow OpenTelemetry's semantic conventions for generative AI: a turn is `invoke_agent`, a request
`chat`, a call `execute_tool`; https://opentelemetry.io/docs/specs/semconv/gen-ai/. Attributes that the conventions do
not define begin with `ebbtide.`
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from ebbtide.agent.events.session import (
    ContextMeasured,
    Event,
    FinalTurn,
    ReplyFinished,
    RetryScheduled,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from ebbtide.agent.events.subagents import AgentStarted
from ebbtide.agent.events.view import CompactionStarted, ContextCompacted
from ebbtide.agent.messages import Usage

Attributes = Mapping[str, AttributeValue]

PROVIDER_NAMES = {"openai-chat": "openai"}
"""Provider names in the conventions, where they differ from this program's."""

MAX_TEXT_CHARS = 10_000
"""Maximum length of exported text, in characters."""


@dataclass(frozen=True, slots=True)
class Instruments:
    """The tracer and instruments that record spans and metrics."""

    tracer: Tracer
    token_histogram: Histogram
    duration_histogram: Histogram
    cost_counter: Counter
    rewrite_counter: Counter
    redact: Callable[[str], str]
    """Removes secrets from text."""
    exports_text: bool
    """Whether messages and outputs are exported."""
    context_by_agent_id: dict[str, Context] = field(default_factory=dict)
    """Contexts of the calls that started sub-agents, by the id of the sub-agent's session. The sub-agent's turns become
    child spans."""


class SessionTrace:
    """Records each event of a session, in order."""

    def __init__(self, instruments: Instruments, clock: Callable[[], int] = time.time_ns) -> None:
        self._instruments = instruments
        self._clock = clock
        self._turn_span: Span | None = None
        self._usage = Usage()
        self._request_start = 0
        self._call_spans: dict[str, tuple[Span, int]] = {}
        self._session_id = ""
        self._model_attributes: Attributes = {}

    def record(self, event: Event) -> None:
        now = self._clock()
        match event:
            case TurnStarted(session, model, text):
                self._begin_turn(session, model, text, now)
            case StepStarted() | ContextMeasured() | CompactionStarted():
                self._request_start = now
            case RetryScheduled(attempt, _, delay, reason):
                attributes: Attributes = {
                    "ebbtide.attempt": attempt,
                    "ebbtide.delay": delay,
                    "ebbtide.reason": self._safe_text(reason),
                }
                if self._turn_span is not None:
                    self._turn_span.add_event("retry", attributes, now)
            case FinalTurn(used, effective):
                if self._turn_span is not None:
                    self._turn_span.add_event("final_turn", {"ebbtide.used": used, "ebbtide.limit": effective}, now)
            case ReplyFinished():
                self._record_reply(event, now)
                self._request_start = now
            case ToolStarted():
                self._begin_call(event, now)
            case ToolFinished():
                self._end_call(event, now)
            case AgentStarted(agent, call_id):
                if call_id in self._call_spans:
                    self._instruments.context_by_agent_id[agent] = set_span_in_context(self._call_spans[call_id][0])
            case ContextCompacted():
                self._instruments.rewrite_counter.add(1, self._model_attributes)
            case TurnFailed(code, message):
                if self._turn_span is not None:
                    self._turn_span.set_attribute("error.type", code)
                    self._turn_span.set_status(Status(StatusCode.ERROR, self._safe_text(message)))
            case TurnFinished(end, text):
                self._end_turn(end, text, now)
            case _:
                pass

    def close(self) -> None:
        """End open spans when the program exits during a turn."""
        self._end_turn("interrupted", "", self._clock())

    def _begin_turn(self, session_id: str, model: str, text: str, now: int) -> None:
        provider, _, name = model.partition("/")
        self._session_id, self._usage = session_id, Usage()
        self._model_attributes = {
            "gen_ai.provider.name": PROVIDER_NAMES.get(provider, provider),
            "gen_ai.request.model": name,
        }
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "ebbtide",
            "gen_ai.conversation.id": session_id,
            **self._model_attributes,
            **self._message_attribute("gen_ai.input.messages", "user", text),
        }
        parent = self._instruments.context_by_agent_id.pop(session_id, None)
        self._turn_span = self._instruments.tracer.start_span(
            "invoke_agent ebbtide", parent, SpanKind.INTERNAL, attributes, start_time=now
        )

    def _record_reply(self, reply: ReplyFinished, now: int) -> None:
        provider, _, name = reply.model.partition("/")
        model_attributes = {
            "gen_ai.provider.name": PROVIDER_NAMES.get(provider, provider),
            "gen_ai.request.model": name,
        }
        shared_attributes = {"gen_ai.operation.name": "chat", **model_attributes}
        start_time = self._request_start or now
        span = self._instruments.tracer.start_span(
            f"chat {name}",
            self._turn_context(),
            SpanKind.CLIENT,
            {
                **shared_attributes,
                "gen_ai.conversation.id": self._session_id,
                "gen_ai.response.finish_reasons": (reply.stop_reason,),
                **_usage_attributes(reply.usage),
                "ebbtide.purpose": reply.purpose,
                **({} if reply.cost is None else {"ebbtide.cost": reply.cost}),
            },
            start_time=start_time,
        )
        span.end(now)
        self._usage = self._usage + reply.usage
        self._instruments.token_histogram.record(
            reply.usage.prompt, {**shared_attributes, "gen_ai.token.type": "input"}
        )
        self._instruments.token_histogram.record(
            reply.usage.output, {**shared_attributes, "gen_ai.token.type": "output"}
        )
        self._instruments.duration_histogram.record((now - start_time) / 1e9, shared_attributes)
        if reply.cost is not None:
            self._instruments.cost_counter.add(reply.cost, model_attributes)

    def _begin_call(self, call: ToolStarted, now: int) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.call_id,
            "gen_ai.conversation.id": self._session_id,
            **self._redact_texts(
                {"gen_ai.tool.call.arguments": json.dumps(call.arguments, ensure_ascii=False, default=str)}
            ),
        }
        span = self._instruments.tracer.start_span(
            f"execute_tool {call.name}", self._turn_context(), SpanKind.INTERNAL, attributes, start_time=now
        )
        self._call_spans[call.call_id] = span, now

    def _end_call(self, call: ToolFinished, now: int) -> None:
        span, start_time = self._call_spans.pop(call.call_id, (None, now))
        if span is None:  # the call was denied or invalid, so it never began
            span = self._instruments.tracer.start_span(
                f"execute_tool {call.name}", self._turn_context(), start_time=now
            )
            span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name})
        span.set_attributes(
            {"ebbtide.status": call.status, **self._redact_texts({"gen_ai.tool.call.result": call.text})}
        )
        if call.status != "done":
            span.set_attribute("error.type", call.status)
            span.set_status(StatusCode.ERROR)
        span.end(now)
        self._instruments.duration_histogram.record(
            (now - start_time) / 1e9, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name}
        )
        self._request_start = now

    def _end_turn(self, end: str, text: str, now: int) -> None:
        for span, _ in self._call_spans.values():
            span.set_attribute("ebbtide.status", "interrupted")
            span.end(now)
        self._call_spans.clear()
        if self._turn_span is None:
            return
        output = self._message_attribute("gen_ai.output.messages", "assistant", text, finish_reason=end)
        self._turn_span.set_attributes({"ebbtide.end": end, **_usage_attributes(self._usage), **output})
        self._turn_span.end(now)
        self._turn_span = None

    def _turn_context(self) -> Context | None:
        return None if self._turn_span is None else set_span_in_context(self._turn_span)

    def _redact_texts(self, texts: Attributes) -> Attributes:
        """Return the texts with secrets removed; empty if text is not exported."""
        if not self._instruments.exports_text:
            return {}
        return {name: self._instruments.redact(str(text))[:MAX_TEXT_CHARS] for name, text in texts.items()}

    def _message_attribute(self, name: str, role: str, text: str, **extra_fields: str) -> Attributes:
        """Return a message in the form that the conventions define; empty if text is not exported."""
        return {
            key: json.dumps(
                [{"role": role, "parts": [{"type": "text", "content": content}], **extra_fields}], ensure_ascii=False
            )
            for key, content in self._redact_texts({name: text}).items()
        }

    def _safe_text(self, text: str) -> str:
        """Remove secrets from one of the program's messages. If text is not exported, also cut it to 200 characters."""
        redacted = self._instruments.redact(text)
        return redacted if self._instruments.exports_text else redacted[:200]


def _usage_attributes(usage: Usage) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }
