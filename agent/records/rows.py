"""Messages, views and situations as rows, and back."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from agent.context.budget import Window
from agent.context.control_calls import TodoItem
from agent.context.last_request import Mark
from agent.context.truncation import decode_record
from agent.errors import StoreFailed
from agent.messages import (
    CallState,
    Conversation,
    Image,
    Kept,
    Message,
    Retold,
    Stored,
    Summary,
    Text,
    ToolOutput,
    Usage,
    User,
    UserPart,
)
from agent.records.message_rows import FORMS, as_json, count, decode_message, decode_part, encode_part
from agent.records.situation import Situation
from store.outputs import OutputRow, SummaryRow
from store.sessions import FactRow, MessageRow


def encode_call_state(state: CallState) -> str:
    return as_json({"output": encode_part(state)} if isinstance(state, ToolOutput) else {"state": state})


def decode_call_state(text: str) -> CallState | None:
    """How far a call had come; None when that cannot be read."""
    try:
        body = json.loads(text)
        if "output" in body:
            part = decode_part(body["output"])
            return part if isinstance(part, ToolOutput) else None
        state: CallState | None = next((name for name in ("waiting", "asked", "begun") if name == body["state"]), None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return state


def encode_snapshot(conversation: Conversation, position: int, mark: Mark | None = None) -> str:
    """The view as JSON: it names the first message it still shows instead of repeating the messages. `mark`: the last
    request."""
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
        "anchor": asdict(conversation.anchor) if conversation.anchor else None,
        "anchored": conversation.anchored,
        "sent": asdict(mark) if mark else None,
    }
    return as_json(body)


def decode_snapshot(text: str) -> tuple[int, Conversation] | None:
    """The position of the first message shown, and the view without its messages; None when it cannot be read."""
    try:
        body = json.loads(text)
        counts = {name: count(value) for name, value in (body["anchor"] or {}).items()}
        anchor = Usage(**counts) if counts else None
        masked = frozenset(str(id) for id in body.get("masked", ()))
        before = count(body.get("outputs_before", 0))
        start = count(body["start"])
        shown = Conversation(
            (),
            _decode_summary(body["summary"]),
            anchor,
            count(body["anchored"]),
            masked,
            before,
            count(body.get("held", 0)),
            start,
            frozenset(str(key) for key in body.get("pinned", ())),
            tuple(_decode_retold(*one) for one in body.get("retold", ())),
            frozenset(str(name) for name in body.get("held_back", ())),
        )
        return start, shown
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _decode_retold(key: object, form: object, text: object, pictures: object = 0) -> Retold:
    for known in FORMS:
        if form == known and isinstance(key, str) and isinstance(text, str):
            return Retold(key, known, text, count(pictures))
    raise ValueError(f"{form!r} is no form")


def decode_mark(text: str) -> Mark | None:
    """The last request that a snapshot remembers; None when it remembers none, or cannot be read."""
    try:
        found = json.loads(text).get("sent")
        return _decode_mark(found) if found else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _decode_mark(found: Mapping[str, Any]) -> Mark:
    window = found.get("window")
    if window is not None:
        sources = tuple((name, source) for name, source in window["sources"])
        window = Window(**{**window, "sources": sources, "notices": tuple(window["notices"])})
    record = decode_record(found["record"]) if found.get("record") else None
    held_back = tuple(found.get("held_back", (0, 0)))
    return Mark(**{**found, "window": window, "held_back": held_back, "record": record})


def _encode_summary(summary: Summary) -> dict[str, object]:
    request = [encode_part(part) for part in summary.request.parts]
    return {
        "retain": summary.retain,
        "summary": summary.summary,
        "ledger": summary.ledger,
        "request": request,
        "facts": summary.facts,
        "kept": [[one.key, one.title, [encode_part(part) for part in one.parts]] for one in summary.kept],
    }


def _decode_summary(body: object) -> Summary:
    """The summary in a snapshot. Those of the first version were one text."""
    if isinstance(body, str):
        return Summary(summary=body)
    fields = cast(Mapping[str, Any], body)
    request = User(cast(tuple[UserPart, ...], tuple(decode_part(part) for part in fields["request"])))
    # A snapshot of an earlier version holds no more facts than its ledger shows.
    texts = [fields["retain"], fields["summary"], fields["ledger"], fields.get("facts", "")]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a summary is made of texts")
    retain, summary, ledger, facts = texts
    return Summary(retain, summary, ledger, request, facts, tuple(_decode_kept(*one) for one in fields.get("kept", ())))


def _decode_kept(key: object, title: object, body: Iterable[Mapping[str, Any]]) -> Kept:
    parts = tuple(decode_part(part) for part in body)
    if not isinstance(key, str) or not isinstance(title, str) or not all(isinstance(p, Text | Image) for p in parts):
        raise ValueError("what is pinned has a name and shows texts and pictures")
    return Kept(key, title, cast(tuple[Text | Image, ...], parts))


def output_rows(message: User, position: int, before: int, tools: Mapping[str, str]) -> list[OutputRow]:
    """A row for each output of a message, one for each of its pictures and then one for each of its files. `before`:
    outputs that the session had; `tools`: what each call called."""
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
    """The digests of the bytes that a message names."""
    outputs = message.outputs if isinstance(message, User) else ()
    named = [(output.stored, *output.images, *output.pictures, *output.files) for output in outputs]
    return tuple(one.digest for some in named for one in some if one is not None and one.digest)


def whole_files(row: MessageRow) -> dict[tuple[int, str], str]:
    """The files in which earlier versions kept outputs of a message, by its position and the call."""
    if '"whole"' not in row.body:
        return {}
    message = decode_message(row)
    outputs = message.outputs if isinstance(message, User) else ()
    return {(row.position, output.call_id): output.whole for output in outputs if output.whole is not None}


def plain_body(row: MessageRow) -> str:
    """The body of a message that names no files for its outputs."""
    if not whole_files(row):
        return row.body
    body = json.loads(row.body)
    body["parts"] = [{name: value for name, value in part.items() if name != "whole"} for part in body["parts"]]
    return as_json(body)


def decoded_size(data: str) -> int:
    """Bytes that stand for base64."""
    return len(data) * 3 // 4 - data.count("=", -2)


def in_message(output: ToolOutput) -> Stored:
    """The size of an output that stands whole in its message."""
    data = output.text.encode("utf-8", "surrogatepass")
    return Stored("", len(data), data.count(b"\n") + (bool(data) and not data.endswith(b"\n")))


def summary_row(summary: Summary, number: int, position: int) -> SummaryRow:
    return SummaryRow(number, position, as_json(_encode_summary(summary)))


def read_summary(row: SummaryRow) -> Summary:
    """Raises `StoreFailed` when the row is none."""
    try:
        return _decode_summary(json.loads(row.body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreFailed(f"summary {row.number} of the session cannot be read: {error}", "corrupt") from error


def changes_of(before: Situation, after: Situation) -> tuple[tuple[FactRow, ...], tuple[tuple[str, str], ...]]:
    """The rows that make one situation another, and kind and key of those that go."""
    if before == after:
        return (), ()
    facts = [
        FactRow("seen", _path_key(path), digest)
        for path, digest in after.seen.items()
        if before.seen.get(path) != digest
    ]
    facts += [FactRow("job", id, command) for id, command in after.jobs.items() if before.jobs.get(id) != command]
    if after.todos != before.todos:
        items = [[item.text, item.status] for item in after.todos]
        facts.append(FactRow("todos", "", json.dumps(items)))
    if after.notes != before.notes:
        facts.append(FactRow("notes", "", json.dumps(after.notes)))
    over = [("seen", _path_key(path)) for path in before.seen.keys() - after.seen.keys()]
    over += [("job", id) for id in before.jobs.keys() - after.jobs.keys()]
    return tuple(facts), tuple(over)


def _path_key(path: Path) -> str:
    """A path as a database takes it: one whose bytes are no text is written as JSON, which no whole path looks like."""
    text = str(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return text


def _keyed_path(key: str) -> Path:
    return Path(str(json.loads(key)) if key.startswith('"') else key)


def decode_situation(rows: Iterable[FactRow]) -> Situation:
    """The situation that the rows tell of; what cannot be read is left out."""
    todos: tuple[TodoItem, ...] = ()
    notes = ""
    seen: dict[Path, str] = {}
    jobs: dict[str, str] = {}
    for row in rows:
        with suppress(ValueError, TypeError):
            match row.kind:
                case "seen":
                    seen[_keyed_path(row.key)] = row.body
                case "job":
                    jobs[row.key] = row.body
                case "todos":
                    todos = tuple(TodoItem(str(text), str(status)) for text, status in json.loads(row.body))
                case "notes":
                    notes = str(json.loads(row.body))
                case _:
                    pass  # a later version's
    return Situation(todos, notes, seen, jobs)
