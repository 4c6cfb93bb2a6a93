"""The servers of one session: which of them run, what they bring into it, and what its user has to know or to decide
about them."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent.channel import Channel
from agent.config.values import Config
from agent.errors import ConfigError
from agent.events import Noticed
from agent.mcp.approvals import Approvals
from agent.mcp.consent import APPROVE, NEVER, START_OPTIONS, TOOL_OPTIONS, digests_of, start_question, tools_question
from agent.mcp.declared import Declared, Unusable, declared_servers
from agent.mcp.mentions import with_named
from agent.mcp.server_requests import AttendedSession, ServerRequests
from agent.mcp.status import ServerEntry, ServerStatus
from agent.messages import User
from agent.window.env import Env
from agent.window.server_tools import ServerTools
from tools.base import Tool
from tools.mcp.client_handlers import ClientHandlers
from tools.mcp.log import last_lines
from tools.mcp.server import Server, close_all

HEADLESS_WAIT = 5.0
"""Seconds that the first request waits for servers where nobody is there to wait for it."""


class RunningServers:
    """Started when a session is opened, heard when its turns begin, and all closed at once."""

    def __init__(
        self,
        found: Sequence[Declared | Unusable],
        approvals: Approvals,
        served: ServerTools,
        make: Callable[[Declared, ServerRequests], Server],
        handlers: ServerRequests,
        wait: float,
    ) -> None:
        """`wait`: seconds that the first request waits for servers that start."""
        self.entries = {one.name: ServerEntry(one) for one in found if isinstance(one, Declared)}
        self.unusable = tuple(one for one in found if isinstance(one, Unusable))
        self._approvals = approvals
        self._served = served
        self._make = make
        self._handlers = handlers
        self._wait = wait
        self._watcher: Callable[[], None] | None = None
        self._news = [one.line for one in self.unusable if not one.is_off]

    def start(self, env: Env, channel: Channel) -> None:
        """Starts those that may run, in the background, to be heard in this session."""
        self._handlers.hearing = AttendedSession(env, channel)
        for entry in self.entries.values():
            if entry.declared.owner == "user":
                self._start(entry)
                continue
            entry.allowed = {}
            approval = self._approvals.of(entry.name, entry.declared.digest)
            if approval is not None and approval.verdict == "approved":
                entry.allowed = approval.tools
                self._start(entry)
            entry.is_refused = approval is not None and approval.verdict == "refused"

    def _start(self, entry: ServerEntry) -> None:
        entry.server = self._make(entry.declared, self._handlers)
        entry.server.start()

    async def settle(self, *, first: bool) -> None:
        """At the start of a turn: approvals are asked for, before the first request it is waited a while, and what is
        wrong is told, a line each."""
        for line in self._news:
            self._tell_now(line)
        self._news.clear()
        for entry in self.entries.values():
            if entry.server is None and not entry.is_refused and not entry.is_off:
                await self._ask_to_start(entry)
        if first:
            await self._wait_for_those_that_start()
        for entry in self.entries.values():
            if entry.withheld():
                await self._ask_for_tools(entry)
        self._take_stock()

    async def with_named(self, said: User) -> User:
        """What the user said, with the prompts and resources that it names. Raises `UsageError`."""
        running = [entry.server for entry in self.entries.values() if entry.server is not None]
        return await with_named(said, running, self._tell_now)

    def servers(self) -> tuple[ServerStatus, ...]:
        """All of them as their user sees them."""
        hearing = self._handlers.hearing
        return tuple(entry.status(hearing.env) for entry in self.entries.values()) if hearing is not None else ()

    def named(self) -> tuple[ServerStatus, ...]:
        """The same without their tools. It is asked for at every key that is pressed."""
        return tuple(entry.status() for entry in self.entries.values())

    def watch(self, changed: Callable[[], None] | None) -> None:
        """`changed` is called after every change of a server, until somebody else watches."""
        self._watcher = changed

    async def restart(self, name: str) -> None:
        server = self.entries[name].server
        if server is not None:
            await server.restart()

    def log(self, name: str, lines: int) -> Sequence[str]:
        """The last lines of what a server printed on its error output; why they cannot be read, if they cannot."""
        server = self.entries[name].server
        try:
            return last_lines(server.log, lines) if server is not None else ()
        except OSError as error:
            return (f"cannot read `{error.filename}`: {error.strerror}",)

    async def login(self, name: str, show: Callable[[str], None]) -> None:
        """Starts a server again and lets the user log in if it wants that, at the address that is shown."""
        server = self.entries[name].server
        if server is None:
            return
        self._handlers.shows_login[name] = show
        try:
            await server.login()
        finally:
            if self._handlers.shows_login.get(name) is show:  # no later login has taken its place
                del self._handlers.shows_login[name]

    async def switch(self, name: str) -> None:
        """Ends a server that runs, and starts one that does not. One that is not approved is asked for with the next
        turn."""
        entry = self.entries[name]
        if entry.server is not None:
            entry.is_off, server = True, entry.server
            entry.server = None
            await server.close()
        elif entry.is_off:
            entry.is_off = False
            self._start(entry)
        else:
            entry.is_refused, entry.postponed = False, frozenset()
        self.changed(name)

    async def close(self) -> None:
        """Ends them all."""
        self._handlers.hearing = self._watcher = None
        await close_all([entry.server for entry in self.entries.values() if entry.server is not None])

    def changed(self, name: str) -> None:
        """Something about a server is otherwise than before."""
        self._take_stock()
        if self._watcher is not None:
            self._watcher()
        entry = self.entries.get(name)
        if entry is None or entry.server is None:
            return
        match entry.state.phase:
            case "failed":
                self._tell_once(entry, f"the server `{name}` cannot be used: {entry.state.detail}")
            case "needs_login":
                self._tell_once(entry, f"the server `{name}` wants you to log in: run `ebb mcp login {name}`")
            case "starting" if entry.state.detail:
                self._tell_once(entry, f"the server `{name}` has broken down: {entry.state.detail}")
            case "ready":
                for note in entry.state.notes:
                    self._tell_once(entry, f"the server `{name}`: {note}")
            case _:
                pass

    def _take_stock(self) -> None:
        """What servers offer now is what may be called."""
        offered: list[Tool] = [tool for entry in self.entries.values() for tool in entry.offered()]
        withheld = {tool.name: entry.name for entry in self.entries.values() for tool in entry.withheld()}
        why = "its server `{}` has changed it, and the user has not approved that yet"
        self._served.offer(offered, {name: why.format(server) for name, server in withheld.items()})

    async def _ask_to_start(self, entry: ServerEntry) -> None:
        declared = entry.declared
        if declared.digest in entry.postponed:
            return
        has_changed = self._approvals.is_known(entry.name)
        answer = await self._answer(start_question(declared, has_changed=has_changed), START_OPTIONS)
        if answer is None:
            what = "has changed since it was approved" if has_changed else "is not approved"
            self._tell_once(entry, _ignored(f"the server `{entry.name}` of `{declared.source}` {what}", entry.name))
            return
        if answer == APPROVE:
            self._keep(lambda: self._approvals.decide(entry.name, declared.digest, "approved"))
            self._start(entry)
            if entry.server is not None:
                await entry.server.ready()
        elif answer == NEVER:
            self._keep(lambda: self._approvals.decide(entry.name, declared.digest, "refused"))
            entry.is_refused = True
        else:
            entry.postponed |= {declared.digest}

    async def _ask_for_tools(self, entry: ServerEntry) -> None:
        tools = entry.withheld()
        digests = frozenset(digests_of(tools).values())
        if digests <= entry.postponed:
            return
        has_changed = bool(entry.allowed)
        answer = await self._answer(
            tools_question(entry.name, tools, entry.state.notes, has_changed=has_changed), TOOL_OPTIONS
        )
        if answer is None:
            named = ", ".join(f"`{tool.original}`" for tool in tools[:5]) + (" and others" if len(tools) > 5 else "")
            what = f"the tools {named} of the server `{entry.name}` are not approved"
            self._tell_once(entry, _ignored(what, entry.name))
        elif answer == APPROVE:
            allowed = {**(entry.allowed or {}), **digests_of(tools)}
            entry.allowed = allowed
            self._keep(lambda: self._approvals.allow_tools(entry.name, entry.declared.digest, allowed))
        else:
            entry.postponed |= digests

    async def _answer(self, question: str, options: tuple[str, ...]) -> str | None:
        """None when nobody is there to ask."""
        hearing = self._handlers.hearing
        if hearing is None or not hearing.channel.is_interactive:
            return None
        return await hearing.answer(question, options)

    async def _wait_for_those_that_start(self) -> None:
        starting = {
            asyncio.ensure_future(entry.server.ready()): entry
            for entry in self.entries.values()
            if entry.server is not None and entry.state.phase == "starting"
        }
        if not starting or self._wait <= 0:
            for task in starting:
                task.cancel()
            return
        try:
            _, late = await asyncio.wait(starting, timeout=self._wait)
            for task in late:
                entry = starting[task]
                self._tell_once(
                    entry, f"the server `{entry.name}` was not ready within {self._wait:g} s: its tools come later"
                )
        finally:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)

    def _keep(self, write: Callable[[], None]) -> None:
        try:
            write()
        except ConfigError as error:
            self._tell(f"what you approved holds for this session only: {error}")

    def _tell_once(self, entry: ServerEntry, line: str) -> None:
        if line not in entry.told:
            entry.told.add(line)
            self._tell(line)

    def _tell(self, line: str) -> None:
        hearing = self._handlers.hearing
        if hearing is not None and hearing.channel.is_open and not self._news:  # what is older is told first
            self._tell_now(line)
        else:
            self._news.append(line)

    def _tell_now(self, line: str) -> None:
        if self._handlers.hearing is not None:
            self._handlers.hearing.channel.emit(Noticed(line))


def _ignored(what: str, server: str) -> str:
    return f"{what}, so it is left out; start `ebb` in a terminal to decide, or run `ebb mcp test {server} --approve`"


def servers_of(
    config: Config, environment: Mapping[str, str], root: Path, served: ServerTools, *, interactive: bool
) -> RunningServers:
    """The servers of a session in a folder, to be started."""
    wait = config.mcp_startup_timeout
    running: RunningServers
    handlers = ServerRequests(root, lambda name: running.changed(name), interactive=interactive)
    running = RunningServers(
        declared_servers(config, environment),
        approvals_of(config),
        served,
        lambda declared, handlers: make_server(declared, handlers, config),
        handlers,
        (0.0 if interactive else HEADLESS_WAIT) if wait is None else wait,
    )
    return running


def make_server(declared: Declared, handlers: ClientHandlers, config: Config) -> Server:
    return Server(declared.spec, handlers, log_of(declared, config), login_of(declared, config))


def log_of(declared: Declared, config: Config) -> Path:
    """The file with what a server prints on its error output."""
    return config.folders.logs / "mcp" / f"{declared.spec.prefix}.log"


def login_of(declared: Declared, config: Config) -> Path:
    """The file with what a login gave. It is for one address, since it must not be shown to another."""
    address = hashlib.sha256(declared.spec.url.encode()).hexdigest()[:12]
    return config.folders.data / "mcp" / "logins" / f"{declared.spec.prefix}-{address}.json"


def approvals_of(config: Config) -> Approvals:
    """What the user has allowed of this project's servers."""
    return Approvals(config.folders.data / "mcp" / "approvals.json", config.project)
