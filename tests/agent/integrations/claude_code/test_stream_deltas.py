"""Stream events in Claude Code's format."""

import pytest

from ebbtide.agent.events.session import ReplyFinished, StepStarted, TextDelta
from ebbtide.agent.integrations.claude_code.stream_deltas import ReplyStreamConverter
from ebbtide.agent.messages import StopReason, Usage


@pytest.mark.parametrize(
    ("stop_reason", "written"),
    [
        ("end", "end_turn"),
        ("calls", "tool_use"),
        ("max_tokens", "max_tokens"),
        ("refusal", "refusal"),
        ("overflow", "model_context_window_exceeded"),
        ("pause", "pause_turn"),
        ("interrupted", "end_turn"),
    ],
)
def test_a_reply_ends_with_the_stop_reason_of_the_messages_api(stop_reason: StopReason, written: str) -> None:
    parts = ReplyStreamConverter()
    events = (StepStarted(1), TextDelta("half"), ReplyFinished("m", stop_reason, Usage(10, 3), None))
    written_parts = [part for event in events for part in parts.convert(event, "msg_1", "m")]
    assert [part["delta"]["stop_reason"] for part in written_parts if part["type"] == "message_delta"] == [written]
