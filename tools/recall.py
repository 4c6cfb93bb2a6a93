"""The `recall` tool: retrieves what was said, seen or done earlier, by reference or by search."""

import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import get_args

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_number, get_text, object_schema
from ebbtide.tools.files.image_types import IMAGE_TYPES
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.cap import Cap, create_cap
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.outputs.plain_text import printable_name, terminal_text
from ebbtide.tools.outputs.recall_results import RECALLED_KINDS, RecalledItem, RecalledKind, RecallQuery, RecallResult
from ebbtide.tools.outputs.recall_scope import RECALL_SCOPES, RecallScope
from ebbtide.tools.outputs.stored_content import StoredContent
from ebbtide.tools.read_result import (
    ContinuationHint,
    binary_summary,
    build_byte_range_result,
    build_image_result,
    build_matching_lines_result,
    build_numbered_lines_result,
    parse_line_range,
    run_shielded,
    with_attachments_listed,
)
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, first_line, text_argument

DEFAULT_MAX_TOKENS = 2000
MAX_RESULTS = 20
MAX_PATHS, MAX_PATH_CHARS = 2, 60
"""Maximum number of paths shown, and maximum number of characters in each."""

_CUT_NOTE = regex(r"… \[cut: [\d,]+ bytes; continue at ref_id=\"[^\"]+\"\]$", re.MULTILINE)
"""Matches the end of a truncated line."""
_RECALL_HINT = ContinuationHint("search", "bytes")
_RELATIVE_TIME = regex(r"(\d{1,6})\s*(s|m|min|h|d|w)[a-z]*(?:\s+ago)?", re.IGNORECASE)
_BRACKET_REPLACEMENTS = str.maketrans("[]", "()")
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _subject(arguments: Arguments) -> str:
    selection = text_argument(arguments, "search") or text_argument(arguments, "lines")
    filters = (f"{name} {value}" for name, value in arguments.items() if name != "query")
    return (
        f"{text_argument(arguments, 'ref_id')}  {selection}".strip()
        or first_line(text_argument(arguments, "query"))
        or ", ".join(filters)
    )


