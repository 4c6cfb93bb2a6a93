"""Validates the lists that a server offers: names, descriptions without control sequences, usable schemas. Their text
is only data here."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableSequence, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

import mcp_types as types
from pydantic import ValidationError

from ebbtide.tools.base import ToolError
from ebbtide.tools.mcp.input_schema import portable, words_in
from ebbtide.tools.mcp.offers import INSTRUCTIONS, Caller, McpTool, PromptArgument, Resource, ServerPrompt
from ebbtide.tools.mcp.repairs import MAX_ENTRIES, first_fault
from ebbtide.tools.mcp.spec import ServerSpec, shorten_name
from ebbtide.tools.mcp.texts import clean, hides, one_line
from ebbtide.tools.outputs.extent import truncate
from ebbtide.tools.schema import fault

MAX_DESCRIPTION_CHARS = 4096
"""Maximum number of characters of a description shown to the model."""
MAX_SCHEMA_BYTES = 100_000
"""Maximum size of a schema as JSON, in bytes: about what fits in a small context window."""
_MAX_PAGES = 100
_MAX_NAME_CHARS = 64
"""Maximum length of a tool name, as providers allow."""

_ORDERS = re.compile(
    r"<(important|system)\b|\b(ignore|disregard|forget)\b.{0,40}\b(instructions?|prompts?|rules)\b"
    r"|\b(do not|don't|never|without)\b.{0,20}\b(tell|inform|mention|telling|informing|mentioning)\b.{0,20}\buser\b"
    r"|\bbefore (using|calling) (this|any)( other)? tools?\b",
    re.IGNORECASE | re.DOTALL,
)


class _ListPage(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


P = TypeVar("P", bound=_ListPage)
T = TypeVar("T")


async def all_listed(
    fetch: "Callable[[str | None], Awaitable[P]]",
    entries: Callable[[P], Sequence[T]],
    left_out: MutableSequence[str],
) -> list[T]:
    """Return the entries of all pages of a list, up to a limit. Omissions are noted in `left_out`. Raises `ToolError`
    if a page cannot be read."""
    listed: list[T] = []
    cursor, seen = None, set[str]()
    while len(seen) < _MAX_PAGES:
        try:
            page = await fetch(cursor)
        except ValidationError as error:
            raise ToolError(f"it lists something unknown to the protocol: {first_fault(error)}") from error
        listed += entries(page)
        cursor = page.next_cursor
        if len(listed) > MAX_ENTRIES:
            left_out.append(f"it lists more than {MAX_ENTRIES:,} of a kind: the others are left out")
            return listed[:MAX_ENTRIES]
        if not cursor or cursor in seen:
            break
        seen.add(cursor)
    return listed


def tools_of(listed: Iterable[types.Tool], caller: Caller) -> tuple[tuple[McpTool, ...], tuple[str, ...]]:
    """Return the usable tools, and a line for each that is unusable or that the user should review."""
    spec = caller.spec
    tools: dict[str, McpTool] = {}
    notes: list[str] = []
    for tool in listed:
        if not _is_wanted(spec, tool.name):
            continue
        name, called = tool_name(spec, tool.name), f"`{one_line(tool.name)}`"
        if name in tools:
            other = tools[name].original
            why = "listed twice" if other == tool.name else f"named like `{one_line(other)}`"
            notes.append(f"{called} is left out: it is {why}")
        elif tool.name == INSTRUCTIONS:
            notes.append(f"{called} is left out: that is not a valid tool name")
        elif tool.execution is not None and tool.execution.task_support == "required":
            notes.append(f"{called} is left out: it runs only as an asynchronous task")
        elif problem := schema_fault(tool.input_schema):
            notes.append(f"{called} is left out: {problem}")
        else:
            description = clean(tool.description or tool.title or "")
            notes += (f"{called} {note}" for note in _remarkable(tool.description or "", description))
            notes += (f"{called} {note}" for note in _remarkable_words(tool.input_schema))
            tools[name] = McpTool(
                name,
                tool.name,
                truncate(description, MAX_DESCRIPTION_CHARS),
                portable(tool.input_schema),
                caller,
                tool.input_schema,
            )
    return tuple(tools.values()), tuple(notes)


def tool_name(spec: ServerSpec, original: str) -> str:
    """Return the tool's name for the model: `mcp__SERVER__TOOL`, with characters and length that every provider
    allows."""
    start = f"mcp__{spec.prefix}__"
    own = re.sub(r"[^A-Za-z0-9_-]", "_", original) or "_"
    room = _MAX_NAME_CHARS - len(start)
    if not original.isascii():  # in many languages, nothing would be left to distinguish names
        plain = own.strip("_") or "tool"
        return start + shorten_name(plain, original, min(room, len(plain) + 7))
    return start + (own if len(own) <= room else shorten_name(own, original, room))


def schema_fault(schema: Mapping[str, object]) -> str:
    """Return why no provider accepts the schema or arguments cannot be validated, or an empty string."""
    try:
        size = len(json.dumps(schema, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        sent = portable(schema)
    except (ValueError, RecursionError):
        return "its schema is not JSON"
    if size > MAX_SCHEMA_BYTES:
        return f"its schema has {size:,} bytes, more than the {MAX_SCHEMA_BYTES:,} allowed"
    if sent.get("type") != "object":
        return "its schema is not that of an object"
    problem = fault(sent)
    return f"its schema is not valid: {one_line(problem)}" if problem else ""


def resource_of(each: types.Resource | types.ResourceTemplate) -> Resource:
    address, size = (each.uri, each.size) if isinstance(each, types.Resource) else (each.uri_template, None)
    return Resource(
        address, one_line(each.title or each.name), clean(each.description or ""), each.mime_type or "", size
    )


def prompts_of(spec: ServerSpec, listed: Iterable[types.Prompt]) -> tuple[ServerPrompt, ...]:
    """Return the prompts, without duplicate names."""
    prompts: dict[str, ServerPrompt] = {}
    for each in listed:
        arguments = tuple(
            PromptArgument(given.name, clean(given.description or ""), bool(given.required))
            for given in each.arguments or ()
        )
        command = f"mcp__{spec.prefix}__{re.sub(r'[^A-Za-z0-9_-]', '_', each.name)}"
        description = clean(each.description or each.title or "")
        prompts.setdefault(each.name, ServerPrompt(command, each.name, description, arguments))
    return tuple(prompts.values())


def _is_wanted(spec: ServerSpec, name: str) -> bool:
    is_enabled = spec.enabled_tools is None or any(fnmatchcase(name, each) for each in spec.enabled_tools)
    return is_enabled and not any(fnmatchcase(name, each) for each in spec.disabled_tools)


def _remarkable(raw: str, cleaned: str) -> Iterable[str]:
    if hides(raw):
        yield "has hidden characters or terminal codes in its description; they are left out"
    if len(cleaned) > MAX_DESCRIPTION_CHARS:
        yield f"has a description of {len(cleaned):,} characters, of which {MAX_DESCRIPTION_CHARS:,} are shown"
    yield from _orders("a description", cleaned)


def _remarkable_words(schema: Mapping[str, object]) -> Iterable[str]:
    """Models read the whole schema."""
    words = "\n".join(f"{where}\n{said}" for where, said in words_in(schema))
    if hides(words):
        yield "has hidden characters or terminal codes in its schema; look at it before you allow it"
    yield from _orders("a schema", clean(words))


def _orders(what: str, words: str) -> Iterable[str]:
    if orders := _ORDERS.search(words):
        yield f"has {what} that gives the model instructions (“{one_line(orders[0])}”); look at it before you allow it"
