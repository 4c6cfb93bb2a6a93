"""Writes a session as Markdown for people to read."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.agent.archive.transcript_entries import LONGEST_OUTPUT, Redact, TranscriptEntries
from ebbtide.agent.messages import Assistant, Image, Reasoning, Text, ToolCall, ToolOutput, User


def markdown_head(title: str, about: Sequence[str], hide: Redact) -> str:
    lines = [f"# {_one_line(title) or 'A session'}", "", *(f"- {_one_line(line)}" for line in about)]
    return hide("\n".join(lines) + "\n")


def markdown_message(one: TranscriptEntries, hide: Redact) -> str:
    """The lines of a message; empty if it only contains outputs of calls."""
    message = one.entry.message
    lines = [*(_user_lines(message) if isinstance(message, User) else _model_lines(message, one.outputs))]
    return hide("\n".join(lines) + "\n") if lines else ""


def _user_lines(message: User) -> Iterator[str]:
    said = [part.text if isinstance(part, Text) else f"*[{part.media_type}]*" for part in message.parts
            if isinstance(part, Text | Image)]  # fmt: skip
    if said:
        yield from ("", "## You", "", *said)


def _model_lines(message: Assistant, outputs: Mapping[str, ToolOutput]) -> Iterator[str]:
    yield from ("", "## Model")
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                yield from ("", text)
            case Reasoning(text=text) if text.strip():
                yield from ("", "<details><summary>Thought</summary>", "", text, "", "</details>")
            case ToolCall():
                yield from _call_lines(part, outputs.get(part.id))


def _call_lines(call: ToolCall, output: ToolOutput | None) -> Iterator[str]:
    arguments = dict(output.edited) if output is not None and output.edited is not None else dict(call.arguments)
    yield from ("", f"**{_one_line(call.name)}** ({output.status if output is not None else 'no output'})", "")
    command = arguments.get("command")
    if isinstance(command, str):
        yield from fenced_lines(command, "sh")
    else:
        yield from fenced_lines(json.dumps(arguments, ensure_ascii=False, indent=2, default=str), "json")
    if output is not None and output.text.strip():
        text = output.text
        more = len(text) - LONGEST_OUTPUT
        yield from ("", *fenced_lines(text[:LONGEST_OUTPUT] + (f"\n… {more:,} more characters" if more > 0 else "")))


def fenced_lines(text: str, language: str = "") -> tuple[str, str, str]:
    """A code block whose fences are longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}{language}", text.rstrip("\n"), fence


def _one_line(text: str) -> str:
    return " ".join(text.split())
