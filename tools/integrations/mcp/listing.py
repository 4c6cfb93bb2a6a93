"""Validates the lists that a server offers. Names and schemas must be usable, and descriptions free of control
sequences. All text is treated only as data."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableSequence, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

import mcp_types as types
from pydantic import ValidationError

from ebbtide.tools.base import ToolError
from ebbtide.tools.call_arguments.schema import schema_problem
from ebbtide.tools.integrations.mcp.input_schema import iter_schema_texts, portable_schema
from ebbtide.tools.integrations.mcp.offers import (
    INSTRUCTIONS_NAME,
    Caller,
    McpPrompt,
    McpResource,
    McpTool,
    PromptArgument,
)
from ebbtide.tools.integrations.mcp.repairs import MAX_LIST_ENTRIES, first_error_text
from ebbtide.tools.integrations.mcp.spec import ServerSpec, shorten_name
from ebbtide.tools.integrations.mcp.texts import clean_text, has_hidden_chars, one_line
from ebbtide.tools.outputs.extent import truncate

MAX_DESCRIPTION_CHARS = 4096
"""Maximum number of characters of a description shown to the model."""
MAX_SCHEMA_BYTES = 100_000
"""Maximum size of a schema as JSON, in bytes. A much larger one would not fit into a small context window."""
_MAX_PAGES = 100
_MAX_NAME_CHARS = 64
"""Maximum tool name length that providers allow."""

_MODEL_INSTRUCTIONS = re.compile(
    r"<(important|system)\b|\b(ignore|disregard|forget)\b.{0,40}\b(instructions?|prompts?|rules)\b"
    r"|\b(do not|don't|never|without)\b.{0,20}\b(tell|inform|mention|telling|informing|mentioning)\b.{0,20}\buser\b"
    r"|\bbefore (using|calling) (this|any)( other)? tools?\b",
    re.IGNORECASE | re.DOTALL,
)


class _ListPage(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


PageT = TypeVar("PageT", bound=_ListPage)
EntryT = TypeVar("EntryT")


async def fetch_all_pages(
    fetch: "Callable[[str | None], Awaitable[PageT]]",
    get_entries: Callable[[PageT], Sequence[EntryT]],
    omissions: MutableSequence[str],
) -> list[EntryT]:
    """Fetch all pages of a list and return their entries, up to a limit. If entries are omitted, a line that says so is
    added to `omissions`. Raises `ToolError` if a page cannot be read."""
    fetched: list[EntryT] = []
    cursor = None
    seen_cursors = set[str]()
    while len(seen_cursors) < _MAX_PAGES:
        try:
            page = await fetch(cursor)
        except ValidationError as error:
            raise ToolError(f"its list is invalid: {first_error_text(error)}") from error
        fetched += get_entries(page)
        cursor = page.next_cursor
        if len(fetched) > MAX_LIST_ENTRIES:
            omissions.append(f"it lists more than {MAX_LIST_ENTRIES:,} entries of one kind: the others are skipped")
            return fetched[:MAX_LIST_ENTRIES]
        if not cursor or cursor in seen_cursors:
            break
        seen_cursors.add(cursor)
    return fetched


def select_usable_tools(
    listed_tools: Iterable[types.Tool], caller: Caller
) -> tuple[tuple[McpTool, ...], tuple[str, ...]]:
    """Return the usable tools, and a line about each tool that is unusable or needs the user's review."""
    spec = caller.spec
    tools: dict[str, McpTool] = {}
    notes: list[str] = []
    for tool in listed_tools:
        if not _is_enabled(spec, tool.name):
            continue
        name, label = tool_name(spec, tool.name), f"`{one_line(tool.name)}`"
        if name in tools:
            first_name = tools[name].original_name
            reason = "listed twice" if first_name == tool.name else f"named like `{one_line(first_name)}`"
            notes.append(f"{label} is skipped: it is {reason}")
        elif tool.name == INSTRUCTIONS_NAME:
            notes.append(f"{label} is skipped: that is not a valid tool name")
        elif tool.execution is not None and tool.execution.task_support == "required":
            notes.append(f"{label} is skipped: it runs only as an asynchronous task")
        elif problem := input_schema_problem(tool.input_schema):
            notes.append(f"{label} is skipped: {problem}")
        else:
            description = clean_text(tool.description or tool.title or "")
            notes += (f"{label} {note}" for note in _description_warnings(tool.description or "", description))
            notes += (f"{label} {note}" for note in _schema_warnings(tool.input_schema))
            tools[name] = McpTool(
                name,
                tool.name,
                truncate(description, MAX_DESCRIPTION_CHARS),
                portable_schema(tool.input_schema),
                caller,
                tool.input_schema,
            )
    return tuple(tools.values()), tuple(notes)


