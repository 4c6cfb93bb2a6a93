"""Writes a session as one self-contained HTML page, piece by piece: no scripts, no external resources, all text
escaped."""

import re
import time
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt

from ebbtide.agent.integrations.export.timeline_svg import (
    draw_timeline_svg,
    timeline_columns,
    timeline_legend,
    timeline_totals,
)
from ebbtide.agent.integrations.export.transcript_entries import (
    MAX_OUTPUT_CHARS,
    AgentTranscript,
    MessageWithOutputs,
    ReadableSession,
    arguments_as_run,
    arguments_text,
    cost_text,
    messages_with_outputs,
)
from ebbtide.agent.messages import Assistant, Image, Note, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.tools.outputs.extent import pluralize

MAX_IMAGE_CHARS = 3_000_000
"""Maximum size of an embedded image, in base64 characters."""
MAX_MARKDOWN_CHARS = 60_000
"""Maximum length, in characters, of a reply that is rendered as Markdown; longer ones are shown as plain text."""
MAX_SUMMARY_CHARS = 110
"""Maximum length of a call's summary, in characters."""

_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_SUMMARY_ARGUMENTS = ("command", "path", "file_path", "pattern", "query", "url", "description", "prompt", "name")
"""Arguments that summarise a call, in order of preference."""


def render_html_chunks(session: ReadableSession) -> Iterator[str]:
    """Yield the page in pieces. All text in `session` must be printable."""
    head, tail = _template().split("<!-- messages -->\n")
    title = escape(" ".join(session.details.title.split()) or "A session")
    facts = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in _facts(session) if value)
    yield Template(head).substitute(title=title, facts=facts, timeline=_timeline_figure(session))
    for item in messages_with_outputs(session.entries()):
        yield html_message(item, session.agents)
    for agent in session.agents:
        yield from html_agent(agent)
    secrets_note = "Recognised keys and passwords were removed." if session.is_redacted else "Secrets were not removed."
    yield Template(tail).substitute(secrets=secrets_note)


def _template() -> str:
    return Path(__file__).with_name("html_page.html").read_text("utf-8")


def _facts(session: ReadableSession) -> Iterator[tuple[str, str]]:
    """Yield the names and values shown at the top of the page; the values are HTML."""
    details = session.details
    yield "session", f"<code>{escape(details.id)}</code>"
    yield "model", escape(details.model)
    if details.project:
        yield "project", f"<code>{escape(details.project)}</code>"
    time_texts = [_local_time(timestamp) for timestamp in (details.created, details.updated) if timestamp is not None]
    yield "when", " to ".join(dict.fromkeys(time_texts))
    yield "messages", f"{details.messages:,}"
    yield "cost", cost_text(details.cost)
    yield "tags", "".join(f'<span class="tag">#{escape(tag)}</span>' for tag in details.tags)
    yield "agents", ", ".join(map(_agent_link, session.agents))


def html_agent(agent: AgentTranscript) -> Iterator[str]:
    """Yield the session of a sub-agent as a collapsed block. The call that started it links to this block."""
    message_count = f'<span class="status">{pluralize(agent.details.messages, "message")}</span>'
    prompt_line = escape(_summary_line(agent.prompt))
    summary_html = f"<b>Agent {escape(agent.name)}</b> <code>{prompt_line}</code>{message_count}"
    yield f'<details class="agent" id="{_agent_anchor(agent)}"><summary>{summary_html}</summary>\n'
    for item in messages_with_outputs(agent.entries()):
        yield html_message(item, anchor_prefix=f"{_agent_anchor(agent)}-")
    yield "</details>\n"


def html_message(item: MessageWithOutputs, agents: Sequence[AgentTranscript] = (), anchor_prefix: str = "") -> str:
    """Render a message as an HTML article. Empty if the message contains only call outputs. `anchor_prefix`: the
    beginning of the article's anchor."""
    message, anchor = item.entry.message, f"{anchor_prefix}m{item.entry.position}"
    match message:
        case User():
            pieces, author, css_class = [*_user_pieces(message, item.outputs)], "You", "you"
        case Assistant():
            pieces, author, css_class = [*_model_pieces(message, item.outputs, agents)], "Model", "model"
    if not pieces:
        return ""
    time_text = "" if item.entry.timestamp is None else f" · {_local_time(item.entry.timestamp)}"
    model = f" · {escape(message.model)}" if isinstance(message, Assistant) and message.model else ""
    head = f'<header><a href="#{anchor}">{author}</a>{model}{time_text}</header>'
    return f'<article class="{css_class}" id="{anchor}">{head}\n{"".join(pieces)}</article>\n'


