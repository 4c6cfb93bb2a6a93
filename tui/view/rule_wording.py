"""Permission rules in words. Pure."""

from collections.abc import Mapping

from ebbtide.agent.calls.policy import parse_rule
from ebbtide.agent.errors import ConfigError
from ebbtide.tui.text.sanitise import sanitised_line

_NOUNS: Mapping[str, str] = {
    "edit": "edit",
    "write": "new or rewritten file",
    "apply_patch": "patch",
    "edit_notebook": "edit of a notebook",
    "web_fetch": "page",
    "memory": "entry that is remembered",
}
_SHELL = "bash"


def words_of_rule(rule: str, *, is_exact: bool = False) -> str:
    """What a rule covers, as a phrase after "Yes, and". `is_exact`: the rule is for one command line or file."""
    try:
        parsed = parse_rule(rule)
    except ConfigError:
        return sanitised_line(rule)
    tool, prefix = sanitised_line(parsed.tool), sanitised_line(parsed.prefix)
    where = ", outside the sandbox" if tool == "outside" else ""
    if parsed.line is not None:
        return f"exactly this command{where}"
    if tool == "network":
        return f"every connection to {prefix}" if prefix else "every connection"
    if tool in (_SHELL, "outside"):
        return f'every command that begins with "{prefix}"{where}' if prefix else f"every command{where}"
    if tool.startswith("mcp__"):
        server, _, name = tool.removeprefix("mcp__").partition("__")
        return f"every call of {name} on {server}" if name else f"everything on the server {server}"
    noun = _NOUNS.get(tool, "call of " + tool)
    if not prefix:
        return f"every {noun}"
    if tool == "web_fetch":
        return f"every {noun} from {prefix}"
    if is_exact:
        return f"every {noun.replace('new or rewritten file', 'rewrite')} of {prefix}"
    return f"every {noun} in {'this project' if prefix == '.' else prefix.rstrip('/') + '/'}"
