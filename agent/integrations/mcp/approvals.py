"""Stores which MCP tools the model may use, and builds the questions about them. Each approval is stored with a digest
of what the user saw, in a file that only the user can read; an unreadable entry counts as not approved. Tools of the
user's own servers are pinned to their first definitions. Whether a project's server may start depends on the user's
trust in its folder."""

import hashlib
import json
import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ebbtide.agent.config.private_table import PrivateTable
from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import hash_programs
from ebbtide.agent.extensions.trust import TrustItem
from ebbtide.agent.extensions.trust_question import APPROVE_OPTION, POSTPONE_OPTION
from ebbtide.agent.integrations.mcp.declarations import DeclaredServer, UnusableServer, load_declared_servers
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.integrations.mcp.input_schema import iter_schema_texts
from ebbtide.tools.integrations.mcp.offers import INSTRUCTIONS_NAME, McpTool
from ebbtide.tools.integrations.mcp.texts import with_escaped_chars
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.secrets.redaction import redact_url

TOOL_OPTIONS = (POSTPONE_OPTION, APPROVE_OPTION)
"""Options of the question. The safe answer comes first, in case a key is pressed by mistake."""

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
    """Definitions of the tools as the user saw them, by the server's own names."""


class ToolApprovals:
    """The approvals of one project."""

    def __init__(self, path: Path, project: Path) -> None:
        self._table = PrivateTable(path, "projects", advice=None)
        self._project = str(project)

    def find_approval(self, server: str, digest: str) -> ToolApproval | None:
        """Return the approval for this declaration; None if there is none, or if it was given for a different
        declaration with the same name."""
        approval = _approval_from_json(self._table.read().get(self._project, {}).get(server))
        return approval if approval is not None and approval.digest == digest else None

    def allow_tools(
        self, server: DeclaredServer, allowed_digests: Mapping[str, str], offered_tools: Sequence[McpTool]
    ) -> None:
        """Allow the model to use these tools of the server, and no others. `allowed_digests`: the tools' digests, by
        the server's names for them. `offered_tools`: all tools that the server offers now. Raises `ConfigError`."""
        previous_approval = self.find_approval(server.name, server.digest)
        digests = compute_tool_digests(offered_tools)
        seen_definitions = {
            tool.original_name: _definition(tool)
            for tool in offered_tools
            if allowed_digests.get(tool.original_name) == digests[tool.original_name]
        }
        seen_definitions = {**(previous_approval.seen if previous_approval is not None else {}), **seen_definitions}
        approval = {server.name: asdict(ToolApproval(server.digest, allowed_digests, seen_definitions))}
        self._table.update(
            lambda projects: {**projects, self._project: {**projects.get(self._project, {}), **approval}}
        )


def _approval_from_json(entry: object) -> ToolApproval | None:
    match entry:
        case {"digest": str(digest), "tools": dict(tools), **rest} if _are_strings(tools.values()):
            seen_definitions = rest.get("seen")
            return ToolApproval(
                digest,
                tools,
                seen_definitions
                if isinstance(seen_definitions, dict) and _are_strings(seen_definitions.values())
                else {},
            )
        case _:
            return None


