"""Converts a streamed reply to the Messages API events that Claude Code forwards. Tool calls are not streamed."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from ebbtide.agent.events.session import ReasoningDelta, ReplyFinished, RetryScheduled, StepStarted, TextDelta
from ebbtide.agent.headless.stream_events import OutputEvent
from ebbtide.agent.messages import StopReason

StreamEventJson: TypeAlias = dict[str, Any]
_BlockType: TypeAlias = Literal["text", "thinking"]

_STOP_REASONS: Mapping[StopReason, str] = {
    "calls": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "overflow": "model_context_window_exceeded",
    "pause": "pause_turn",
}
"""Stop reasons of the Messages API. All others end the turn."""


class ReplyStreamConverter:
    """The stream events of one run."""

    def __init__(self) -> None:
        self._index = 0
        """Index of the next content block."""
        self._open_block: _BlockType | None = None
        """Type of the open content block."""
        self._is_message_open = False
        """Whether a reply has begun but not ended."""

    def convert(self, event: OutputEvent, message_id: str, model: str) -> Iterator[StreamEventJson]:
        """Yield the stream events for a session event. `message_id`: id of the current step's reply."""
        match event:
            case StepStarted():
                yield from self._start_message(message_id, model)
            case RetryScheduled() if self._is_message_open:  # the reply restarts: end the partial one
                yield from self._end_message("error")
                yield from self._start_message(message_id, model)
            case TextDelta(text=text):
                yield from self._write_delta("text", {"type": "text_delta", "text": text})
            case ReasoningDelta(text=text):
                yield from self._write_delta("thinking", {"type": "thinking_delta", "thinking": text})
            case ReplyFinished(purpose="step", stop_reason=stop_reason, usage=usage) if self._is_message_open:
                yield from self._end_message(_STOP_REASONS.get(stop_reason, "end_turn"), usage.output)

    def _start_message(self, message_id: str, model: str) -> Iterator[StreamEventJson]:
        self._index, self._open_block, self._is_message_open = 0, None, True
        header = {"id": message_id, "type": "message", "role": "assistant", "model": model, "content": []}
        empty_fields = {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
        yield {"type": "message_start", "message": {**header, **empty_fields}}

    def _write_delta(self, kind: _BlockType, delta: StreamEventJson) -> Iterator[StreamEventJson]:
        if self._open_block != kind:
            yield from self._end_block()
            empty = {"text": ""} if kind == "text" else {"thinking": "", "signature": ""}
            self._open_block = kind
            yield {"type": "content_block_start", "index": self._index, "content_block": {"type": kind, **empty}}
        yield {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _end_block(self) -> Iterator[StreamEventJson]:
        if self._open_block is not None:
            yield {"type": "content_block_stop", "index": self._index}
            self._index, self._open_block = self._index + 1, None

    def _end_message(self, stop_reason: str, output_tokens: int = 0) -> Iterator[StreamEventJson]:
        yield from self._end_block()
        self._is_message_open = False
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output_tokens}}
        yield {"type": "message_stop"}
