"""A session as a Markdown file for people to read."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent.errors import UsageError
from agent.messages import Assistant, Image, Message, Reasoning, Text, ToolCall, ToolOutput, User
from tools.secrets.redaction import redacted

LONGEST_OUTPUT = 20_000
"""Characters of an output that are written."""


def markdown_of(title: str, about: Sequence[str], messages: Sequence[Message], environment: Mapping[str, str]) -> str:
    """All that was said, calls with what they gave back among it; without the secrets of the environment and without
    what looks like one. `about`: lines below the title."""
    outputs = {output.call_id: output for each in messages if isinstance(each, User) for output in each.outputs}
    lines = [f"# {_one_line(title) or 'A session'}", "", *(f"- {_one_line(line)}" for line in about)]
    for message in messages:
        lines += _user_lines(message) if isinstance(message, User) else _model_lines(message, outputs)
    return redacted("\n".join(lines) + "\n", environment)


def write_markdown(path: Path, text: str) -> None:
    """Writes a new file that only its user may read. Raises `UsageError`."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"`{path}` is there already: name another file") from error
    except OSError as error:
        raise UsageError(f"cannot write `{path}`: {error.strerror or error}") from error


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
        yield from fenced(command, "sh")
    else:
        yield from fenced(json.dumps(arguments, ensure_ascii=False, indent=2, default=str), "json")
    if output is not None and output.text.strip():
        text = output.text
        more = len(text) - LONGEST_OUTPUT
        yield from ("", *fenced(text[:LONGEST_OUTPUT] + (f"\n… {more:,} more characters" if more > 0 else "")))


def fenced(text: str, language: str = "") -> tuple[str, str, str]:
    """Between fences that are longer than any in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}{language}", text.rstrip("\n"), fence


def _one_line(text: str) -> str:
    return " ".join(text.split())
