"""The `recall` tool: retrieves what was said, seen or done earlier, by reference or by search."""

import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import get_args

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.pictures import PICTURE_TYPES
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.cap import Cap, cap_of
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.outputs.plain_text import plain, printable
from ebbtide.tools.outputs.recall_scope import SCOPES, Scope
from ebbtide.tools.outputs.recalled import KINDS, RecalledItem, RecalledKind, RecallQuery, RecallResult
from ebbtide.tools.outputs.stored import StoredContent
from ebbtide.tools.read_result import (
    Onward,
    byte_range,
    lines_of,
    matches,
    medium_of,
    numbered_lines,
    picture_of,
    run_shielded,
    with_pictures_named,
)
from ebbtide.tools.schema import number, object_of, text

MAX_TOKENS = 2000
MAX_HITS = 20
MAX_PATHS, MAX_PATH_CHARS = 2, 60
"""Maximum number of paths shown, and characters of each."""
MIN_PROGRESS_MESSAGES = 2000
"""Number of messages from which progress of indexing is shown."""

_CUT_NOTE = regex(r"… \[cut: [\d,]+ bytes; continue at ref_id=\"[^\"]+\"\]$", re.MULTILINE)
"""End of a line that was cut."""
_ONWARD = Onward("search", "bytes")
_AGO = regex(r"(\d{1,6})\s*(s|m|min|h|d|w)[a-z]*(?:\s+ago)?", re.IGNORECASE)
_ROUND = str.maketrans("[]", "()")
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Recall:
    name = "recall"
    description = read_description(__file__)
    effect: Effect = "none"
    schema = object_of(
        {
            "ref_id": {"type": "string"},
            "query": {"type": "string"},
            "lines": {"type": "string"},
            "search": {"type": "string"},
            "max_tokens": {"type": "integer", "minimum": 1},
            "scope": {"enum": list(SCOPES)},
            "kind": {"enum": list(KINDS)},
            "tool": {"type": "string"},
            "path": {"type": "string"},
            "since": {"type": "string"},
            "until": {"type": "string"},
        },
        required=(),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        cap = cap_of(number(arguments, "max_tokens", MAX_TOKENS), workspace.measure)
        ref = text(arguments, "ref_id", "")
        if ref:
            return await self._by_reference(ref, arguments, workspace, cap)
        memory = await workspace.look_up(_recall_query(arguments, time.time()), _progress_reporter(workspace.progress))
        return Result(render_results(memory, cap))

    async def _by_reference(self, ref: str, arguments: Arguments, workspace: Workspace, cap: Cap) -> Result:
        wanted = lines_of(text(arguments, "lines", ""))
        found = await workspace.fetch(ref, _scope(arguments))
        with closing(found.content):
            result = with_pictures_named(await _requested_part(found, arguments, wanted, cap), found)
            return replace(result, text=f"{result.text}\n{_facts_line(found, result, workspace.measure)}")


async def _requested_part(
    found: StoredContent, arguments: Arguments, wanted: tuple[int, int] | None, cap: Cap
) -> Result:
    if "search" in arguments:
        return await matches(found, _pattern(text(arguments, "search")), (2, 2), wanted, cap, onward=_ONWARD)
    if found.media_type in PICTURE_TYPES:
        return await run_shielded(lambda: picture_of(found))
    if not (wanted or found.lines or found.media_type.startswith("text/")):
        return await run_shielded(lambda: medium_of(found, _ONWARD))
    if found.span is not None and not wanted:
        start, end = found.span
        return await run_shielded(lambda: byte_range(found, start, end - start, cap, _ONWARD))
    first, last = wanted or found.lines or (1, 10**18)
    return await run_shielded(lambda: numbered_lines(found, first, last, cap, _ONWARD))


def _facts_line(found: StoredContent, result: Result, measure: Callable[[str], int]) -> str:
    """Return a summary of the result: its kind, its files, whether it is complete, its tokens, and earlier lookups."""
    facts = [_bracket_safe(found.kind or found.media_type)]
    if found.paths:
        facts.append(
            f"paths: {join_limited([_bracket_safe(path)[-MAX_PATH_CHARS:] for path in found.paths], MAX_PATHS)}"
        )
    is_all = (result.extent is None or result.extent.is_all) and not _CUT_NOTE.search(result.text)
    facts.append(f"truncated: {'no' if is_all else 'yes'}")
    facts.append(f"tokens: {measure(result.text):,}")
    if found.accesses and found.accessed is not None:
        last = datetime.fromtimestamp(found.accessed).strftime("%Y-%m-%d %H:%M")
        times = "once" if found.accesses == 1 else f"{found.accesses} times"
        facts.append(f"looked up {times} before, last {last}")
    return f"[recall:{found.ref} – {'; '.join(facts)}]"


def _bracket_safe(name: str) -> str:
    """Return an untrusted name without square brackets, for use within ours."""
    return printable(name).translate(_ROUND)


def _progress_reporter(progress: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return a callback that occasionally reports indexing progress."""
    last = 0

    def told(done: int, total: int) -> None:
        nonlocal last
        last = min(last, done)  # a second indexing may follow the first
        if total > MIN_PROGRESS_MESSAGES and (done - last >= MIN_PROGRESS_MESSAGES or done == total):
            last = done
            progress(f"indexed {done:,} of {total:,} messages\n")

    return told


def render_results(memory: RecallResult, cap: Cap) -> str:
    """Return the search results that fit, but at least part of the best one."""
    entries = [_entry(one) for one in memory.found]
    fitting = max(cap.fitting(entries), min(len(entries), 1))
    best = [max(cap.truncate(_entry(one)), f"[recall:{one.ref}]", key=len) for one in memory.found[:1]]
    parts = [*(f"({told})" for told in memory.notes), *best, *entries[1:fitting]]
    if fitting < len(entries):
        parts.append(f"({len(entries) - fitting} more: narrow the query, or raise `max_tokens`)")
    if not entries:
        parts.append("nothing was found: try other words, or fewer filters")
    return "\n".join(parts)


def _entry(one: RecalledItem) -> str:
    """Return the reference, kind, time, place and reason of one hit."""
    what = f"{one.kind} of {_bracket_safe(one.tool)}" if one.tool else one.kind
    when = datetime.fromtimestamp(one.at).strftime("%Y-%m-%d %H:%M")
    where = f", {_bracket_safe(one.where)}" if one.where else ""
    title = f": {one.title}" if one.title else ""
    part = f" (its first {one.searched:,} of {one.size:,} bytes are searched)" if one.searched else ""
    meant = " (by its meaning)" if one.by_meaning else ""
    body = "".join(f"\n  {line}" for line in plain(one.excerpt).split("\n")) if one.excerpt else ""
    return f"[recall:{one.ref}] {what}, {when}{where}{plain(title)}{meant}{part}{body}"


def _recall_query(arguments: Arguments, now: float) -> RecallQuery:
    query = text(arguments, "query", "")
    if "lines" in arguments:
        raise ToolError("`lines` goes with `ref_id`: name what to read")
    if "search" in arguments and not query:
        query = text(arguments, "search")
    return RecallQuery(
        query,
        tuple(kind for kind in get_args(RecalledKind) if kind == arguments.get("kind")),
        text(arguments, "tool", ""),
        text(arguments, "path", ""),
        moment(text(arguments, "since", ""), now),
        moment(text(arguments, "until", ""), now),
        _scope(arguments),
        MAX_HITS,
    )


def _scope(arguments: Arguments) -> Scope | None:
    return next((scope for scope in SCOPES if scope == arguments.get("scope")), None)


def moment(wanted: str, now: float) -> float | None:
    """Return the Unix time for "90m", "2 days ago", or a date with optional time; None for an empty string."""
    wanted = wanted.strip()
    if not wanted:
        return None
    ago = _AGO.fullmatch(wanted)
    if ago is not None:
        return now - int(ago[1]) * _UNIT_SECONDS[ago[2].lower()]
    try:
        return datetime.fromisoformat(wanted).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise ToolError('a time is written "30m", "1h" or "2d" ago, or "2026-01-31 14:00"') from error


def _pattern(search: str) -> str:
    """Return the regular expression, escaped if it is not valid."""
    try:
        re.compile(search)
    except (re.error, OverflowError, RecursionError):
        return re.escape(search)
    return search
