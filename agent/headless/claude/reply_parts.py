"""Converts a streamed reply to the Messages API events that Claude Code forwards. Calls are not streamed."""

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from ebbtide.agent.events.session import ReasoningDelta, ReplyFinished, RetryScheduled, StepStarted, TextDelta
from ebbtide.agent.headless.stream_events import OutputEvent

Part: TypeAlias = dict[str, Any]
_Kind: TypeAlias = Literal["text", "thinking"]


class ReplyParts:
    """The stream events of one run."""

    def __init__(self) -> None:
        self._index = 0
        """Index of the next content block."""
        self._kind: _Kind | None = None
        """Type of the open content block."""
        self._is_open = False
        """Whether a reply has begun."""

    def take(self, event: OutputEvent, message: str, model: str) -> Iterator[Part]:
        """Yield the stream events for an event. `message` is the id of the reply of the current step."""
        match event:
            case StepStarted():
                yield from self._begin(message, model)
            case RetryScheduled() if self._is_open:  # the reply starts again, so the text so far no longer counts
                yield from self._close("error")
                yield from self._begin(message, model)
            case TextDelta(text=text):
                yield from self._write("text", {"type": "text_delta", "text": text})
            case ReasoningDelta(text=text):
                yield from self._write("thinking", {"type": "thinking_delta", "thinking": text})
            case ReplyFinished(purpose="step", stop_reason=why, usage=usage) if self._is_open:
                yield from self._close("tool_use" if why == "calls" else "end_turn", usage.output)

    def _begin(self, message: str, model: str) -> Iterator[Part]:
        self._index, self._kind, self._is_open = 0, None, True
        begun = {"id": message, "type": "message", "role": "assistant", "model": model, "content": []}
        none = {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
        yield {"type": "message_start", "message": {**begun, **none}}

    def _write(self, kind: _Kind, delta: Part) -> Iterator[Part]:
        if self._kind != kind:
            yield from self._end_block()
            empty = {"text": ""} if kind == "text" else {"thinking": "", "signature": ""}
            self._kind = kind
            yield {"type": "content_block_start", "index": self._index, "content_block": {"type": kind, **empty}}
        yield {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _end_block(self) -> Iterator[Part]:
        if self._kind is not None:
            yield {"type": "content_block_stop", "index": self._index}
            self._index, self._kind = self._index + 1, None

    def _close(self, why: str, tokens: int = 0) -> Iterator[Part]:
        yield from self._end_block()
        self._is_open = False
        ended = {"stop_reason": why, "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": tokens}}
        yield {"type": "message_stop"}
