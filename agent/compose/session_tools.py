"""The tools of a session: the built-in ones that it offers, and those that the user's and the project's files add."""

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.compose.optional_parts import AgentsOnDemand, create_servers, load_extensions, project_trust
from ebbtide.agent.compose.session_parts import SessionParts
from ebbtide.agent.compose.settings import build_compaction_settings
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.eviction.settings import CompactionSettings
from ebbtide.agent.input.instructions import project_memory_folder
from ebbtide.agent.prompt.small_window import is_omitted
from ebbtide.agent.window.deferral import ToolDeferral
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import LanguageService, McpServers
from ebbtide.tools.base import Tool, ToolSupport
from ebbtide.tools.catalog import create_builtin_tools, create_rare_tools
from ebbtide.tools.files.file_suffixes import count_suffixes
from ebbtide.tools.final_report import FinalReport
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.memory import Memory
from ebbtide.tools.submit_plan import SubmitPlan
from ebbtide.tools.tool_traits import ProjectFacts, role_of, traits_of
from ebbtide.tools.web_fetch import WebFetch
from ebbtide.tools.web_search import WebSearch

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.subagents.session_agents import ComposeAgentSession


@dataclass(frozen=True, slots=True)
class SessionTooling:
    """The tools of a session, and what the user's and the project's files add to it."""

    tools: tuple[Tool, ...]
    """All tools except those of MCP servers."""
    server_tools: ServerTools
    deferral: ToolDeferral
    trust: "SessionTrust | None"
    extensions: "SessionExtensions | None"
    agents: AgentsOnDemand
    servers: McpServers | None

    @property
    def skill_folders(self) -> tuple[str, ...]:
        return () if self.extensions is None else tuple(str(skill.path.parent) for skill in self.extensions.skills)


async def load_session_tooling(parts: SessionParts, compose_agent: "ComposeAgentSession") -> SessionTooling:
    """Find the user's and the project's tools and extensions, and create what they need."""
    setup, role, channel = parts.setup, parts.agent_role, parts.channel
    config = setup.config
    settings = build_compaction_settings(config, parts.provider.window.available_tokens)
    tools = select_session_tools(
        settings,
        config,
        parts.language_service,
        can_store=not setup.is_ephemeral,
        provider_searches=parts.provider.facts.searches_web,
        extra_tools=setup.extra_tools,
    )
    server_tools = ServerTools() if role is None else role.server_tools()
    trust = await project_trust(config, channel, parts.language_service) if role is None else None
    extensions = await load_extensions(config, trust)
    agents = AgentsOnDemand(extensions, config.agents_concurrent, compose_agent)
    tools = agents.with_task_tool(tools) if role is None else role.select_tools(tools)
    servers = create_servers(config, setup.environment, setup.root, server_tools, channel, parts.exit_stack, trust)
    deferral = ToolDeferral(
        config.tool_deferral_threshold,
        await parts.recorder.last_tool_uses(),
        offers_search=bool(servers.entries if servers is not None else server_tools.available_specs),
        reduces_tools=not config.tools_allowed,
    )
    return SessionTooling(tools, server_tools, deferral, trust, extensions, agents, servers)


def select_session_tools(
    settings: CompactionSettings,
    config: Config,
    language_service: LanguageService | None = None,
    *,
    can_store: bool = True,
    provider_searches: bool = False,
    extra_tools: Sequence[Tool] = (),
) -> tuple[Tool, ...]:
    """Select the built-in tools: all, or those that the user has selected. Notebook tools, web search, language-server
    tools and the repository map are included only if they are useful in this project. The report tool is included if a
    turn ends with a report when the window is full. `can_store`: files may be stored on disk. `provider_searches`: the
    model's provider searches the web itself. `extra_tools`: tools that a program adds through the SDK; they are always
    included. Raises `ConfigError`."""
    servers = language_service.servers if language_service is not None else None
    rare = create_rare_tools(ToolSupport(config.folders.data if can_store else None, servers))
    memory = Memory(project_memory_folder(config.folders.data, config.project_folder))
    tools_by_name = {tool.name: tool for tool in (*create_builtin_tools(), *rare, memory)}
    for key, names in (("tools.allowed", config.tools_allowed), ("tools.denied", config.tools_denied)):
        for name in names:
            if name not in tools_by_name:
                raise ConfigError(f"`{key}`: there is no built-in tool `{name}`; there are {', '.join(tools_by_name)}")
    search_command = () if isinstance(config.web_search, str) else config.web_search
    tools_by_name |= {tool.name: tool for tool in (WebFetch(config.web_private), WebSearch(search_command))}
    count_project_suffixes = cache(partial(count_suffixes, config.project_folder))
    has_servers = cache(
        lambda: language_service is not None and language_service.is_available_for(count_project_suffixes())
    )
    facts = ProjectFacts(count_project_suffixes, has_servers, provider_searches or bool(search_command))
    name_counts = Counter([*tools_by_name, *(tool.name for tool in extra_tools)])
    if duplicate := next((tool.name for tool in extra_tools if name_counts[tool.name] > 1), None):
        raise ConfigError(f"there are two tools named `{duplicate}`; rename yours")
    selected_names = config.tools_allowed or tuple(name for name in tools_by_name if _is_useful_in_session(name, facts))
    tools = tuple(
        tool for name, tool in tools_by_name.items() if name in selected_names and name not in config.tools_denied
    ) + tuple(extra_tools)
    return (*tools, FinalReport()) if settings.on_full == "final" else tools


def _is_useful_in_session(tool: str, facts: ProjectFacts) -> bool:
    is_useful = traits_of(tool).is_useful
    return is_useful is None or is_useful(facts)


def offered_tools(tools: Sequence[Tool], mode: PermissionMode, *, is_interactive: bool) -> tuple[Tool, ...]:
    """Return the tools listed for the model. Tools that ask questions are included only if a user is present. The tool
    for plans comes last, and is included only if the system prompt says that the mode is `plan`. Calls to unlisted
    tools still get an output."""
    offered = tuple(tool for tool in tools if is_interactive or role_of(tool.name) != "ask_question")
    return (*offered, SubmitPlan()) if mode == "plan" else offered


def missing_tools(config: Config, windows: Sequence[Window], *, is_interactive: bool) -> frozenset[str]:
    """Return the names of built-in tools that this session never offers: tools excluded by the user, tools omitted for
    every window, and, if no user is present, tools that ask questions."""
    names = {tool.name for tool in create_builtin_tools()}
    omitted = names - set(config.tools_allowed or names) | names & set(config.tools_denied)
    if not config.tools_allowed and windows:
        sizes = [window.available_tokens for window in windows]
        omitted |= {name for name in names if all(is_omitted(name, size) for size in sizes)}
    return frozenset(
        omitted if is_interactive else omitted | {name for name in names if role_of(name) == "ask_question"}
    )
