"""Writes a session as Markdown for people to read."""

from collections.abc import Iterable, Iterator, Mapping

from ebbtide.agent.integrations.export.transcript_entries import (
    MAX_OUTPUT_CHARS,
    ReadableSession,
    arguments_as_run,
    arguments_text,
    cost_text,
    messages_with_outputs,
)
from ebbtide.agent.messages import Assistant, Image, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.agent.prompt.code_blocks import fenced_lines


def render_markdown_chunks(session: ReadableSession) -> Iterator[str]:
    details = session.details
    facts = (f"session {details.id}", f"model {details.model}", f"cost {cost_text(details.cost)}")
    yield _joined_lines(
        [f"# {_one_line(details.title) or 'A session'}", "", *(f"- {_one_line(fact)}" for fact in facts)]
    )
    for item in messages_with_outputs(session.entries()):
        match item.entry.message:
            case User() as message:
                yield _joined_lines(_user_lines(message))
            case Assistant() as message:
                yield _joined_lines(_model_lines(message, item.outputs))


def _joined_lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _user_lines(message: User) -> Iterator[str]:
    paragraphs = [part.text if isinstance(part, Text) else f"*[{part.media_type}]*" for part in message.parts
            if isinstance(part, Text | Image)]  # fmt: skip
    if paragraphs:
        yield from ("", "## You", "", *paragraphs)


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
    yield from ("", f"**{_one_line(call.name)}** ({output.status if output is not None else 'no output'})", "")
    yield from fenced_lines(*arguments_text(arguments_as_run(call, output)))
    if output is not None and output.text.strip():
        text = output.text
        remaining_chars = len(text) - MAX_OUTPUT_CHARS
        yield from (
            "",
            *fenced_lines(
                text[:MAX_OUTPUT_CHARS] + (f"\n… {remaining_chars:,} more characters" if remaining_chars > 0 else "")
            ),
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())
