"""Optional parts of a session, from the user's or the project's configuration: trust, commands and skills, MCP servers,
hooks and sub-agents. They are loaded only when needed."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.execute import Guard
from ebbtide.agent.channel import Channel
from ebbtide.agent.config.options import Mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.subagents import RunningAgent
from ebbtide.agent.lsp.session_languages import SessionLanguages
from ebbtide.agent.messages import Message, Usage
from ebbtide.agent.providers.fallbacks import Connect
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import Result, Tool, Workspace
from ebbtide.tools.task import BUILT_IN, Task

if TYPE_CHECKING:  # types only: only sessions with these parts load them
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.hooks.session_hooks import SessionHooks, StartSource
    from ebbtide.agent.mcp.running import RunningServers
    from ebbtide.agent.subagents.session_agents import Compose, SessionAgents
    from ebbtide.agent.telemetry.export import Telemetry


def telemetry_of(config: Config, environment: Mapping[str, str]) -> "Telemetry | None":
    """Return the telemetry exporter; None without an endpoint. Raises `ConfigError`."""
    if config.telemetry_endpoint is None:
        return None
    try:
        from ebbtide.agent.telemetry.export import Telemetry  # noqa: PLC0415  # deferred: an optional extra
    except ImportError as error:
        from ebbtide.agent.extras import install_command  # noqa: PLC0415  # deferred: as above

        told = f"`telemetry.endpoint` needs packages that are not installed. Run: {install_command('otel')}"
        raise ConfigError(told) from error
    from ebbtide.tools.secrets.redaction import redact_text  # noqa: PLC0415  # deferred: as above

    redact = partial(redact_text, environment=environment) if config.telemetry_content else None
    return Telemetry(config.telemetry_endpoint, redact)


async def trust_in(config: Config, channel: Channel, languages: SessionLanguages) -> "SessionTrust | None":
    """Return the trust state of the project; None if it has nothing that needs trust. Headless runs get no notices
    about language servers that they do without."""
    wants = channel.is_interactive and languages.may_want_trust
    if not (config.may_have_servers or config.may_have_hooks or config.may_have_extensions or wants):
        return None
    from ebbtide.agent.extensions.session_trust import SessionTrust  # noqa: PLC0415  # deferred: few projects need trust

    trust = SessionTrust(config, channel)
    trust.add(await asyncio.to_thread(languages.items) if wants else ())
    return trust


async def extensions_of(config: Config, trust: "SessionTrust | None") -> "SessionExtensions | None":
    """Return the commands, skills and agents of a session; None if there are none."""
    if trust is None or not config.may_have_extensions:
        return None
    from ebbtide.agent.extensions.session_extensions import SessionExtensions  # noqa: PLC0415  # deferred: as above

    extensions = await asyncio.to_thread(SessionExtensions, config, trust)
    found = (*extensions.skills, *extensions.commands, *extensions.agents, *extensions.problems)
    return extensions if found else None


class AgentsOnDemand:
    """The sub-agents of a session, loaded when the first one is started. `parent` is set once it exists."""

    def __init__(self, extensions: "SessionExtensions | None", concurrent: int, compose: "Compose") -> None:
        self._extensions = extensions
        self._concurrent = concurrent
        self._compose = compose
        self.parent: SessionContext | None = None

    @cached_property
    def _loaded(self) -> "SessionAgents":
        from ebbtide.agent.subagents.role import usable_agents  # noqa: PLC0415  # deferred: few sessions use sub-agents
        from ebbtide.agent.subagents.session_agents import SessionAgents  # noqa: PLC0415  # deferred: as above

        assert self.parent is not None
        return SessionAgents(partial(usable_agents, self._extensions), self._concurrent, self._compose, self.parent)

    @property
    def descriptions(self) -> Mapping[str, str]:
        """Descriptions of the available agents, by name."""
        if self._extensions is None or not self._extensions.agents:
            return BUILT_IN
        from ebbtide.agent.subagents.role import usable_agents  # noqa: PLC0415  # deferred: few users define agents

        return {each.name: each.description for each in usable_agents(self._extensions)}

    @property
    def running(self) -> Sequence[RunningAgent]:
        return self._loaded.running if "_loaded" in vars(self) else ()

    def stop(self, call: str) -> None:
        if "_loaded" in vars(self):
            self._loaded.stop(call)

    def watch(self, changed: Callable[[], None] | None) -> None:
        self._loaded.watch(changed)

    async def _delegate(self, name: str, prompt: str, workspace: Workspace) -> Result:
        return await self._loaded.delegate(name, prompt, workspace)

    def with_task_tool(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the tools with a `task` tool that starts these agents."""
        return tuple(Task(self.descriptions, self._delegate) if isinstance(tool, Task) else tool for tool in tools)


