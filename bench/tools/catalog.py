"""Five hundred tools of ten fictitious servers, generated from servers.toml. Names, texts and schemas resemble real
ones."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ebbtide.tools.base import Arguments, Effect, Result, Workspace

SERVERS_FILE = Path(__file__).with_name("servers.toml")

VERB_DESCRIPTIONS = {
    "create": "Creates {a} {thing} and returns it.",
    "add": "Adds {a} {thing}.",
    "log": "Records {a} {thing}.",
    "set": "Sets the value of {a} {thing}.",
    "get": "Returns one {thing} with all its details.",
    "list": "Lists {things}, page by page.",
    "search": "Searches {things} by text and returns the best matches.",
    "run": "Runs {a} {thing} and returns what it finds.",
    "update": "Changes the fields of {a} {thing}; those that are not given stay as they are.",
    "rename": "Gives {a} {thing} another name.",
    "delete": "Deletes {a} {thing}. This cannot be undone.",
    "remove": "Removes {a} {thing}.",
    "archive": "Archives {a} {thing}, so that it is read only and out of the way.",
    "upload": "Uploads {a} {thing} from the disk.",
    "download": "Downloads {a} {thing} to the disk.",
}
"""Descriptions by verb."""
CREATING_VERBS = ("create", "add", "log", "set", "upload")
SEARCH_FIELDS = {"list": ("limit#", "page_token", "sort_by"), "search": ("*text", "limit#")}


@dataclass(frozen=True, slots=True)
class CatalogTool:
    """A tool of a server. It does nothing."""

    name: str
    description: str
    schema: Mapping[str, object]
    kind: Literal["skill", "mcp"] = "mcp"
    effect: Effect = "run"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return Result(f"`{self.name}` was called with {len(arguments)} arguments")


def offered_tools() -> tuple[CatalogTool, ...]:
    """Return all tools, by server."""
    servers: dict[str, dict[str, Any]] = tomllib.loads(SERVERS_FILE.read_text(encoding="utf-8"))
    return tuple(
        tool
        for name, server in servers.items()
        for thing in server["things"]
        for tool in _tools_for_thing(name, server, thing)
    )


def _tools_for_thing(server: str, table: Mapping[str, Any], thing: Mapping[str, Any]) -> Iterator[CatalogTool]:
    name: str = thing["name"]
    plural: str = thing.get("plural", _plural(name))
    for verb in thing["does"].split():
        a = "an" if name[0] in "aeiou" else "a"
        text = VERB_DESCRIPTIONS[verb].format(a=a, thing=name, things=plural)
        about = plural if verb in SEARCH_FIELDS else name
        yield _catalog_tool(server, table["style"], verb, about, f"{text} {thing['about']}", _verb_fields(verb, thing))
    for verb, text, fields in thing.get("more", ()):
        about = plural if verb.startswith("list") and not verb.lower().endswith("of") else name
        yield _catalog_tool(server, table["style"], verb, about, f"{text} {thing['about']}", fields.split())


def _verb_fields(verb: str, thing: Mapping[str, Any]) -> Sequence[str]:
    fields: list[str] = thing["fields"]
    if verb in CREATING_VERBS:
        return fields
    if verb in SEARCH_FIELDS:
        return [*SEARCH_FIELDS[verb], *(field.removeprefix("*") for field in fields[:2])]
    changed = [field.removeprefix("*") for field in fields] if verb == "update" else []
    return [f"*{thing['key']}", *(["*new_name"] if verb == "rename" else []), *changed]


def _catalog_tool(server: str, style: str, verb: str, thing: str, text: str, fields: Sequence[str]) -> CatalogTool:
    properties = dict(_parameter(field) for field in dict.fromkeys(fields))
    required = [field[1:].rstrip("#?[]").partition(":")[0] for field in fields if field.startswith("*")]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return CatalogTool(f"mcp__{server}__{_tool_name(style, verb, thing)}", text, schema)


def _tool_name(style: str, verb: str, thing: str) -> str:
    words = re.findall(r"[A-Za-z][a-z]*", verb), re.findall(r"[a-z]+", thing)
    match style:
        case "camel":
            first, *rest = [str(word) for part in words for word in part]
            return first.lower() + "".join(word.capitalize() for word in rest)
        case "kebab":
            return "-".join(word.lower() for part in words for word in part)
        case "thing_verb":
            return "_".join(word.lower() for part in reversed(words) for word in part)
        case _:
            return "_".join(word.lower() for part in words for word in part)


def _parameter(field: str) -> tuple[str, dict[str, object]]:
    bare, _, choices = field.removeprefix("*").partition(":")
    name = bare.rstrip("#?[]")
    description = f"The {name.replace('_', ' ')}."
    if choices:
        return name, {"type": "string", "enum": choices.split("|"), "description": description}
    if bare.endswith("[]"):
        return name, {"type": "array", "items": {"type": "string"}, "description": description}
    kind = {"#": "integer", "?": "boolean"}.get(bare[-1], "string")
    return name, {"type": kind, "description": description}


def _plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") and name[-2] not in "aeiou" else f"{name}s"
