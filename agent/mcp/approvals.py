"""Trust in what a project declares: what the user is asked about its servers, before they run and before the model is
offered their tools, and what the answers were, bound to a digest of what was shown: in a file that only its owner can
read. What cannot be read was not allowed. The tools of the user's own servers are kept here as they were first seen."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from agent.config.per_project import alone_with
from agent.errors import ConfigError
from agent.mcp.declared import Declared
from tools.base import ToolError
from tools.files.bounded import LARGEST, own_beginning_of
from tools.files.diff import unified
from tools.files.read_write import write_bytes
from tools.mcp.offers import McpTool
from tools.outputs.extent import counted
from tools.secrets.redaction import without_password

ServerVerdict: TypeAlias = Literal["approved", "refused"]
Standing: TypeAlias = Literal["on", "not approved", "changed", "refused"]

APPROVE, LATER, NEVER = "approve", "not now", "never in this project"
START_OPTIONS = (LATER, APPROVE, NEVER)
ALL, EACH = "trust all of them", "ask about each"
FOLDER_OPTIONS = (LATER, ALL, EACH, NEVER)
TOOL_OPTIONS = (LATER, APPROVE)
"""What a key that is pressed by mistake answers comes first."""

MOST_NOTES = 40
"""Remarks that a question shows."""


@dataclass(frozen=True, slots=True)
class ServerApproval:
    """What the user said of one server."""

    digest: str
    """Of the declaration that the user saw."""
    verdict: ServerVerdict
    tools: Mapping[str, str] = field(default_factory=dict)
    """Of the tools that the model may be offered: the digest of each by the server's own name."""
    shown: tuple[str, ...] = ()
    """What the user saw of the declaration, a line each; empty where it was kept by an earlier version."""
    seen: Mapping[str, str] = field(default_factory=dict)
    """What the user saw of each tool."""


