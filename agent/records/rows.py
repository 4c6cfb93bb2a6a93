"""Converts messages, views and session states to database rows and back."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from ebbtide.agent.context.control_calls import TodoItem
from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import (
    CallState,
    CarriedPart,
    Conversation,
    Image,
    Message,
    PendingEdit,
    StoredBlob,
    Summary,
    Text,
    ToolOutput,
    User,
    UserPart,
)
from ebbtide.agent.records.codec import as_json, count, from_json
from ebbtide.agent.records.earlier_formats import title_parted
from ebbtide.agent.records.message_rows import decode_message, decode_part, encode_part
from ebbtide.agent.records.session_state import SessionState
from ebbtide.store.session_rows import FactRow, MessageRow, OutputRow, SummaryRow
from ebbtide.tools.process.jobs import EndedJob


def encode_call_state(state: CallState) -> str:
    match state:
        case ToolOutput():
            return as_json({"output": encode_part(state)})
        case PendingEdit(arguments):
            return as_json({"state": "asked", "arguments": arguments})
        case _:
            return as_json({"state": state})


def decode_call_state(text: str) -> CallState | None:
    """Return the progress of a call, or None if it cannot be read."""
    try:
        body = json.loads(text)
        if "output" in body:
            part = decode_part(body["output"])
            return part if isinstance(part, ToolOutput) else None
        if isinstance(body.get("arguments"), dict):
            return PendingEdit(body["arguments"])
        state: CallState | None = next((name for name in ("waiting", "asked", "begun") if name == body["state"]), None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return state


def encode_snapshot(conversation: Conversation, position: int, mark: RequestMark | None = None) -> str:
    """Serialise a view as JSON. It stores the position of its first message instead of the messages. `mark`: the
    last request."""
    body = {
        "start": position - len(conversation.messages),
        "summary": _encode_summary(conversation.summary),
        "masked": sorted(conversation.masked),
        "outputs_before": conversation.outputs_before,
        "held": conversation.held,
        "pinned": sorted(conversation.pinned),
        "retold": [
            [one.key, one.form, one.text, *([one.pictures] if one.pictures else [])] for one in conversation.retold
        ],
        "held_back": sorted(conversation.held_back),
        "recalls": conversation.recalls,
        "anchor": conversation.anchor,
        "anchored": conversation.anchored,
        "sent": mark,
    }
    return as_json(body)


_LATER = ("masked", "outputs_before", "held", "pinned", "retold", "held_back", "recalls")
"""Fields that snapshots of earlier versions may lack."""


def decode_snapshot(text: str) -> tuple[int, Conversation] | None:
    """Return the position of the first message shown, and the view without its messages; None if it cannot be read."""
    try:
        body = json.loads(text)
        start, summary = count(body["start"]), _decode_summary(body["summary"])
        fields = {"anchor": body["anchor"] or None, "anchored": body["anchored"]}
        fields |= {name: body[name] for name in _LATER if name in body}
        return start, from_json(Conversation, fields, messages=(), summary=summary, messages_before=start)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def decode_mark(text: str) -> RequestMark | None:
    """Return the last request that a snapshot records; None if there is none or it cannot be read."""
    try:
        found = json.loads(text).get("sent")
        return from_json(RequestMark, found) if found else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _encode_summary(summary: Summary) -> dict[str, object]:
    request = [encode_part(part) for part in summary.request.parts]
    return {
        "retain": summary.retain,
        "summary": summary.summary,
        "ledger": summary.ledger,
        "request": request,
        "facts": summary.facts,
        "kept": [_encode_carried_part(one) for one in summary.kept],
        "carried": [_encode_carried_part(one) for one in summary.carried],
        "names": summary.names,
    }


def _encode_carried_part(kept: CarriedPart) -> list[object]:
    return [kept.key, kept.what, kept.ref, [encode_part(part) for part in kept.parts]]


def _decode_summary(body: str | Mapping[str, Any]) -> Summary:
    """Return the summary in a snapshot. In the first version it was a plain string."""
    if isinstance(body, str):
        return Summary(summary=body)
    # Snapshots of earlier versions have no names, and only the facts that their ledger shows.
    texts = {"facts": "", "names": "", **body, **{name: body[name] for name in ("retain", "summary", "ledger")}}
    request = User(cast(tuple[UserPart, ...], tuple(map(decode_part, texts.pop("request")))))
    kept, carried = (tuple(_decode_carried_part(*one) for one in texts.pop(name, ())) for name in ("kept", "carried"))
    return from_json(Summary, texts, request=request, kept=kept, carried=carried)


def _decode_carried_part(key: str, *told: Any) -> CarriedPart:  # noqa: ANN401 - texts, followed by parts
    *texts, body = told
    parts = tuple(map(decode_part, body))
    if not all(isinstance(part, Text | Image) for part in parts):
        raise ValueError("what is pinned shows texts and pictures")
    return from_json(CarriedPart, [key, *(texts if len(texts) > 1 else title_parted(*texts))], parts=parts)


def output_rows(message: User, position: int, before: int, tools: Mapping[str, str]) -> list[OutputRow]:
    """Return a row for each output of a message, followed by one for each of its images, then its files. `before`:
    how many outputs the session already had; `tools`: the tool name of each call."""
    rows = []
    for number, output in enumerate(message.outputs, before + 1):
        tool = tools.get(output.call_id, "")
        kept = output.stored or in_message(output)
        digest = kept.digest or None
        rows.append(OutputRow(number, 0, position, output.call_id, tool, kept.size, kept.lines, "text/plain", digest))
        shown = [(decoded_size(image.data), image.media_type, image.digest) for image in output.images]
        kept_apart = [(one.size, one.media_type, one.digest) for one in (*output.pictures, *output.files)]
        for part, (size, media_type, where) in enumerate([*shown, *kept_apart], 1):
            rows.append(OutputRow(number, part, position, output.call_id, tool, size, 0, media_type, where or None))
    return rows


def digests_of(message: Message) -> tuple[str, ...]:
    """Digests of the blobs that a message refers to."""
    outputs = message.outputs if isinstance(message, User) else ()
    named = [(output.stored, *output.images, *output.pictures, *output.files) for output in outputs]
    return tuple(one.digest for some in named for one in some if one is not None and one.digest)


def whole_files(row: MessageRow) -> dict[tuple[int, str], str]:
    """The files in which earlier versions stored whole outputs, by message position and call id."""
    if '"whole"' not in row.body:
        return {}
    message = decode_message(row)
    outputs = message.outputs if isinstance(message, User) else ()
    return {(row.position, output.call_id): output.whole for output in outputs if output.whole is not None}


def plain_body(row: MessageRow) -> str:
    """The body of a message without references to such files."""
    if not whole_files(row):
        return row.body
    body = json.loads(row.body)
    body["parts"] = [{name: value for name, value in part.items() if name != "whole"} for part in body["parts"]]
    return as_json(body)


def decoded_size(data: str) -> int:
    """The decoded size of base64 data, in bytes."""
    return len(data) * 3 // 4 - data.count("=", -2)


def in_message(output: ToolOutput) -> StoredBlob:
    """The size of an output that is stored whole in its message."""
    data = output.text.encode("utf-8", "surrogatepass")
    return StoredBlob("", len(data), data.count(b"\n") + (bool(data) and not data.endswith(b"\n")))


def summary_row(summary: Summary, number: int, position: int) -> SummaryRow:
    return SummaryRow(number, position, as_json(_encode_summary(summary)))


def read_summary(row: SummaryRow) -> Summary:
    """Decode the summary in a row. Raises `StoreFailed` if it is not valid."""
    try:
        return _decode_summary(json.loads(row.body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreFailed(f"summary {row.number} of the session cannot be read: {error}", "corrupt") from error


def changes_of(before: SessionState, after: SessionState) -> tuple[tuple[FactRow, ...], tuple[tuple[str, str], ...]]:
    """The rows to add or replace, and the kind and key of the rows to delete, to turn one state into the other."""
    if before == after:
        return (), ()
    facts = [
        FactRow("seen", _path_key(path), digest)
        for path, digest in after.seen.items()
        if before.seen.get(path) != digest
    ]
    facts += [FactRow("job", id, command) for id, command in after.jobs.items() if before.jobs.get(id) != command]
    facts += [
        FactRow("ended job", id, json.dumps([job.command, job.how, *job.last_lines]))
        for id, job in after.ended_jobs.items()
        if before.ended_jobs.get(id) != job
    ]
    if after.todos != before.todos:
        items = [[item.text, item.status] for item in after.todos]
        facts.append(FactRow("todos", "", json.dumps(items)))
    if after.notes != before.notes:
        facts.append(FactRow("notes", "", json.dumps(after.notes)))
    over = [("seen", _path_key(path)) for path in before.seen.keys() - after.seen.keys()]
    over += [("job", id) for id in before.jobs.keys() - after.jobs.keys()]
    over += [("ended job", id) for id in before.ended_jobs.keys() - after.ended_jobs.keys()]
    return tuple(facts), tuple(over)


def _path_key(path: Path) -> str:
    """A path as a database key. One that is not valid Unicode is stored as JSON, which no absolute path looks like."""
    text = str(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return text


def _keyed_path(key: str) -> Path:
    return Path(str(json.loads(key)) if key.startswith('"') else key)


def decode_session_state(rows: Iterable[FactRow]) -> SessionState:
    """Build the session state from its rows, skipping any that cannot be read."""
    todos: tuple[TodoItem, ...] = ()
    notes = ""
    seen: dict[Path, str] = {}
    jobs: dict[str, str] = {}
    ended: dict[str, EndedJob] = {}
    for row in rows:
        with suppress(ValueError, TypeError):
            match row.kind:
                case "seen":
                    seen[_keyed_path(row.key)] = row.body
                case "job":
                    jobs[row.key] = row.body
                case "ended job":
                    command, how, *lines = map(str, json.loads(row.body))
                    ended[row.key] = EndedJob(row.key, command, how, tuple(lines))
                case "todos":
                    todos = tuple(TodoItem(str(text), str(status)) for text, status in json.loads(row.body))
                case "notes":
                    notes = str(json.loads(row.body))
                case _:
                    pass  # written by a later version
    return SessionState(todos, notes, seen, jobs, ended)
