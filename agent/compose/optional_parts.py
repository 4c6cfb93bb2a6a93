"""Optional parts of a session, from the user's or the project's configuration: trust, commands and skills, MCP servers,
hooks and sub-agents. They are loaded only when needed."""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from ebbtide.agent import calls, subagents
from ebbtide.agent import extensions as agent_extensions
from ebbtide.agent import hooks as agent_hooks
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.execute import CheckpointGuard
from ebbtide.agent.channel import Channel, EventSink
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.config.values import Config
from ebbtide.agent.events.subagents import RunningAgent
from ebbtide.agent.integration_registry import EVENT_SINKS, LANGUAGE_SERVICES, MCP_CLIENTS, load_integration
from ebbtide.agent.messages import Message, Usage
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.fallbacks import ConnectModel
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import LanguageService, McpServers, SessionContext
from ebbtide.tools.base import Result, Tool, Workspace
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.task import BUILT_IN_AGENTS, Task

if TYPE_CHECKING:  # types only: a session imports these modules when it needs them
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.hooks.session_hooks import CheckpointSaver, SessionHooks, StartSource
    from ebbtide.agent.hooks.tool_hooks import ToolHooks
    from ebbtide.agent.subagents.session_agents import ComposeAgentSession, SessionAgents


OpenSink: TypeAlias = Callable[[Config, Mapping[str, str]], EventSink]
OpenServers: TypeAlias = "Callable[[Config, Mapping[str, str], Path, ServerTools, Channel, SessionTrust], McpServers]"
OpenLanguageService: TypeAlias = Callable[
    [Config, Path, Sandbox | None, Mapping[str, str], Path | None], LanguageService
]


def open_event_sinks(config: Config, environment: Mapping[str, str]) -> tuple[EventSink, ...]:
    """Open the sinks that follow the events of all sessions of this process. Raises `ConfigError`."""
    object_paths = [object_path for setting, object_path in EVENT_SINKS.items() if getattr(config, setting) is not None]
    return tuple(cast(OpenSink, load_integration(object_path))(config, environment) for object_path in object_paths)


def create_language_service(
    config: Config,
    root: Path,
    sandbox: Sandbox | None,
    environment: Mapping[str, str] = os.environ,
    log_folder: Path | None = None,
) -> LanguageService | None:
    """Create the service that runs the language servers of a working folder. `sandbox`: the sandbox for commands, also
    used for servers. `environment`: variables such as `PATH`, for finding programs. `log_folder`: the folder for server
    output; None for the default folder."""
    for object_path in LANGUAGE_SERVICES.values():
        return cast(OpenLanguageService, load_integration(object_path))(config, root, sandbox, environment, log_folder)
    return None


async def project_trust(
    config: Config, channel: Channel, language_service: LanguageService | None
) -> "SessionTrust | None":
    """Load the trust state of the project; None if nothing in it needs trust. A headless run silently ignores language
    servers that need trust."""
    untrusted_languages = (
        language_service
        if channel.is_interactive and language_service is not None and language_service.may_need_trust
        else None
    )
    if not (
        config.may_have_servers
        or config.may_have_hooks
        or config.may_have_extensions
        or untrusted_languages is not None
    ):
        return None
    trust = agent_extensions.session_trust.SessionTrust(config, channel)
    trust.add(await asyncio.to_thread(untrusted_languages.trust_items) if untrusted_languages is not None else ())
    return trust


async def load_extensions(config: Config, trust: "SessionTrust | None") -> "SessionExtensions | None":
    """Load the commands, skills and agents of a session; None if there are none."""
    if trust is None or not config.may_have_extensions:
        return None
    extensions = await asyncio.to_thread(agent_extensions.session_extensions.SessionExtensions, config, trust)
    contents = (*extensions.skills, *extensions.commands, *extensions.agents, *extensions.problems)
    return extensions if contents else None


