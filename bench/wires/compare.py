"""Compares a recorded answer with what the program reads from it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.wires.replay import AnswerReading
from bench.wires.rows import RecordedAnswer
from ebbtide.agent.errors import AuthFailed, ContextOverflow, ProviderError, UnknownModel
from ebbtide.agent.messages import Assistant, Reasoning, StopReason, Usage

STOP_REASONS: Mapping[str, frozenset[StopReason]] = {
    "stop": frozenset({"end", "calls"}),
    "end_turn": frozenset({"end"}),
    "stop_sequence": frozenset({"end"}),
    "completed": frozenset({"end", "calls"}),
    "tool_calls": frozenset({"calls"}),
    "tool_use": frozenset({"calls"}),
    "function_call": frozenset({"calls"}),
    "length": frozenset({"max_tokens"}),
    "max_tokens": frozenset({"max_tokens"}),
    "incomplete:max_output_tokens": frozenset({"max_tokens"}),
    "content_filter": frozenset({"refusal"}),
    "refusal": frozenset({"refusal"}),
}
"""Our stop reasons, by the provider's. For some, a reply may contain calls, which are run."""


def reading_differences(row: RecordedAnswer, reading: AnswerReading) -> list[str]:
    """Return the differences, one sentence each; empty if the answer was read correctly."""
    if row.is_error:
        return list(_error_differences(row, reading))
    if reading.reply is None:
        says_nothing = not (row.expected["text"] or row.expected["tool_calls"] or row.expected["finish"])
        return [] if says_nothing else [f"error instead of a reply: {reading.error}"]
    return [
        *_reply_differences(row.expected, reading.reply.message),
        *_usage_differences(row.wire == "anthropic", row.expected.get("usage") or {}, reading.reply.usage),
        *_stop_differences(row.expected, reading),
        *([f"asked {reading.requests} times for one answer"] if reading.requests > 1 else ()),
        *_missing_parts(row, reading),
    ]


def _error_differences(row: RecordedAnswer, reading: AnswerReading) -> Iterator[str]:
    if reading.error is None:
        if row.expected.get("error_class") != "TypeError":  # the SDK failed to read a valid reply
            yield f"a reply instead of the error: {reading.reply}"
        return
    if not isinstance(reading.error, ProviderError):
        yield f"not an error of the provider: {reading.error!r}"
    wanted: type[ProviderError] | None = {401: AuthFailed}.get(row.status)
    if wanted is not None and not isinstance(reading.error, wanted):
        yield f"{type(reading.error).__name__} instead of {wanted.__name__}"
    if isinstance(reading.error, AuthFailed | UnknownModel | ContextOverflow) and reading.requests > 1:
        yield f"asked {reading.requests} times"


def _reply_differences(expected: Mapping[str, Any], message: Assistant) -> Iterator[str]:
    if message.text != expected["text"]:
        yield f"text {_shortened(message.text)} instead of {_shortened(expected['text'])}"
    expected_calls = [call for call in expected["tool_calls"] if not call.get("partial")]
    runnable = [(call.name, dict(call.arguments)) for call in message.calls if not call.problem]
    is_legacy = expected["finish"] == "function_call"  # the recordings do not list calls in this old format
    if not is_legacy and runnable != [(call["name"], _arguments(call)) for call in expected_calls]:
        yield f"calls {_shortened(runnable)} instead of {_shortened(expected['tool_calls'])}"
    if expected["reasoning"] and not any(isinstance(part, Reasoning) for part in message.parts):
        yield "no reasoning"


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call["arguments"]
    return arguments if isinstance(arguments, dict) else json.loads(arguments or "{}")


def _usage_differences(excludes_cached: bool, expected: Mapping[str, Any], usage: Usage) -> Iterator[str]:
    """Yield the differences in usage. `excludes_cached`: whether the provider's input excludes cached tokens."""
    found = {
        "input": usage.input if excludes_cached else usage.prompt,
        "cache_read": usage.cache_read,
        "output": usage.output,
        "reasoning": usage.reasoning,
    }
    if excludes_cached:
        found["cache_write"] = usage.cache_write
    right = {name: expected.get(name) or 0 for name in found}
    if not excludes_cached:
        right["cache_read"] = min(right["cache_read"], right["input"])  # some servers report more than the input
        if expected.get("total") == right["input"] + right["output"] + right["reasoning"]:
            right["output"] += right["reasoning"]  # xAI does not include reasoning in the output
    wrong = {name: (size, right[name]) for name, size in found.items() if size != right[name]}
    if expected and wrong:
        yield "usage " + ", ".join(f"{name} {size} instead of {other}" for name, (size, other) in wrong.items())


def _stop_differences(expected: Mapping[str, Any], reading: AnswerReading) -> Iterator[str]:
    assert reading.reply is not None
    allowed = STOP_REASONS.get(expected.get("finish") or "")
    if allowed is not None and expected.get("refused"):
        allowed |= {"refusal"}
    if allowed is not None and reading.reply.stop_reason not in allowed:
        yield f"stop reason {reading.reply.stop_reason} for {expected['finish']}"


def _missing_parts(row: RecordedAnswer, reading: AnswerReading) -> Iterator[str]:
    """Yield the parts that the next request should return to the provider but does not."""
    expected_parts = row.expected.get("back") or {}
    if not row.expected["text"] and not row.expected["tool_calls"]:
        return  # a reply without text or calls is requested again and never becomes part of the conversation
    for kind, wanted in expected_parts.items():
        match kind:
            case "blocks":
                found = [
                    block for message in reading.next_body.get("messages", ()) for block in _as_list(message["content"])
                ]
                missing = [block for block in wanted if not _contains_block(found, block)]
            case "items":
                missing = [
                    item for item in wanted if not any(_matches_item(each, item) for each in _input_items(reading))
                ]
            case "phases":
                missing = [
                    item for item in wanted if not any(_matches_item(each, item) for each in _input_items(reading))
                ]
            case _:
                messages = [m for m in reading.next_body.get("messages", ()) if m.get("role") == "assistant"]
                missing = [] if any(_is_sent_back(message.get(kind), wanted) for message in messages) else [wanted]
        if missing:
            yield f"not sent back: {kind} {_shortened(missing)}"


def _is_sent_back(found: object, wanted: object) -> bool:
    """Whether a field is sent back unchanged. If the recording has an empty signature, any signature is accepted."""
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        unsigned = {"signature": ""}
        return all(
            one == {**one, **two, **({"signature": one.get("signature")} if two | unsigned == two else {})}
            for one, two in zip(found, wanted, strict=True)
        )
    return found == wanted


def _input_items(reading: AnswerReading) -> Sequence[Mapping[str, Any]]:
    return [item for item in _as_list(reading.next_body.get("input")) if isinstance(item, dict)]


def _matches_item(item: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    for name, value in wanted.items():
        if name.endswith("_any"):
            if item.get(name.removesuffix("_any")) not in value:
                return False
        elif item.get(name) != value:
            return False
    return True


def _contains_block(blocks: Sequence[object], wanted: Mapping[str, Any]) -> bool:
    return any(
        isinstance(block, dict) and all(block.get(name) == value for name, value in wanted.items()) for block in blocks
    )


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shortened(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return repr(text if len(text) <= 160 else f"{text[:110]} … {text[-40:]}")