class Approvals:
    """Those of one project."""

    def __init__(self, path: Path, project: Path) -> None:
        self._path = path
        self._project = str(project)

    def of(self, server: str, digest: str) -> ServerApproval | None:
        """What the user said of this declaration; of another one of the same name nothing is known."""
        found = _decoded(self._read().get(self._project, {}).get(server))
        return found if found is not None and found.digest == digest else None

    def standing(self, declared: Declared) -> Standing:
        """Whether a server may be started; changed, when another declaration of its name was approved."""
        if declared.owner == "user":
            return "on"
        approval = self.of(declared.name, declared.digest)
        if approval is not None:
            return "on" if approval.verdict == "approved" else "refused"
        return "changed" if self.before(declared) is not None else "not approved"

    def before(self, declared: Declared) -> ServerApproval | None:
        """What was approved under the name of a server whose declaration is another one now."""
        other = _decoded(self._read().get(self._project, {}).get(declared.name))
        return other if other is not None and other.verdict == "approved" and other.digest != declared.digest else None

    def decide(self, declared: Declared, verdict: ServerVerdict) -> None:
        """Keeps what the user says of a declaration. Raises `ConfigError` when that cannot be written."""
        kept = self.of(declared.name, declared.digest) or ServerApproval(declared.digest, verdict)
        self._keep(declared.name, replace(kept, verdict=verdict, shown=terms(declared)))

    def allow_tools(self, declared: Declared, tools: Mapping[str, str], listed: Sequence[McpTool]) -> None:
        """Keeps that the model may be offered these tools, and no others of the server. `listed`: all that it offers
        now. Raises `ConfigError`."""
        kept = self.of(declared.name, declared.digest)
        digests = digests_of(listed)
        seen = {
            tool.original: _definition(tool) for tool in listed if tools.get(tool.original) == digests[tool.original]
        }
        seen = {**(kept.seen if kept is not None else {}), **seen}
        self._keep(declared.name, ServerApproval(declared.digest, "approved", tools, terms(declared), seen))

    def _read(self) -> dict[str, dict[str, object]]:
        try:
            content = json.loads(own_beginning_of(self._path, LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        projects = content.get("projects") if isinstance(content, dict) else None
        if not isinstance(projects, dict):
            return {}
        return {str(name): servers for name, servers in projects.items() if isinstance(servers, dict)}

    def _keep(self, server: str, approval: ServerApproval) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with alone_with(self._path):
                content = self._read()
                content.setdefault(self._project, {})[server] = asdict(approval)
                write_bytes(self._path.resolve(), json.dumps({"projects": content}, indent=1).encode(), 0o600)
        except OSError as error:
            raise ConfigError(f"cannot write `{self._path}`: {error.strerror or error}") from error
        except ToolError as error:
            raise ConfigError(str(error)) from error


def _decoded(entry: object) -> ServerApproval | None:
    match entry:
        case {"digest": str(digest), "verdict": "approved" | "refused" as verdict, "tools": dict(tools), **rest} if (
            _are_texts(tools.values())
        ):
            shown, seen = rest.get("shown"), rest.get("seen")
            return ServerApproval(
                digest,
                verdict,
                tools,
                tuple(shown) if isinstance(shown, list) and _are_texts(shown) else (),
                seen if isinstance(seen, dict) and _are_texts(seen.values()) else {},
            )
        case _:
            return None


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def start_question(declared: Declared, before: ServerApproval | None) -> str:
    """May this server be started? Says exactly what would be, and what of it is another than what was approved
    `before`."""
    is_new = "declares the server" if before is None else "has changed the server"
    lines = [f"This project {is_new} `{declared.name}` in `{declared.source}`.", "", *terms(declared), ""]
    return "\n".join([*lines, *_changes(declared, before), f"{_can_do(declared)} May it be started?"])


def folder_question(waiting: Sequence[tuple[Declared, ServerApproval | None]]) -> str:
    """May all of this be started? Says of each server what `start_question` says of one."""
    lines = [f"This project declares {counted(len(waiting), 'server')} that you have not approved so:", ""]
    for declared, before in waiting:
        changed = "" if before is None else ", which has changed"
        lines += [
            f"`{declared.name}` of `{declared.source}`{changed}",
            *terms(declared),
            *_changes(declared, before),
            "",
        ]
    able = dict.fromkeys(_can_do(declared) for declared, _ in waiting)
    return "\n".join([*lines, *able, "Do you trust this folder with all of them?"])


def _can_do(declared: Declared) -> str:
    return (
        "A program runs in the sandbox, with the network open; where there is no sandbox, it can do whatever you can "
        "do."
        if declared.spec.command
        else "A server on the network learns what it is sent."
    )


def _changes(declared: Declared, before: ServerApproval | None) -> list[str]:
    """What is another than it was, a line each, with an empty one behind."""
    if before is None or not before.shown:
        return []
    now = terms(declared)
    gone = [f"  - {line.strip()}" for line in before.shown if line not in now]
    new = [f"  + {line.strip()}" for line in now if line not in before.shown]
    return ["What has changed:", *(gone + new or ["  - a setting that is not shown here"]), ""]


def terms(declared: Declared) -> tuple[str, ...]:
    """What is approved, a line each."""
    written = declared.written
    rows = (
        ("command", " ".join(_quoted(word) for word in written.command)),
        ("address", without_password(written.url)),
        ("folder", str(declared.spec.cwd) if written.command else ""),
        ("sets", ", ".join(map(_quoted, written.env))),
        ("sends", ", ".join(map(_quoted, written.headers))),
        ("is given your", ", ".join(written.reads)),
    )
    return tuple(f"  {name}: {value}" for name, value in rows if value)


def tools_question(
    server: str, tools: Sequence[McpTool], notes: Sequence[str], seen: Mapping[str, str], *, has_changed: bool
) -> str:
    """May the model use these tools of a server? All is shown that would be approved, and of one that was approved
    otherwise, as `seen` has it, what has changed. `notes`: what is remarkable about what the server offers."""
    count = counted(len(tools), "tool")
    is_new = f"has {count} that you have not approved so" if has_changed else f"offers {count}"
    remarks = ["Look at this first:", *(f"- {note}" for note in notes[:MOST_NOTES]), ""] if notes else []
    lines = [line for tool in tools for line in (*_told(tool), *_difference(tool, seen), "")]
    return "\n".join([f"The server `{server}` {is_new}:", "", *remarks, *lines, "May the model use them?"])


def _difference(tool: McpTool, seen: Mapping[str, str]) -> list[str]:
    before = seen.get(tool.original)
    if before is None:
        return []
    return ["    What has changed:", *(f"    {line}" for line in unified(tool.original, before, _definition(tool))[2:])]


def _definition(tool: McpTool) -> str:
    """All that is pinned of a tool, in lines."""
    schema = json.dumps(tool.as_listed or tool.schema, indent=1, sort_keys=True, default=str, ensure_ascii=False)
    return f"{tool.description}\n{schema}\n"


def digests_of(tools: Sequence[McpTool]) -> dict[str, str]:
    """What is approved of each tool, by the server's own name of it: all that the model is shown."""
    written = {tool.original: [tool.original, tool.description, tool.as_listed or tool.schema] for tool in tools}
    return {
        name: hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
        for name, what in written.items()
    }


def _quoted(word: str) -> str:
    """A word of a command, or a value, so that one can see where it begins and ends."""
    return word if word and not any(sign.isspace() or sign in "\"'," for sign in word) else json.dumps(word)


def _parameters(tool: McpTool) -> str:
    properties = tool.schema.get("properties")
    return f"({', '.join(map(str, properties))})" if isinstance(properties, Mapping) and properties else ""


def _told(tool: McpTool) -> list[str]:
    """All that the model would read of a tool: that is what is approved."""
    lines = [f"- {tool.original}{_parameters(tool)}", *_indented(tool.description)]
    properties = tool.schema.get("properties")
    for name, about in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(about, Mapping) and isinstance(about.get("description"), str):
            lines += _indented(f"{name}: {about['description']}")
    return lines


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.strip().splitlines()]