def unknown_tools_of(extensions: "SessionExtensions | None", known: Collection[str]) -> tuple[str, ...]:
    """Return one line for each unknown tool that an agent's definition names."""
    if extensions is None or not extensions.agents:
        return ()
    from ebbtide.agent.subagents.file_definitions import unknown_tools  # noqa: PLC0415  # deferred: as above

    return unknown_tools(extensions.usable_agents(), known)


def apply_skill_limits(
    extensions: "SessionExtensions | None", approval: Approver, channel: Channel, root: Path
) -> None:
    """Apply the tool restrictions of skills in use."""
    if extensions is None or not any(skill.tools for skill in extensions.skills):
        return
    from ebbtide.agent.calls.skill_bounds import SkillUse  # noqa: PLC0415  # deferred: as above

    channel.on_note(SkillUse(extensions, approval, str(root), channel.notice).note)


def let_hooks_ask(hooks: "SessionHooks | None", env: SessionContext, connect: Connect, compose: "Compose") -> None:
    """Let hooks ask models, agents and servers, if any hook does so."""
    if hooks is None or not hooks.asks_others:
        return
    from ebbtide.agent.subagents.hook_judges import HookJudges  # noqa: PLC0415  # deferred: as above

    hooks.ask_through(HookJudges(env, connect, compose))


def skill_folders(config: Config) -> tuple[Path, ...]:
    """Return the user's skill folders, which sandboxed commands may read."""
    if not config.may_have_extensions:
        return ()
    from ebbtide.agent.extensions.extension_folders import extension_folders  # noqa: PLC0415  # deferred: as above

    return tuple(place.folder for place in extension_folders("skill", config) if place.owner == "user")


def servers_of(
    config: Config,
    environment: Mapping[str, str],
    root: Path,
    served: ServerTools,
    channel: Channel,
    closing: AsyncExitStack,
    trust: "SessionTrust | None",
) -> "RunningServers | None":
    """Return the MCP servers of a session; None if none is configured."""
    if trust is None or not config.may_have_servers:
        return None
    from ebbtide.agent.mcp.running import RunningServers  # noqa: PLC0415  # deferred: few projects have servers

    servers = RunningServers(config, environment, root, served, channel, trust)
    closing.push_async_callback(servers.close)
    return servers


def hooks_in(
    config: Config,
    recorder: Recorder,
    workspace: Workspace,
    channel: Channel,
    secrets: SecretTokens,
    mode: Callable[[], Mode],
    closing: AsyncExitStack,
    trust: "SessionTrust | None",
    guard: Guard,
    source: "StartSource | None",
) -> "SessionHooks | None":
    """Return the hooks of a session; None if none is configured."""
    if trust is None or not config.may_have_hooks:
        return None
    from ebbtide.agent.hooks.opening import session_hooks  # noqa: PLC0415  # deferred: few users have hooks

    async def read(start: int) -> tuple[Sequence[Message], int, Mapping[int, Usage]]:
        messages, end = await recorder.log.messages(start)
        return secrets.messages(tuple(messages)), end, await recorder.log.usage_by_reply(start, end)

    guarded = partial(guard, "run", (), reads_only=False, show=lambda _: None)
    hooks = session_hooks(
        config,
        recorder.session,
        workspace,
        channel,
        read,
        mode,
        source,
        trust,
        guarded,
    )
    if hooks is not None:
        closing.push_async_callback(hooks.close)
    return hooks
