"""What a request showed the model of the outputs of its calls, on every wire, and which steps it took blind. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never

from ebbtide.agent.messages import Assistant, Message
from tests.kit.fake_frames import Call, Json, WireName

Form: TypeAlias = Literal["whole", "cut", "stub"]
"""All of an output, part of it with a reference, or one line that stands for it. What is absent is in no list."""

ASKED = "The context window is nearly full. Write down what is needed"
"""How a request for a summary begins, or the last text of one."""
_STUB = re.compile(r"\[(?:recall:)?`?r\d+`?[\]:]")
_CUT = re.compile(r'ref_id="?r\d+|\[…|left out|\[(?:recall:)?r\d+')


@dataclass(frozen=True, slots=True)
class SeenOutput:
    """An output as a request held it."""

    call: str
    """The id of its call; on Ollama's wire, which has none, the name of its tool."""
    text: str
    form: Form


def form_of(text: str, whole: str | None = None) -> Form:
    """In which form an output is shown. `whole`: all that the tool gave, where the test knows; else the form is told by
    the references that cut ones and lines carry."""
    if whole is not None and whole.strip() in text:
        return "whole"
    if "\n" not in text.strip() and _STUB.search(text):
        return "stub"
    return "cut" if whole is not None or _CUT.search(text) else "whole"


def outputs_in(wire: WireName, body: Json) -> tuple[SeenOutput, ...]:
    """Every output that a request holds, in its order."""
    return tuple(SeenOutput(call, text, form_of(text)) for call, text in _outputs(wire, body))


def shown_in(messages: Sequence[Message]) -> tuple[SeenOutput, ...]:
    """The same of a request that no adapter has written down."""
    outputs = [output for message in messages if not isinstance(message, Assistant) for output in message.outputs]
    return tuple(SeenOutput(output.call_id, output.text, form_of(output.text)) for output in outputs)


def _outputs(wire: WireName, body: Json) -> Iterator[tuple[str, str]]:
    match wire:
        case "anthropic":
            lists = (message["content"] for message in body["messages"] if isinstance(message["content"], list))
            for block in (block for blocks in lists for block in blocks):
                if block["type"] == "tool_result":
                    yield block["tool_use_id"], _text(block["content"])
        case "responses":
            for item in body["input"]:
                if item.get("type") in ("function_call_output", "custom_tool_call_output"):
                    yield item["call_id"], _text(item["output"])
        case "chat" | "ollama":
            for message in body["messages"]:
                if message["role"] == "tool":
                    yield message.get("tool_call_id") or message["tool_name"], _text(message.get("content", ""))
        case _:
            assert_never(wire)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


def is_step(body: Json) -> bool:
    """Whether a request goes on with the work, and asks for no summary and no search of the web."""
    messages = body.get("messages") or body.get("input") or [""]
    tools = [tool for tool in body.get("tools") or () if not str(tool.get("type")).startswith("web_search")]
    return bool(tools) and ASKED not in str(messages[-1])


def ids_of(wire: WireName, calls: Sequence[Call], number: int) -> tuple[str, ...]:
    """The ids that the calls of an answer have on a wire; on Ollama's, their names."""
    if wire == "ollama":
        return tuple(call.name for call in calls)
    head = "toolu" if wire == "anthropic" else "call"
    return tuple(call.id or f"{head}_{number}_{index}" for index, call in enumerate(calls))


def unseen(wire: WireName, calls: Sequence[str], body: Json) -> tuple[str, ...]:
    """Those of the newest calls whose outputs a request does not show in any form: the model goes on blind."""
    call_ids = [output.call for output in outputs_in(wire, body)]
    if wire == "ollama":  # without ids: the newest outputs are those at the end
        return tuple(calls) if call_ids[len(call_ids) - len(calls) :] != list(calls) else ()
    return tuple(call for call in calls if call not in call_ids)