def _user_pieces(message: User, outputs: Mapping[str, ToolOutput]) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                yield f'<div class="said">{escape(text)}</div>\n'
            case Image():
                yield _image_html(part)
            case Note(text=text) if text.strip():
                name_suffix = f" · {escape(part.name[:MAX_SUMMARY_CHARS])}" if part.name else ""
                yield _details_block("note", f"note from the program: {part.kind}{name_suffix}", _pre_block(text))
            case ToolOutput() if part.call_id in outputs:
                yield _details_block("call", f"an output {_status_html(part)}", _output_html(part))
            case _:
                pass


def _model_pieces(
    message: Assistant, outputs: Mapping[str, ToolOutput], agents: Sequence[AgentTranscript]
) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                yield f'<div class="prose">{_markdown_html(text)}</div>\n'
            case Reasoning(text=text) if text.strip():
                yield _details_block("thought", "Thought", _pre_block(text))
            case ToolCall():
                yield _call_block(part, outputs.get(part.id), agents)
            case _:
                pass


def _call_block(call: ToolCall, output: ToolOutput | None, agents: Sequence[AgentTranscript]) -> str:
    arguments = arguments_as_run(call, output)
    visible_arguments, _ = arguments_text(arguments)
    summary = next(
        (value for name in _SUMMARY_ARGUMENTS if isinstance(value := arguments.get(name), str) and value.strip()), ""
    )
    summary_line = _summary_line(summary)
    status = _status_html(output) if output is not None else '<span class="status interrupted">no output</span>'
    summary_html = (
        f"<b>{escape(call.name)}</b> {f'<code>{escape(summary_line)}</code>' if summary_line else ''}{status}"
    )
    started_agent = next((agent for agent in agents if agent.was_started_by(call, output)), None)
    agent_note = f'<p class="more">What it did: {_agent_link(started_agent)}</p>' if started_agent is not None else ""
    return _details_block(
        "call",
        summary_html,
        _pre_block(visible_arguments) + (_output_html(output) if output is not None else "") + agent_note,
    )


def _summary_line(text: str) -> str:
    """Shorten text to one line."""
    return " ".join(text[:MAX_OUTPUT_CHARS].split())[:MAX_SUMMARY_CHARS]


def _agent_anchor(agent: AgentTranscript) -> str:
    return f"agent-{re.sub('[^0-9a-f-]', '', agent.details.id)}"


def _agent_link(agent: AgentTranscript) -> str:
    return f'<a href="#{_agent_anchor(agent)}">{escape(agent.name)}</a>'


def _output_html(output: ToolOutput) -> str:
    text = _pre_block(output.text) if output.text.strip() else ""
    size_note = ""
    if output.stored is not None:
        size_note = f'<p class="more">All of it, {output.stored.size:,} bytes, is stored with the session.</p>'
    return text + size_note + "".join(map(_image_html, output.images))


def _status_html(output: ToolOutput) -> str:
    lines = output.stored.lines if output.stored is not None else len(output.text.splitlines())
    line_count = f'<span class="status">{pluralize(lines, "line")}</span>'
    return f'<span class="status {output.status}">{output.status}</span> {line_count}'


def _details_block(css_class: str, summary_html: str, content_html: str) -> str:
    """Return a collapsible block. `summary_html` and `content_html` are HTML."""
    return f'<details class="{css_class}"><summary>{summary_html}</summary>\n{content_html}</details>\n'


def _pre_block(text: str) -> str:
    remaining_chars = len(text) - MAX_OUTPUT_CHARS
    size_note = f'<p class="more">… {remaining_chars:,} more characters</p>' if remaining_chars > 0 else ""
    return f"<pre>{escape(text[:MAX_OUTPUT_CHARS])}</pre>{size_note}"


def _markdown_html(text: str) -> str:
    """Render Markdown as HTML that loads nothing: HTML in it is escaped, and images become links."""
    if len(text) > MAX_MARKDOWN_CHARS:
        return f'<div class="said">{escape(text)}</div>'
    return str(_markdown().render(text))


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def _image_html(image: Image) -> str:
    media_type = image.media_type if image.media_type in _IMAGE_TYPES else ""
    if not media_type or not image.data or len(image.data) > MAX_IMAGE_CHARS or not _is_base64(image.data):
        return f'<p class="more">[{escape(image.media_type)}]</p>\n'
    return f'<p><img alt="{media_type}" src="data:{media_type};base64,{image.data}"></p>\n'


def _is_base64(data: str) -> bool:
    if re.fullmatch(r"[A-Za-z0-9+/=]+", data) is None:
        return False
    try:
        b64decode(data, validate=True)
    except (Error, ValueError):
        return False
    return True


def _timeline_figure(session: ReadableSession) -> str:
    columns = timeline_columns(session.requests(), session.request_count)
    if not columns:
        return ""
    chart = f"{draw_timeline_svg(columns, session.rewrites, session.token_limit)}{timeline_legend()}"
    return f"<figure>{chart}<figcaption>{timeline_totals(columns, session.token_limit)}</figcaption></figure>\n"


def _local_time(timestamp: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(timestamp))
