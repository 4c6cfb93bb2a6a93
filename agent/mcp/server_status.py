"""A server as its user sees it. It changes nothing."""

from collections.abc import Iterator

from agent.mcp.consent import terms
from agent.mcp.entries import ServerEntry
from agent.mcp.mentions import command_of, usage_of
from agent.mcp.status import PromptSeen, ServerNamed, ServerSeen, ToolOffer, ToolSeen
from agent.window.deferral import specs_of
from agent.window.env import Env
from tools.mcp.reading import ReadResource
from tools.mcp.tool import McpTool


def server_status(entry: ServerEntry, env: Env) -> ServerSeen:
    """All that is known of a server in this session, its tools with what their definitions take."""
    declared, state, names = entry.declared, entry.state, mention_names(entry)
    title = " ".join(filter(None, (state.name, state.version)))
    return ServerSeen(
        name=entry.name,
        source=str(declared.source),
        runs="\n".join(terms(declared)),
        phase=state.phase,
        detail=state.detail,
        title=title,
        tools=tuple(_tools(entry, env)),
        prompts=names.prompts,
        resources=names.resources,
        notes=state.listing.notes,
        log=entry.server.log if entry.server is not None else None,
        is_on=entry.server is not None,
    )


def mention_names(entry: ServerEntry) -> ServerNamed:
    """What a message can name of a server. It is asked for at every key that is pressed."""
    spec, state = entry.declared.spec, entry.state
    prompts = (PromptSeen(command_of(spec, p), usage_of(p), p.description) for p in state.prompts)
    return ServerNamed(entry.name, tuple(prompts), tuple(each.uri for each in state.resources))


def _tools(entry: ServerEntry, env: Env) -> Iterator[ToolSeen]:
    late = {tool.name for tool in env.served.late}
    joins: ToolOffer = "late" if env.watch.has_sent else "due"
    is_ready = entry.state.phase == "ready"
    for tool in entry.offered():
        offer: ToolOffer = "away" if not is_ready else joins if tool.name in late else "offered"
        offer = "held back" if offer == "offered" and tool.name in env.deferral.held_back else offer
        yield _tool(tool, offer, env)
    for tool in entry.withheld():
        yield _tool(tool, "not approved", env)


def _tool(tool: McpTool | ReadResource, offer: ToolOffer, env: Env) -> ToolSeen:
    (spec,) = specs_of((tool,))
    return ToolSeen(tool.original, tool.description, env.meter.size_of_tool(spec), offer)
