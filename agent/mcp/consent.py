"""What the user is asked about a project's servers: before they run, and before the model is offered their tools. It
asks nobody itself."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from agent.mcp.declared import Declared
from tools.mcp.offers import McpTool
from tools.redaction import without_password

APPROVE, LATER, NEVER = "approve", "not now", "never in this project"
START_OPTIONS = (LATER, APPROVE, NEVER)
TOOL_OPTIONS = (LATER, APPROVE)
"""What a key that is pressed by mistake answers comes first."""

MOST_NOTES = 40
"""Remarks that a question shows."""


def start_question(declared: Declared, *, has_changed: bool) -> str:
    """May this server be started? Says exactly what would be."""
    is_new = "has changed the server" if has_changed else "declares the server"
    lines = [f"This project {is_new} `{declared.name}` in `{declared.source}`.", "", *terms(declared), ""]
    what = "It can do whatever you can do on this machine." if declared.spec.command else "It learns what it is sent."
    return "\n".join([*lines, f"{what} May it be started?"])


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


def tools_question(server: str, tools: Sequence[McpTool], notes: Sequence[str], *, has_changed: bool) -> str:
    """May the model use these tools of a server? All is shown that would be approved. `notes`: what is remarkable about
    what the server offers."""
    count = f"{len(tools)} tool{'' if len(tools) == 1 else 's'}"
    is_new = f"has {count} that you have not approved so" if has_changed else f"offers {count}"
    remarks = ["Look at this first:", *(f"- {note}" for note in notes[:MOST_NOTES]), ""] if notes else []
    lines = [line for tool in tools for line in (*_told(tool), "")]
    return "\n".join([f"The server `{server}` {is_new}:", "", *remarks, *lines, "May the model use them?"])


def digests_of(tools: Sequence[McpTool]) -> dict[str, str]:
    """What is approved of each tool, by the server's own name of it: all that the model is shown."""
    return {
        tool.original: hashlib.sha256(
            json.dumps([tool.original, tool.description, tool.schema], sort_keys=True, default=str).encode()
        ).hexdigest()
        for tool in tools
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
