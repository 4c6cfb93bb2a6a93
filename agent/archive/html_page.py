"""Writes a session as one self-contained HTML page, piece by piece: no scripts, no external resources, all text
escaped."""

import json
import re
import time
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from ebbtide.agent.archive.timeline_svg import TimelineColumn, timeline_legend, timeline_svg, timeline_totals
from ebbtide.agent.archive.transcript_entries import (
    LONGEST_OUTPUT,
    AgentTalk,
    Redact,
    SessionAbout,
    TranscriptEntries,
    cost_text,
    printable_text,
    transcript_entries,
)
from ebbtide.agent.messages import Assistant, Image, Note, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.usage import Rewrite
from ebbtide.tools.outputs.extent import pluralize

MOST_IMAGE = 3_000_000
"""Largest image that is embedded, in characters of base64."""
MOST_PROSE = 60_000
"""Longest reply that is rendered as Markdown, in characters; longer ones are shown as plain text."""
MAX_SUMMARY_CHARS = 110
"""Longest summary of a call in its line, in characters."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_TELLING = ("command", "path", "file_path", "pattern", "query", "url", "description", "prompt", "name")
"""Arguments that summarise a call, in order of preference."""


def html_head(
    about: SessionAbout,
    columns: Sequence[TimelineColumn],
    rewrites: Sequence[Rewrite],
    limit: int | None,
    hide: Redact,
    agents: Sequence[AgentTalk] = (),
) -> str:
    title = _escape_text(" ".join(about.title.split()) or "A session", hide)
    rows = [("session", f"<code>{_escape_text(about.id, hide)}</code>"), ("model", _escape_text(about.model, hide))]
    rows += [("project", f"<code>{_escape_text(about.project, hide)}</code>")] if about.project else []
    times = [_moment(at) for at in (about.created, about.updated) if at is not None]
    rows += [("when", " to ".join(dict.fromkeys(times)))] if times else []
    rows += [("messages", f"{about.messages:,}"), ("cost", cost_text(about.cost))]
    tags = "".join(f'<span class="tag">#{_escape_text(tag, hide)}</span>' for tag in about.tags)
    rows += [("tags", tags)] if tags else []
    rows += [("agents", ", ".join(_link_to(agent, hide) for agent in agents))] if agents else []
    told = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value)
    style = Path(__file__).with_name("html_page.css").read_text("utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f'<dl class="about">{told}</dl>\n{_timeline(columns, rewrites, limit, hide)}<main>\n'
    )


def html_end(hidden: bool) -> str:
    """`hidden`: secrets were removed."""
    told = "Written by Ebbtide. " + (
        "Recognised keys and passwords were removed." if hidden else "Secrets were not removed."
    )
    return f"</main>\n<footer>{told}</footer>\n</body></html>\n"


def html_agent(agent: AgentTalk, hide: Redact) -> Iterator[str]:
    """The session of a sub-agent, collapsed; its call links to it."""
    many = f'<span class="status">{pluralize(agent.about.messages, "message")}</span>'
    told = escape(_line_of(agent.prompt, hide))
    line = f"<b>Agent {_escape_text(agent.name, hide)}</b> <code>{told}</code>{many}"
    yield f'<details class="agent" id="{_place_of(agent)}"><summary>{line}</summary>\n'
    for one in transcript_entries(agent.entries()):
        yield html_message(one, hide, place=f"{_place_of(agent)}-")
    yield "</details>\n"


def html_message(one: TranscriptEntries, hide: Redact, agents: Sequence[AgentTalk] = (), place: str = "") -> str:
    """The article for a message; empty if it only contains outputs of calls. `place`: prefix of its anchor."""
    message, position = one.entry.message, f"{place}m{one.entry.position}"
    match message:
        case User():
            pieces, who, kind = [*_of_user(message, one.outputs, hide)], "You", "you"
        case Assistant():
            pieces, who, kind = [*_of_model(message, one.outputs, hide, agents)], "Model", "model"
    if not pieces:
        return ""
    at = "" if one.entry.at is None else f" · {_moment(one.entry.at)}"
    model = f" · {_escape_text(message.model, hide)}" if isinstance(message, Assistant) and message.model else ""
    head = f'<header><a href="#{position}">{who}</a>{model}{at}</header>'
    return f'<article class="{kind}" id="{position}">{head}\n{"".join(pieces)}</article>\n'


def _of_user(message: User, outputs: Mapping[str, ToolOutput], hide: Redact) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                yield f'<div class="said">{_escape_text(text, hide)}</div>\n'
            case Image():
                yield _image(part)
            case Note(text=text) if text.strip():
                named = f" · {_escape_text(part.name[:MAX_SUMMARY_CHARS], hide)}" if part.name else ""
                yield _details_block("note", f"note from the program: {part.kind}{named}", _block(text, hide))
            case ToolOutput() if part.call_id in outputs:
                yield _details_block("call", f"an output {_status(part)}", _output(part, hide))
            case _:
                pass


def _of_model(
    message: Assistant, outputs: Mapping[str, ToolOutput], hide: Redact, agents: Sequence[AgentTalk]
) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():
                yield f'<div class="prose">{_prose(hide(printable_text(text)))}</div>\n'
            case Reasoning(text=text) if text.strip():
                yield _details_block("thought", "Thought", _block(text, hide))
            case ToolCall():
                yield _call(part, outputs.get(part.id), hide, agents)
            case _:
                pass


def _call(call: ToolCall, output: ToolOutput | None, hide: Redact, agents: Sequence[AgentTalk]) -> str:
    arguments = dict(output.edited) if output is not None and output.edited is not None else dict(call.arguments)
    command = arguments.get("command")
    asked = command if isinstance(command, str) else json.dumps(arguments, ensure_ascii=False, indent=2, default=str)
    about = next((value for name in _TELLING if isinstance(value := arguments.get(name), str) and value.strip()), "")
    told = _line_of(about, hide)
    status = _status(output) if output is not None else '<span class="status interrupted">no output</span>'
    line = f"<b>{_escape_text(call.name, hide)}</b> {f'<code>{escape(told)}</code>' if told else ''}{status}"
    sent = next((agent for agent in agents if agent.was_sent_by(call, output)), None)
    more = f'<p class="more">What it did: {_link_to(sent, hide)}</p>' if sent is not None else ""
    return _details_block(
        "call", line, _block(asked, hide) + (_output(output, hide) if output is not None else "") + more
    )


def _line_of(text: str, hide: Redact) -> str:
    """The beginning of a text on one line. Secrets are removed before cutting: half a key would not be recognised."""
    return " ".join(printable_text(hide(text[:LONGEST_OUTPUT])).split())[:MAX_SUMMARY_CHARS]


def _place_of(agent: AgentTalk) -> str:
    return f"agent-{re.sub('[^0-9a-f-]', '', agent.about.id)}"


def _link_to(agent: AgentTalk, hide: Redact) -> str:
    return f'<a href="#{_place_of(agent)}">{_escape_text(agent.name, hide)}</a>'


def _output(output: ToolOutput, hide: Redact) -> str:
    text = _block(output.text, hide) if output.text.strip() else ""
    more = ""
    if output.stored is not None:
        more = f'<p class="more">All of it, {output.stored.size:,} bytes, is kept with the session.</p>'
    return text + more + "".join(map(_image, output.images))


def _status(output: ToolOutput) -> str:
    lines = output.stored.lines if output.stored is not None else len(output.text.splitlines())
    many = f'<span class="status">{pluralize(lines, "line")}</span>'
    return f'<span class="status {output.status}">{output.status}</span> {many}'


def _details_block(kind: str, line: str, inside: str) -> str:
    """A collapsible block; `line` and `inside` are HTML."""
    return f'<details class="{kind}"><summary>{line}</summary>\n{inside}</details>\n'


def _block(text: str, hide: Redact) -> str:
    left = len(text) - LONGEST_OUTPUT
    more = f'<p class="more">… {left:,} more characters</p>' if left > 0 else ""
    return f"<pre>{_escape_text(text[:LONGEST_OUTPUT], hide)}</pre>{more}"


def _escape_text(text: str, hide: Redact) -> str:
    return escape(hide(printable_text(text)))


def _prose(text: str) -> str:
    """Markdown as HTML. HTML in it is shown as text, images become links, and nothing is loaded."""
    if len(text) > MOST_PROSE:
        return f'<div class="said">{escape(text)}</div>'
    return str(_markdown().render(text))


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def _image(image: Image) -> str:
    kind = image.media_type if image.media_type in _IMAGES else ""
    if not kind or not image.data or len(image.data) > MOST_IMAGE or not _is_base64(image.data):
        return f'<p class="more">[{escape(image.media_type)}]</p>\n'
    return f'<p><img alt="{kind}" src="data:{kind};base64,{image.data}"></p>\n'


def _is_base64(data: str) -> bool:
    if re.fullmatch(r"[A-Za-z0-9+/=]+", data) is None:
        return False
    try:
        b64decode(data, validate=True)
    except (Error, ValueError):
        return False
    return True


def _timeline(columns: Sequence[TimelineColumn], rewrites: Sequence[Rewrite], limit: int | None, hide: Redact) -> str:
    if not columns:
        return ""
    told = [replace(one, reason=hide(one.reason), strategies=tuple(map(hide, one.strategies))) for one in rewrites]
    drawn = f"{timeline_svg(columns, told, limit)}{timeline_legend()}"
    return f"<figure>{drawn}<figcaption>{timeline_totals(columns, limit)}</figcaption></figure>\n"


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def html_pieces(
    about: SessionAbout,
    said: Iterable[TranscriptEntries],
    columns: Sequence[TimelineColumn],
    rewrites: Sequence[Rewrite],
    limit: int | None,
    hide: Redact,
    *,
    hidden: bool,
    agents: Sequence[AgentTalk] = (),
) -> Iterator[str]:
    yield html_head(about, columns, rewrites, limit, hide, agents)
    for one in said:
        yield html_message(one, hide, agents)
    for agent in agents:
        yield from html_agent(agent, hide)
    yield html_end(hidden)