class Recall:
    name = "recall"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="recall_output",
        output_limit="whole",
        acp_kind="search",
        get_subject=_subject,
        lookup_words=("looked up", "stored output"),
        clamped_arguments=("max_tokens",),
        small_window_policy="always",
        short_form=ShortForm(
            "Retrieves the content of a reference such as r12, or finds what was said.", ("ref_id", "lines", "query")
        ),
        is_for_read_only_agents=True,
    )
    schema = object_schema(
        {
            "ref_id": {"type": "string"},
            "query": {"type": "string"},
            "lines": {"type": "string"},
            "search": {"type": "string"},
            "max_tokens": {"type": "integer", "minimum": 1},
            "scope": {"enum": list(RECALL_SCOPES)},
            "kind": {"enum": list(RECALLED_KINDS)},
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
        cap = create_cap(get_number(arguments, "max_tokens", DEFAULT_MAX_TOKENS), workspace.estimate_tokens)
        ref = get_text(arguments, "ref_id", "")
        if ref:
            return await self._read_reference(ref, arguments, workspace, cap)
        results = await workspace.search_history(_recall_query(arguments, time.time()))
        return Result(render_results(results, cap))

    async def _read_reference(self, ref: str, arguments: Arguments, workspace: Workspace, cap: Cap) -> Result:
        line_range = parse_line_range(get_text(arguments, "lines", ""))
        stored = await workspace.fetch_stored_content(ref, _scope(arguments))
        with closing(stored.content):
            result = with_attachments_listed(await _requested_part(stored, arguments, line_range, cap), stored)
            return replace(result, text=f"{result.text}\n{_facts_line(stored, result, workspace.estimate_tokens)}")


async def _requested_part(
    stored_content: StoredContent, arguments: Arguments, line_range: tuple[int, int] | None, cap: Cap
) -> Result:
    if "search" in arguments:
        return await build_matching_lines_result(
            stored_content, _search_pattern(get_text(arguments, "search")), (2, 2), line_range, cap, hint=_RECALL_HINT
        )
    if stored_content.media_type in IMAGE_TYPES:
        return await run_shielded(lambda: build_image_result(stored_content))
    if not (line_range or stored_content.line_range or stored_content.media_type.startswith("text/")):
        return await run_shielded(lambda: binary_summary(stored_content, _RECALL_HINT))
    if stored_content.byte_range is not None and not line_range:
        start, end = stored_content.byte_range
        return await run_shielded(
            lambda: build_byte_range_result(stored_content, start, end - start, cap, _RECALL_HINT)
        )
    first, last = line_range or stored_content.line_range or (1, 10**18)
    return await run_shielded(lambda: build_numbered_lines_result(stored_content, first, last, cap, _RECALL_HINT))


def _facts_line(stored_content: StoredContent, result: Result, estimate_tokens: Callable[[str], int]) -> str:
    """Summarise the result in a line: its kind, paths, completeness, token count and earlier lookups."""
    facts = [_without_brackets(stored_content.kind or stored_content.media_type)]
    if stored_content.paths:
        paths = [_without_brackets(path)[-MAX_PATH_CHARS:] for path in stored_content.paths]
        facts.append(f"paths: {join_limited(paths, MAX_PATHS)}")
    shows_all = (result.extent is None or result.extent.shows_all) and not _CUT_NOTE.search(result.text)
    facts.append(f"truncated: {'no' if shows_all else 'yes'}")
    facts.append(f"tokens: {estimate_tokens(result.text):,}")
    if stored_content.access_count and stored_content.last_accessed_at is not None:
        last_access = datetime.fromtimestamp(stored_content.last_accessed_at).strftime("%Y-%m-%d %H:%M")
        access_text = "once" if stored_content.access_count == 1 else f"{stored_content.access_count} times"
        facts.append(f"looked up {access_text} before, last {last_access}")
    return f"[recall:{stored_content.ref} – {'; '.join(facts)}]"


def _without_brackets(name: str) -> str:
    """Replace square brackets in an untrusted name, so that it can be put inside square brackets."""
    return printable_name(name).translate(_BRACKET_REPLACEMENTS)


def render_results(results: RecallResult, cap: Cap) -> str:
    """Format as many search results as fit, but at least part of the best one."""
    entries = [_result_text(item) for item in results.items]
    fitting_count = max(cap.count_fitting_lines(entries), min(len(entries), 1))
    best_entries = [
        max(cap.truncate(_result_text(item)), f"[recall:{item.ref}]", key=len) for item in results.items[:1]
    ]
    lines = [*(f"({note})" for note in results.notes), *best_entries, *entries[1:fitting_count]]
    if fitting_count < len(entries):
        lines.append(f"({len(entries) - fitting_count} more: narrow the query, or raise `max_tokens`)")
    if not entries:
        lines.append("nothing was found: try other words, or fewer filters")
    return "\n".join(lines)


def _result_text(item: RecalledItem) -> str:
    """Format a search result: reference, kind, time, origin, title and excerpt."""
    description = f"{item.kind} of {_without_brackets(item.tool)}" if item.tool else item.kind
    time_text = datetime.fromtimestamp(item.at).strftime("%Y-%m-%d %H:%M")
    origin_text = f", {_without_brackets(item.where)}" if item.where else ""
    title = f": {item.title}" if item.title else ""
    searched_note = f" (its first {item.searched:,} of {item.size:,} bytes are searched)" if item.searched else ""
    meaning_note = " (similar meaning)" if item.by_meaning else ""
    body = "".join(f"\n  {line}" for line in terminal_text(item.excerpt).split("\n")) if item.excerpt else ""
    notes = f"{meaning_note}{searched_note}"
    return f"[recall:{item.ref}] {description}, {time_text}{origin_text}{terminal_text(title)}{notes}{body}"


def _recall_query(arguments: Arguments, now: float) -> RecallQuery:
    query = get_text(arguments, "query", "")
    if "lines" in arguments:
        raise ToolError("`lines` requires `ref_id`: give the reference to read")
    if "search" in arguments and not query:
        query = get_text(arguments, "search")
    return RecallQuery(
        query,
        tuple(kind for kind in get_args(RecalledKind) if kind == arguments.get("kind")),
        get_text(arguments, "tool", ""),
        get_text(arguments, "path", ""),
        parse_time(get_text(arguments, "since", ""), now),
        parse_time(get_text(arguments, "until", ""), now),
        _scope(arguments),
        MAX_RESULTS,
    )


def _scope(arguments: Arguments) -> RecallScope | None:
    return next((scope for scope in RECALL_SCOPES if scope == arguments.get("scope")), None)


def parse_time(time_text: str, now: float) -> float | None:
    """Parse a time such as "90m" or "2 days ago", or a date with an optional time, into Unix time. None for an empty
    string. Raises `ToolError`."""
    time_text = time_text.strip()
    if not time_text:
        return None
    relative_match = _RELATIVE_TIME.fullmatch(time_text)
    if relative_match is not None:
        return now - int(relative_match[1]) * _UNIT_SECONDS[relative_match[2].lower()]
    try:
        return datetime.fromisoformat(time_text).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise ToolError('a time must be written as "30m", "1h" or "2d" ago, or "2026-01-31 14:00"') from error


def _search_pattern(search: str) -> str:
    """Return the search as a regular expression, escaped if it is not a valid one."""
    try:
        re.compile(search)
    except (re.error, OverflowError, RecursionError):
        return re.escape(search)
    return search