def _are_strings(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def project_trust_items(config: Config, environment: Mapping[str, str]) -> tuple[Sequence[TrustItem], Sequence[str]]:
    """Return the trust items of all declared servers, and the reasons why some of the project's servers cannot be
    used."""
    servers = load_declared_servers(config, environment)
    unusable_servers = [
        server
        for server in servers
        if isinstance(server, UnusableServer) and server.owner == "project" and not server.is_disabled
    ]
    return [create_trust_item(server) for server in servers if isinstance(server, DeclaredServer)], [
        server.notice for server in unusable_servers
    ]


def create_trust_item(server: DeclaredServer) -> TrustItem:
    """Return the trust item of a server, including the project files that it runs."""
    can_do = (
        "The program runs in the sandbox with network access; without a sandbox, it can do anything that you can do."
        if server.spec.command
        else "A server on the network learns what it is sent."
    )
    source = os.path.basename(server.source) if server.owner == "project" else server.source
    digest = "".join((server.digest, hash_programs(server.scripts)))
    return TrustItem("server", server.name, server.owner, source, digest, approval_lines(server), can_do)


def approval_lines(server: DeclaredServer) -> tuple[str, ...]:
    """Return the lines that describe what the user approves."""
    declaration = server.declaration
    rows = (
        ("command", " ".join(_quote_word(word) for word in declaration.command)),
        ("address", redact_url(declaration.url)),
        ("folder", str(server.spec.cwd) if declaration.command else ""),
        ("sets", ", ".join(map(_quote_word, declaration.env))),
        ("sends", ", ".join(map(_quote_word, declaration.headers))),
        ("reads your", ", ".join(declaration.referenced_variables)),
    )
    lines = (f"{name}: {value}" for name, value in rows if value)
    return (*lines, *(f"runs the file {os.path.relpath(path, server.spec.cwd)}" for path in server.scripts))


def build_tools_question(
    server: str,
    tools: Sequence[McpTool],
    notes: Sequence[str],
    seen_definitions: Mapping[str, str],
    *,
    has_changed: bool,
) -> str:
    """Build the question that asks whether the model may use these tools. It includes everything that the user approves
    by answering yes. For tools that were approved in an earlier form (`seen_definitions`), it shows the changes.
    `notes`: remarks about the server's tools."""
    instruction_names = [tool.original_name for tool in tools if tool.original_name == INSTRUCTIONS_NAME]
    counts_text = " and ".join(
        (
            *((pluralize(len(tools) - len(instruction_names), "tool"),) if len(tools) > len(instruction_names) else ()),
            *instruction_names,
        )
    )
    opening = f"has {counts_text} that you have not approved in this form" if has_changed else f"offers {counts_text}"
    more_notes_line = [f"- and {pluralize(len(notes) - MAX_NOTES, 'remark')} more"] if len(notes) > MAX_NOTES else []
    note_lines = (
        ["Look at this first:", *(f"- {note}" for note in notes[:MAX_NOTES]), *more_notes_line, ""] if notes else []
    )
    lines = [line for tool in tools for line in (*_tool_lines(tool), *_changed_lines(tool, seen_definitions), "")]
    return "\n".join([f"The server `{server}` {opening}:", "", *note_lines, *lines, "May the model use them?"])


def _changed_lines(tool: McpTool, seen_definitions: Mapping[str, str]) -> list[str]:
    seen_definition = seen_definitions.get(tool.original_name)
    if seen_definition is None:
        return []
    lines = unified_diff(tool.original_name, seen_definition, _definition(tool))[2:]
    return ["    What has changed:", *(f"    {with_escaped_chars(line)}" for line in lines)]


def _definition(tool: McpTool) -> str:
    """Return the text of a tool's definition that is stored with an approval."""
    schema = json.dumps(tool.listed_schema or tool.schema, indent=1, sort_keys=True, default=str, ensure_ascii=False)
    return f"{tool.description}\n{schema}\n"


def compute_tool_digests(tools: Sequence[McpTool]) -> dict[str, str]:
    """Compute a digest of everything that the model sees of each tool. Keys are the server's own tool names."""
    definitions = {
        tool.original_name: [tool.original_name, tool.description, tool.listed_schema or tool.schema] for tool in tools
    }
    return {
        name: hashlib.sha256(json.dumps(definition, sort_keys=True, default=str).encode()).hexdigest()
        for name, definition in definitions.items()
    }


def _quote_word(word: str) -> str:
    """Quote a word where needed to make its boundaries visible."""
    return (
        word if word and not any(character.isspace() or character in "\"'," for character in word) else json.dumps(word)
    )


def _parameter_list(tool: McpTool) -> str:
    properties = tool.schema.get("properties")
    return (
        f"({with_escaped_chars(', '.join(map(str, properties)))})"
        if isinstance(properties, Mapping) and properties
        else ""
    )


def _tool_lines(tool: McpTool) -> list[str]:
    """Return everything that the model would read about a tool, as lines."""
    lines = [f"- {tool.original_name}{_parameter_list(tool)}", *_indent(tool.description)]
    for path, text in iter_schema_texts(tool.schema):
        if text or "." in path:  # top-level names are in the first line
            lines += _indent(with_escaped_chars(": ".join(filter(None, (path, text)))))
    return lines


def _indent(text: str) -> list[str]:
    return [f"    {line}" for line in text.strip().splitlines()]
