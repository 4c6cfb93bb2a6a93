"""The history of a session as a peer keeps it, and what peers do with it: measuring, cutting and quoting. Pure."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from bench.context.billing import FRAME_TOKENS
from bench.context.workload import TOKENS_PER_BYTE, prose

Block: TypeAlias = Mapping[str, Any]
"""A block of a message in Anthropic's format, without a cache breakpoint."""
Origin: TypeAlias = Literal["user", "model", "outputs", "summary", "program"]


@dataclass(frozen=True, slots=True)
class Message:
    origin: Origin
    blocks: tuple[Block, ...]
    is_assistant: bool = False

    @property
    def role(self) -> str:
        return "assistant" if self.is_assistant else "user"

    @property
    def text(self) -> str:
        return "\n".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def calls(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block["type"] == "tool_use")

    @property
    def outputs(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block["type"] == "tool_result")


History: TypeAlias = tuple[Message, ...]


class ToolOutput(Protocol):
    """A call with its output, as a recording has it."""

    @property
    def id(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def arguments(self) -> Mapping[str, object]: ...
    @property
    def output(self) -> str: ...


def user_message(text: str, origin: Origin = "user") -> Message:
    return Message(origin, ({"type": "text", "text": text},))


def assistant_message(text: str, origin: Origin) -> Message:
    return Message(origin, ({"type": "text", "text": text},), is_assistant=True)


def output_block(call_id: str, text: str) -> Block:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": text}]}


def output_text(block: Block) -> str:
    return str(block["content"][0]["text"])


def stand_in(chars: int) -> str:
    """Return a text as long as a prompt of a peer."""
    return prose(7, chars)


def block_text(block: Block) -> str:
    """Return what the model reads of a block."""
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_use":
            return f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
        case _:
            return output_text(block)


def count_tokens(messages: Iterable[Message]) -> int:
    """Return the tokens that the provider counts."""
    return sum(
        round(len(block_text(block).encode("utf-8", "surrogatepass")) * TOKENS_PER_BYTE)
        + (0 if block["type"] == "text" else FRAME_TOKENS)
        for message in messages
        for block in message.blocks
    )


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Return the tokens that most peers assume: one for four characters."""
    return sum(len(block_text(block)) for message in messages for block in message.blocks) // 4


def calls_by_id(history: History) -> dict[str, Block]:
    return {call["id"]: call for message in history for call in message.calls}


def replace_outputs(history: History, text_for: Mapping[str, str]) -> History:
    """Return the history with other texts for the outputs of some calls."""

    def with_text(block: Block) -> Block:
        text = text_for.get(block.get("tool_use_id", ""))
        return block if text is None else output_block(block["tool_use_id"], text)

    return tuple(
        replace(message, blocks=tuple(map(with_text, message.blocks))) if message.origin == "outputs" else message
        for message in history
    )


def oldest_outputs(history: History, keep: int) -> tuple[Block, ...]:
    """Return all outputs but the newest."""
    found = [block for message in history for block in message.outputs]
    return tuple(found[: len(found) - keep])


def newest_that_fit(messages: Sequence[Message], max_tokens: int) -> tuple[Message, ...]:
    """Return the newest messages within a budget of estimated tokens. The oldest of them is cut to fit."""
    retained: list[Message] = []
    for message in reversed(messages):
        tokens = estimate_tokens([message])
        if tokens > max_tokens:
            if max_tokens > 0:
                retained.append(user_message(keep_ends(message.text, 2 * max_tokens, 2 * max_tokens)))
            break
        retained.append(message)
        max_tokens -= tokens
    return tuple(reversed(retained))


def keep_ends(text: str, head: int, tail: int) -> str:
    """Return the first and last characters of a text that is longer than both together."""
    if len(text) <= head + tail:
        return text
    end = text[len(text) - tail :]
    return f"{text[:head]}\n… {len(text) - head - tail} characters truncated …\n{end}"


def keep_lines(text: str, max_lines: int, max_bytes: int = 10**12, max_line_chars: int = 10**12) -> str:
    """Return the first lines of a text, up to a number of lines and bytes, each up to a number of characters."""
    return _keep_lines(text, max_lines, max_bytes, max_line_chars, lambda lines: lines)


def keep_last_lines(text: str, max_lines: int, max_bytes: int) -> str:
    return _keep_lines(text, max_lines, max_bytes, 10**12, lambda lines: lines[::-1])


def _keep_lines(
    text: str, max_lines: int, max_bytes: int, max_line_chars: int, order: Callable[[list[str]], list[str]]
) -> str:
    all_lines = text.split("\n")
    retained: list[str] = []
    for line in order([one[:max_line_chars] for one in all_lines])[:max_lines]:
        max_bytes -= len(line.encode("utf-8", "surrogatepass")) + 1
        if max_bytes < 0:
            break
        retained.append(line)
    note = [] if len(retained) == len(all_lines) else [f"… {len(all_lines) - len(retained)} lines truncated …"]
    return "\n".join(order([*retained, *note]))


def requested_lines(output: ToolOutput, default: int) -> int:
    """Return how many lines of a file the call asks for."""
    limit = output.arguments.get("limit")
    if isinstance(limit, int) and limit > 0:
        return limit
    match output.arguments.get("view_range"):
        case [int(first), int(last)] if last >= first:
            return last - first + 1
        case _:
            return default


def quote_history(history: History, max_output_chars: int) -> str:
    """Return a history as text for a summary, with its outputs cut."""
    parts: list[str] = []
    for message in history:
        for block in message.blocks:
            text = block_text(block)
            match block["type"]:
                case "text":
                    parts.append(f"[{'Assistant' if message.is_assistant else 'User'}]: {text}")
                case "tool_use":
                    parts.append(f"[Assistant tool call]: {text}")
                case _:
                    parts.append(f"[Tool result]: {keep_ends(text, max_output_chars, 0)}")
    return "\n\n".join(parts)
