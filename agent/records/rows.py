"""Converts messages, views and session states to database rows and back."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.control_calls import TodoItem
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
from ebbtide.agent.records.codec import from_json, parse_count, to_json
from ebbtide.agent.records.earlier_formats import split_title
from ebbtide.agent.records.message_rows import decode_message, decode_part, encode_part
from ebbtide.agent.records.session_state import SessionState
from ebbtide.store.session_rows import FactRow, MessageRow, OutputRow, SummaryRow
from ebbtide.tools.process.jobs import EndedJob

CALL_FACT_KIND = "call"
"""Fact kind under which the progress of calls is stored."""


def encode_call_state(state: CallState) -> str:
    match state:
        case ToolOutput():
            return to_json({"output": encode_part(state)})
        case PendingEdit(arguments):
            return to_json({"state": "asked", "arguments": arguments})
        case _:
            return to_json({"state": state})


def decode_call_states(bodies: Mapping[str, str]) -> Mapping[str, CallState]:
    """Decode the progress of calls, by call id. Calls whose progress cannot be read are skipped."""
    states = {call_id: _decode_call_state(body) for call_id, body in bodies.items()}
    return {call_id: state for call_id, state in states.items() if state is not None}


def _decode_call_state(text: str) -> CallState | None:
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


def call_state_changes(
    stored: Mapping[str, str], current: Mapping[str, str]
) -> tuple[tuple[FactRow, ...], tuple[tuple[str, str], ...]]:
    """Return the rows to write and the keys of the rows to delete, so that the stored progress of calls matches the
    current progress."""
    changed = [(call_id, body) for call_id, body in current.items() if stored.get(call_id) != body]
    facts = tuple(FactRow(CALL_FACT_KIND, call_id, body) for call_id, body in changed)
    return facts, tuple((CALL_FACT_KIND, call_id) for call_id in stored.keys() - current.keys())


def encode_snapshot(conversation: Conversation, position: int, request_mark: RequestRecord | None = None) -> str:
    """Serialise a view as JSON, with the position of the first message instead of the messages themselves.
    `request_mark`: the last request."""
    body = {
        "start": position - len(conversation.messages),
        "summary": _encode_summary(conversation.summary),
        "masked": sorted(conversation.masked),
        "outputs_before": conversation.outputs_before,
        "held": conversation.min_rewrite_size,
        "pinned": sorted(conversation.pinned),
        "retold": [
            [shortened.key, shortened.form, shortened.text, *([shortened.pictures] if shortened.pictures else [])]
            for shortened in conversation.retold
        ],
        "held_back": sorted(conversation.excluded_tools),
        "recalls": conversation.recalls,
        "anchor": conversation.anchor,
        "anchored": conversation.anchored,
        "sent": request_mark,
    }
    return to_json(body)


_OPTIONAL_KEYS = {
    **{name: name for name in ("masked", "outputs_before", "pinned", "retold", "recalls")},
    "held": "min_rewrite_size",
    "held_back": "excluded_tools",
}
"""Keys that snapshots of earlier versions may lack, and the `Conversation` fields that they set."""


def decode_snapshot(text: str) -> tuple[int, Conversation] | None:
    """Return the position of the first message shown, and the view without its messages; None if the snapshot cannot be
    read."""
    try:
        body = json.loads(text)
        start, summary = parse_count(body["start"]), _decode_summary(body["summary"])
        fields = {"anchor": body["anchor"] or None, "anchored": body["anchored"]}
        fields |= {field: body[key] for key, field in _OPTIONAL_KEYS.items() if key in body}
        return start, from_json(Conversation, fields, messages=(), summary=summary, messages_before=start)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def decode_request_mark(text: str) -> RequestRecord | None:
    """Return the last request recorded in a snapshot; None if there is none or it cannot be read."""
    try:
        request_mark = json.loads(text).get("sent")
        return from_json(RequestRecord, request_mark) if request_mark else None
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
        "kept": [_encode_carried_part(pinned) for pinned in summary.pinned],
        "carried": [_encode_carried_part(carried) for carried in summary.carried],
        "names": summary.names,
    }


def _encode_carried_part(carried: CarriedPart) -> list[object]:
    return [carried.key, carried.what, carried.ref, [encode_part(part) for part in carried.parts]]


def _decode_summary(body: str | Mapping[str, Any]) -> Summary:
    """Return the summary in a snapshot. The first version stored it as a plain string."""
    if isinstance(body, str):
        return Summary(summary=body)
    # Snapshots of earlier versions have no names, and no facts apart from those in the ledger.
    fields = {"facts": "", "names": "", **body, **{name: body[name] for name in ("retain", "summary", "ledger")}}
    request = User(cast(tuple[UserPart, ...], tuple(map(decode_part, fields.pop("request")))))
    pinned, carried = (
        tuple(_decode_carried_part(*part_fields) for part_fields in fields.pop(name, ()))
        for name in ("kept", "carried")
    )
    return from_json(Summary, fields, request=request, pinned=pinned, carried=carried)


def _decode_carried_part(key: str, *fields: Any) -> CarriedPart:  # noqa: ANN401 - texts, followed by parts
    *texts, body = fields
    parts = tuple(map(decode_part, body))
    if not all(isinstance(part, Text | Image) for part in parts):
        raise ValueError("pinned content consists of texts and images")
    return from_json(CarriedPart, [key, *(texts if len(texts) > 1 else split_title(*texts))], parts=parts)


def output_rows(
    message: User, position: int, output_count_before: int, tool_names: Mapping[str, str]
) -> list[OutputRow]:
    """Build the rows for the outputs of a message: one for each output, followed by rows for its images and its files.
    `output_count_before`: how many outputs the session already had. `tool_names`: the tool name of each call."""
    rows = []
    for number, output in enumerate(message.outputs, output_count_before + 1):
        tool = tool_names.get(output.call_id, "")
        blob = output.stored or inline_blob(output)
        digest = blob.digest or None
        rows.append(OutputRow(number, 0, position, output.call_id, tool, blob.size, blob.lines, "text/plain", digest))
        images = [(decoded_size(image.data), image.media_type, image.digest) for image in output.images]
        blobs = [(stored.size, stored.media_type, stored.digest) for stored in (*output.pictures, *output.files)]
        for part, (size, media_type, image_digest) in enumerate([*images, *blobs], 1):
            rows.append(
                OutputRow(number, part, position, output.call_id, tool, size, 0, media_type, image_digest or None)
            )
    return rows


def blob_digests(message: Message) -> tuple[str, ...]:
    """Return the digests of the blobs that a message refers to."""
    outputs = message.outputs if isinstance(message, User) else ()
    blob_groups = [(output.stored, *output.images, *output.pictures, *output.files) for output in outputs]
    return tuple(item.digest for group in blob_groups for item in group if item is not None and item.digest)


def legacy_output_files(row: MessageRow) -> dict[tuple[int, str], str]:
    """Return the files in which earlier versions stored complete outputs, by message position and call id."""
    if '"whole"' not in row.body:
        return {}
    message = decode_message(row)
    outputs = message.outputs if isinstance(message, User) else ()
    return {(row.position, output.call_id): output.whole for output in outputs if output.whole is not None}


def body_without_files(row: MessageRow) -> str:
    """Return the JSON body of a message, without the references to output files that earlier versions stored."""
    if not legacy_output_files(row):
        return row.body
    body = json.loads(row.body)
    body["parts"] = [{name: value for name, value in part.items() if name != "whole"} for part in body["parts"]]
    return to_json(body)


def decoded_size(data: str) -> int:
    """Return the size of base64 data when decoded, in bytes."""
    return len(data) * 3 // 4 - data.count("=", -2)


def inline_blob(output: ToolOutput) -> StoredBlob:
    """Return the size and line count of an output that is stored completely in its message."""
    data = output.text.encode("utf-8", "surrogatepass")
    return StoredBlob("", len(data), data.count(b"\n") + (bool(data) and not data.endswith(b"\n")))


def encode_summary_row(summary: Summary, number: int, position: int) -> SummaryRow:
    return SummaryRow(number, position, to_json(_encode_summary(summary)))


def decode_summary_row(row: SummaryRow) -> Summary:
    """Decode the summary in a row. Raises `StoreFailed` if it is not valid."""
    try:
        return _decode_summary(json.loads(row.body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreFailed(f"summary {row.number} of the session cannot be read: {error}", "corrupt") from error


def state_changes(
    old_state: SessionState, new_state: SessionState
) -> tuple[tuple[FactRow, ...], tuple[tuple[str, str], ...]]:
    """Return the rows to write and the keys (kind, key) of the rows to delete, so that the stored `old_state` becomes
    `new_state`."""
    if old_state == new_state:
        return (), ()
    facts = [
        FactRow("seen", _path_key(path), digest)
        for path, digest in new_state.seen_digests.items()
        if old_state.seen_digests.get(path) != digest
    ]
    facts += [
        FactRow("job", job_id, command)
        for job_id, command in new_state.running_jobs.items()
        if old_state.running_jobs.get(job_id) != command
    ]
    facts += [
        FactRow("ended job", job_id, json.dumps([job.command, job.outcome, *job.last_lines]))
        for job_id, job in new_state.ended_jobs.items()
        if old_state.ended_jobs.get(job_id) != job
    ]
    if new_state.todos != old_state.todos:
        items = [[item.text, item.status] for item in new_state.todos]
        facts.append(FactRow("todos", "", json.dumps(items)))
    if new_state.notes != old_state.notes:
        facts.append(FactRow("notes", "", json.dumps(new_state.notes)))
    deleted = [("seen", _path_key(path)) for path in old_state.seen_digests.keys() - new_state.seen_digests.keys()]
    deleted += [("job", job_id) for job_id in old_state.running_jobs.keys() - new_state.running_jobs.keys()]
    deleted += [("ended job", job_id) for job_id in old_state.ended_jobs.keys() - new_state.ended_jobs.keys()]
    return tuple(facts), tuple(deleted)


def _path_key(path: Path) -> str:
    """Encode a path as a database key. A path that is not valid Unicode is stored as JSON; the opening quotation mark
    distinguishes it from an absolute path."""
    text = str(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return text


def _path_from_key(key: str) -> Path:
    return Path(str(json.loads(key)) if key.startswith('"') else key)


def decode_session_state(rows: Iterable[FactRow]) -> SessionState:
    """Build the session state from its rows, skipping any that cannot be read."""
    todos: tuple[TodoItem, ...] = ()
    notes = ""
    seen_digests: dict[Path, str] = {}
    jobs: dict[str, str] = {}
    ended_jobs: dict[str, EndedJob] = {}
    for row in rows:
        with suppress(ValueError, TypeError):
            match row.kind:
                case "seen":
                    seen_digests[_path_from_key(row.key)] = row.body
                case "job":
                    jobs[row.key] = row.body
                case "ended job":
                    command, outcome, *lines = map(str, json.loads(row.body))
                    ended_jobs[row.key] = EndedJob(row.key, command, outcome, tuple(lines))
                case "todos":
                    todos = tuple(TodoItem(str(text), str(status)) for text, status in json.loads(row.body))
                case "notes":
                    notes = str(json.loads(row.body))
                case _:
                    pass  # a later version wrote the row
    return SessionState(todos, notes, seen_digests, jobs, ended_jobs)
