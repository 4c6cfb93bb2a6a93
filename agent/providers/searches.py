"""What a provider did in a reply besides the model: it searched the tools that are held back. It knows native parts of
replies and asks nobody."""

from collections.abc import Iterator

from agent.messages import Assistant, Opaque


def tools_found(message: Assistant) -> Iterator[tuple[str, ...]]:
    """The names of the tools that each search has found."""
    for part in message.parts:
        if not isinstance(part, Opaque):
            continue
        match part.native.get("type"):
            case "tool_search_tool_result":
                yield part.tools
            case "tool_search_output":
                yield tuple(_names(part.native.get("tools")))


def _names(tools: object) -> Iterator[str]:
    """Tools may stand in a namespace."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            yield from _names(tool.get("tools"))
        elif isinstance(tool, dict) and isinstance(tool.get("name"), str):
            yield tool["name"]
