"""Stores which MCP tools the model may use, and builds the questions about them. Answers are pinned to a digest of what
was shown, in a file that only the user can read; unreadable entries count as not approved. Tools of the user's own
servers are pinned as first seen. Whether a project's server may start is part of the trust in the folder."""

import hashlib
import json
import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ebbtide.agent.config.private_table import PrivateTable
from ebbtide.agent.extensions.extension_files import digest_of_programs
from ebbtide.agent.extensions.trust import TrustItem
from ebbtide.agent.extensions.trust_question import APPROVE, LATER
from ebbtide.agent.mcp.declarations import DeclaredServer
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.mcp.input_schema import words_in
from ebbtide.tools.mcp.offers import INSTRUCTIONS, McpTool
from ebbtide.tools.mcp.texts import spelled_out
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.secrets.redaction import without_password

TOOL_OPTIONS = (LATER, APPROVE)
"""The safe answer comes first, in case a key is pressed by mistake."""

MAX_NOTES = 40
"""Maximum number of notes in a question."""


@dataclass(frozen=True, slots=True)
class ToolApproval:
    """The user's decision about the tools of one server."""

    digest: str
    """Digest of the server's declaration."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """Digests of the allowed tools, by the server's own names."""
    seen: Mapping[str, str] = field(default_factory=dict)
    """The definition of each tool as the user saw it."""


class Approvals:
    """The approvals of one project."""

    def __init__(self, path: Path, project: Path) -> None:
        self._table = PrivateTable(path, "projects", mend=None)
        self._project = str(project)

    def of(self, server: str, digest: str) -> ToolApproval | None:
        """Return the approval for this declaration; None for a changed declaration of the same name."""
        found = _approval_from_json(self._table.read().get(self._project, {}).get(server))
        return found if found is not None and found.digest == digest else None

    def allow_tools(self, declared: DeclaredServer, tools: Mapping[str, str], listed: Sequence[McpTool]) -> None:
        """Store that the model may use exactly these tools of the server. `listed` are all tools it offers now. Raises
        `ConfigError`."""
        kept = self.of(declared.name, declared.digest)
        digests = digests_of(listed)
        seen = {
            tool.original: _definition(tool) for tool in listed if tools.get(tool.original) == digests[tool.original]
        }
        seen = {**(kept.seen if kept is not None else {}), **seen}
        approval = {declared.name: asdict(ToolApproval(declared.digest, tools, seen))}
        self._table.change(
            lambda projects: {**projects, self._project: {**projects.get(self._project, {}), **approval}}
        )


def _approval_from_json(entry: object) -> ToolApproval | None:
    match entry:
        case {"digest": str(digest), "tools": dict(tools), **rest} if _are_texts(tools.values()):
            seen = rest.get("seen")
            return ToolApproval(digest, tools, seen if isinstance(seen, dict) and _are_texts(seen.values()) else {})
        case _:
            return None


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def item_of(declared: DeclaredServer) -> TrustItem:
    """The trust item of a server, including the project files that it runs."""
    can_do = (
        "The program runs in the sandbox with network access; without a sandbox, it can do anything that you can do."
        if declared.spec.command
        else "A server on the network learns what it is sent."
    )
    source = os.path.basename(declared.source) if declared.owner == "project" else declared.source
    digest = "".join((declared.digest, digest_of_programs(declared.scripts)))
    return TrustItem("server", declared.name, declared.owner, source, digest, terms(declared), can_do)


def terms(declared: DeclaredServer) -> tuple[str, ...]:
    """What is approved, one line each."""
    written = declared.written
    rows = (
        ("command", " ".join(_quote_word(word) for word in written.command)),
        ("address", without_password(written.url)),
        ("folder", str(declared.spec.cwd) if written.command else ""),
        ("sets", ", ".join(map(_quote_word, written.env))),
        ("sends", ", ".join(map(_quote_word, written.headers))),
        ("reads your", ", ".join(written.reads)),
    )
    lines = (f"{name}: {value}" for name, value in rows if value)
    return (*lines, *(f"runs the file {os.path.relpath(path, declared.spec.cwd)}" for path in declared.scripts))


def tools_question(
    server: str, tools: Sequence[McpTool], notes: Sequence[str], seen: Mapping[str, str], *, has_changed: bool
) -> str:
    """Build the question whether the model may use these tools, with everything that would be approved. For tools that
    were approved in an earlier form (`seen`), the changes are shown. `notes` are remarks about the server's tools."""
    words = [tool.original for tool in tools if tool.original == INSTRUCTIONS]
    count = " and ".join((*((pluralize(len(tools) - len(words), "tool"),) if len(tools) > len(words) else ()), *words))
    is_new = f"has {count} that you have not approved in this form" if has_changed else f"offers {count}"
    remarks = ["Look at this first:", *(f"- {note}" for note in notes[:MAX_NOTES]), ""] if notes else []
    lines = [line for tool in tools for line in (*_tool_lines(tool), *_difference(tool, seen), "")]
    return "\n".join([f"The server `{server}` {is_new}:", "", *remarks, *lines, "May the model use them?"])


def _difference(tool: McpTool, seen: Mapping[str, str]) -> list[str]:
    before = seen.get(tool.original)
    if before is None:
        return []
    lines = unified_diff(tool.original, before, _definition(tool))[2:]
    return ["    What has changed:", *(f"    {spelled_out(line)}" for line in lines)]


def _definition(tool: McpTool) -> str:
    """The pinned definition of a tool, as lines."""
    schema = json.dumps(tool.as_listed or tool.schema, indent=1, sort_keys=True, default=str, ensure_ascii=False)
    return f"{tool.description}\n{schema}\n"


def digests_of(tools: Sequence[McpTool]) -> dict[str, str]:
    """Digests of everything that the model sees of each tool, by the server's own names."""
    written = {tool.original: [tool.original, tool.description, tool.as_listed or tool.schema] for tool in tools}
    return {
        name: hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
        for name, what in written.items()
    }


def _quote_word(word: str) -> str:
    """Quote a word where needed to make its boundaries visible."""
    return word if word and not any(sign.isspace() or sign in "\"'," for sign in word) else json.dumps(word)


def _parameters(tool: McpTool) -> str:
    properties = tool.schema.get("properties")
    return f"({spelled_out(', '.join(map(str, properties)))})" if isinstance(properties, Mapping) and properties else ""


def _tool_lines(tool: McpTool) -> list[str]:
    """Everything that the model would read about a tool."""
    lines = [f"- {tool.original}{_parameters(tool)}", *_indent(tool.description)]
    for where, said in words_in(tool.schema):
        if said or "." in where:  # top-level names are in the first line
            lines += _indent(spelled_out(": ".join(filter(None, (where, said)))))
    return lines


def _indent(text: str) -> list[str]:
    return [f"    {line}" for line in text.strip().splitlines()]