def tool_name(spec: ServerSpec, original_name: str) -> str:
    """Return the tool's name for the model: `mcp__SERVER__TOOL`, with characters and a length that every provider
    allows."""
    prefix = f"mcp__{spec.prefix}__"
    allowed_name = re.sub(r"[^A-Za-z0-9_-]", "_", original_name) or "_"
    max_chars = _MAX_NAME_CHARS - len(prefix)
    if not original_name.isascii():  # replacing other characters could make all names equal
        ascii_name = allowed_name.strip("_") or "tool"
        return prefix + shorten_name(ascii_name, original_name, min(max_chars, len(ascii_name) + 7))
    return prefix + (
        allowed_name if len(allowed_name) <= max_chars else shorten_name(allowed_name, original_name, max_chars)
    )


def input_schema_problem(schema: Mapping[str, object]) -> str:
    """Explain why a provider would reject the schema, or why arguments cannot be validated. Empty if the schema is
    usable."""
    try:
        byte_count = len(json.dumps(schema, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        portable = portable_schema(schema)
    except (ValueError, RecursionError):
        return "its schema is not JSON"
    if byte_count > MAX_SCHEMA_BYTES:
        return f"its schema has {byte_count:,} bytes, more than the {MAX_SCHEMA_BYTES:,} allowed"
    if portable.get("type") != "object":
        return "its schema does not describe an object"
    problem = schema_problem(portable)
    return f"its schema is not valid: {one_line(problem)}" if problem else ""


def parse_resource(listed: types.Resource | types.ResourceTemplate) -> McpResource:
    uri, size = (listed.uri, listed.size) if isinstance(listed, types.Resource) else (listed.uri_template, None)
    return McpResource(
        uri, one_line(listed.title or listed.name), clean_text(listed.description or ""), listed.mime_type or "", size
    )


def usable_prompts(spec: ServerSpec, listed_prompts: Iterable[types.Prompt]) -> tuple[McpPrompt, ...]:
    """Return the prompts, but only one for each name."""
    prompts: dict[str, McpPrompt] = {}
    for listed in listed_prompts:
        arguments = tuple(
            PromptArgument(argument.name, clean_text(argument.description or ""), bool(argument.required))
            for argument in listed.arguments or ()
        )
        command = f"mcp__{spec.prefix}__{re.sub(r'[^A-Za-z0-9_-]', '_', listed.name)}"
        description = clean_text(listed.description or listed.title or "")
        prompts.setdefault(listed.name, McpPrompt(command, listed.name, description, arguments))
    return tuple(prompts.values())


def _is_enabled(spec: ServerSpec, name: str) -> bool:
    is_enabled = spec.enabled_tools is None or any(fnmatchcase(name, pattern) for pattern in spec.enabled_tools)
    return is_enabled and not any(fnmatchcase(name, pattern) for pattern in spec.disabled_tools)


def _description_warnings(raw: str, cleaned: str) -> Iterable[str]:
    if has_hidden_chars(raw):
        yield "has hidden characters or terminal codes in its description; they are removed"
    if len(cleaned) > MAX_DESCRIPTION_CHARS:
        yield f"has a description of {len(cleaned):,} characters, of which {MAX_DESCRIPTION_CHARS:,} are shown"
    yield from _instruction_warnings("a description", cleaned)


def _schema_warnings(schema: Mapping[str, object]) -> Iterable[str]:
    """Yield warnings about suspicious text in a schema, because models read all of it."""
    texts = "\n".join(f"{path}\n{text}" for path, text in iter_schema_texts(schema))
    if has_hidden_chars(texts):
        yield "has hidden characters or terminal codes in its schema; look at it before you allow it"
    yield from _instruction_warnings("a schema", clean_text(texts))


def _instruction_warnings(source: str, text: str) -> Iterable[str]:
    if match := _MODEL_INSTRUCTIONS.search(text):
        yield f"has {source} that gives the model instructions (“{one_line(match[0])}”); look at it before you allow it"