class AgentsOnDemand:
    """The sub-agents of a session. Their modules are loaded when the first one is started; `parent` must be set before
    that."""

    def __init__(
        self, extensions: "SessionExtensions | None", max_concurrent: int, compose: "ComposeAgentSession"
    ) -> None:
        self._extensions = extensions
        self._max_concurrent = max_concurrent
        self._compose = compose
        self.parent: SessionContext | None = None

    @cached_property
    def _session_agents(self) -> "SessionAgents":
        assert self.parent is not None
        return subagents.session_agents.SessionAgents(
            partial(subagents.role.startable_agents, self._extensions), self._max_concurrent, self._compose, self.parent
        )

    @property
    def descriptions(self) -> Mapping[str, str]:
        """Descriptions of the available agents, by name."""
        if self._extensions is None or not self._extensions.agents:
            return BUILT_IN_AGENTS
        return {
            definition.name: definition.description for definition in subagents.role.startable_agents(self._extensions)
        }

    @property
    def running(self) -> Sequence[RunningAgent]:
        return self._session_agents.running if "_session_agents" in vars(self) else ()

    def stop(self, call: str) -> None:
        if "_session_agents" in vars(self):
            self._session_agents.stop(call)

    def set_watcher(self, on_change: Callable[[], None] | None) -> None:
        self._session_agents.set_watcher(on_change)

    async def _delegate(self, name: str, prompt: str, workspace: Workspace) -> Result:
        return await self._session_agents.delegate(name, prompt, workspace)

    def with_task_tool(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Add a `task` tool that starts these agents."""
        return tuple(Task(self.descriptions, self._delegate) if isinstance(tool, Task) else tool for tool in tools)


def unknown_tools_notice(extensions: "SessionExtensions | None", known_tools: Collection[str]) -> str:
    """Format a line that lists the unknown tools named in agent definitions; empty if there are none."""
    if extensions is None or not extensions.agents:
        return ""
    return subagents.file_definitions.unknown_tools_notice(extensions.usable_agents(), known_tools)


def apply_skill_limits(
    extensions: "SessionExtensions | None", approver: Approver, channel: Channel, root: Path
) -> None:
    """Apply the tool restrictions of skills while they are in use."""
    if extensions is None or not any(skill.requested_tools for skill in extensions.skills):
        return
    channel.observe_events(
        calls.skill_bounds.ActiveSkills(extensions, approver, str(root), channel.show_notice).observe
    )


def enable_hook_judges(
    hooks: "SessionHooks | None", ctx: SessionContext, connect: ConnectModel, compose: "ComposeAgentSession"
) -> None:
    """If any hooks ask models, agents or servers, connect the hooks to them."""
    if hooks is None or not hooks.needs_judges:
        return
    hooks.set_judges(subagents.hook_backends.SessionHookBackends(ctx, connect, compose))


def skill_folders(config: Config) -> tuple[Path, ...]:
    """Return the user's skill folders, which sandboxed commands may read."""
    if not config.may_have_extensions:
        return ()
    return tuple(
        extension_folder.path
        for extension_folder in agent_extensions.extension_folders.find_extension_folders("skill", config)
        if extension_folder.owner == "user"
    )


def create_servers(
    config: Config,
    environment: Mapping[str, str],
    root: Path,
    server_tools: ServerTools,
    channel: Channel,
    exit_stack: AsyncExitStack,
    trust: "SessionTrust | None",
) -> McpServers | None:
    """Set up the MCP servers of a session; None if none is configured."""
    if trust is None or not config.may_have_servers:
        return None
    for object_path in MCP_CLIENTS.values():
        servers = cast(OpenServers, load_integration(object_path))(
            config, environment, root, server_tools, channel, trust
        )
        exit_stack.push_async_callback(servers.close)
        return servers
    return None


def create_hooks(
    config: Config,
    recorder: Recorder,
    workspace: Workspace,
    channel: Channel,
    secrets: SecretTokens,
    get_mode: Callable[[], PermissionMode],
    exit_stack: AsyncExitStack,
    trust: "SessionTrust | None",
    checkpoint_guard: CheckpointGuard,
    start_source: "StartSource | None",
) -> "SessionHooks | None":
    """Create the hooks of a session; None if none is configured."""
    if trust is None or not config.may_have_hooks:
        return None

    async def read_messages(start: int) -> tuple[Sequence[Message], int, Mapping[int, Usage]]:
        messages, end = await recorder.log.load_messages(start)
        return secrets.hide_in_messages(tuple(messages)), end, await recorder.log.usage_by_reply(start, end)

    hooks = agent_hooks.session_hooks.create_session_hooks(
        config,
        recorder.session_id,
        workspace,
        channel,
        read_messages,
        get_mode,
        start_source,
        trust,
        create_hook_checkpoint(checkpoint_guard),
    )
    if hooks is not None:
        exit_stack.push_async_callback(hooks.close)
    return hooks


def create_hook_checkpoint(guard: CheckpointGuard) -> "CheckpointSaver":
    """Return a function that makes a checkpoint before hooks run. Like commands, hooks can change files."""
    return partial(guard, "run", (), on_progress=lambda _: None)


def create_tool_hooks(
    hooks: "SessionHooks | None",
    after_tool: Sequence[AfterToolHook],
    session: str,
    project: Path,
    workspace: Workspace,
    channel: Channel,
    checkpoint_guard: CheckpointGuard,
    agent_input: Mapping[str, object],
) -> "ToolHooks | None":
    """Create the object that runs hooks around a session's calls; None if there are no hooks. `agent_input`: fields
    about the calling agent, for the input of hooks."""
    if hooks is None and not after_tool:
        return None
    return agent_hooks.tool_hooks.ToolHooks(
        hooks, after_tool, session, project, workspace, channel, create_hook_checkpoint(checkpoint_guard), agent_input
    )
