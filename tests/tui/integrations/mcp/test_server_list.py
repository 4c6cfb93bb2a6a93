"""The servers of a session, looked at and switched by keys; and what the prompt offers of them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ebbtide.agent.integrations.mcp.declarations import DeclaredServer, ServerDeclaration
from ebbtide.agent.integrations.mcp.running_servers import RunningServers
from ebbtide.agent.integrations.mcp.status import ServerStatus, ToolStatus
from ebbtide.tools.integrations.mcp.offers import McpPrompt, McpResource, PromptArgument, ServerState
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tui.integrations.mcp.server_list import server_details, server_line, servers_summary
from ebbtide.tui.prompt.completion import prompt_completions
from tests.kit.app_pilot import list_on, terminal
from tests.kit.fake_sessions import FakeSession
from tests.kit.plain_lines import plain

SOURCE = "/home/me/project/.mcp.json"
COMMAND = ("forge-mcp", "--stdio")
ARGUMENTS = (PromptArgument("file", is_required=True), PromptArgument("style"))
FORGE = ServerStatus(
    DeclaredServer(
        ServerSpec("forge", COMMAND, cwd=Path("/home/me/project")), "project", SOURCE, "d1", ServerDeclaration(COMMAND)
    ),
    ServerState(
        "ready",
        name="Forge",
        version="2.1",
        resources=(McpResource("forge://guide", "guide"), McpResource("forge://rules", "rules")),
        prompts=(McpPrompt("mcp__forge__review", "review", "Reviews a file.", ARGUMENTS),),
        notes=("`spy` has hidden characters in its description; they are removed",),
    ),
    Path("/home/me/.ebb/logs/mcp/forge.log"),
    (
        ToolStatus("create_issue", "Opens an issue.", 180, "offered"),
        ToolStatus("merge", "Merges a pull request.", 240, "deferred"),
        ToolStatus("wipe", "Deletes \x1b[31mall\nof it.", 90, "not approved"),
    ),
)
CHAT = ServerStatus(
    DeclaredServer(ServerSpec("chat"), "project", SOURCE, "d2", ServerDeclaration(url="https://chat.example/mcp")),
    ServerState("failed", "`chat-mcp`: No such file or directory"),
    log_path=None,
)


@dataclass
class FakeBoard(RunningServers):
    seen: list[ServerStatus] = field(default_factory=lambda: [FORGE, CHAT])
    done: list[str] = field(default_factory=list)
    on_change: Callable[[], None] | None = None
    logged_in: asyncio.Event = field(default_factory=asyncio.Event)

    def statuses_with_tools(self) -> tuple[ServerStatus, ...]:
        return tuple(self.seen)

    def statuses(self) -> tuple[ServerStatus, ...]:
        return tuple(replace(each, tools=()) for each in self.seen)

    def set_watcher(self, changed: Callable[[], None] | None) -> None:
        self.on_change = changed

    async def toggle(self, name: str) -> None:
        self.done.append(f"switch {name}")

    async def restart(self, name: str) -> None:
        self.done.append(f"restart {name}")

    def last_log_lines(self, name: str, lines: int) -> list[str]:
        return [f"{name} \x1b[2Jsays {lines}"]

    async def log_in(self, name: str, show: Callable[[str], None]) -> None:
        show("https://chat.example/login")
        await self.logged_in.wait()
        self.done.append(f"login {name}")


async def test_the_marked_server_is_told_of_switched_and_started_again() -> None:
    board = FakeBoard()
    async with terminal(FakeSession(servers=board)) as t:
        await t.opens("/mcp")
        await t.until(lambda: "Forge 2.1" in t.reads("said"))
        await t.press("down", until=lambda: "No such file" in t.reads("said"))
        await t.press("space", "up", "r", until=lambda: board.done == ["switch chat", "restart forge"])
        board.seen = [replace(FORGE, state=replace(FORGE.state, version="3"))]
        assert board.on_change is not None
        board.on_change()
        await t.until(lambda: "Forge 3" in t.reads("said"))
        await t.press("escape", until=lambda: not list_on(t.app, "mcp"))
        assert board.on_change is None


async def test_what_changes_while_the_list_is_being_opened_is_shown() -> None:
    class LateBoard(FakeBoard):
        def set_watcher(self, changed: Callable[[], None] | None) -> None:
            self.seen = [FORGE, replace(CHAT, state=replace(CHAT.state, detail="it ended"))]
            super().set_watcher(changed)

    async with terminal(FakeSession(servers=LateBoard())) as t:
        await t.opens("/mcp")
        await t.press("down", until=lambda: "it ended" in t.reads("said"))


async def test_the_address_to_log_in_at_is_shown_until_that_is_done() -> None:
    board = FakeBoard()
    async with terminal(FakeSession(servers=board)) as t:
        await t.opens("/mcp")
        await t.press("down", "l", until=lambda: "https://chat.example/login" in t.reads("headline"))
        await t.press("y", until=lambda: t.app.clipboard == "https://chat.example/login")
        board.logged_in.set()
        await t.until(lambda: "https://" not in t.reads("headline"))
        assert board.done == ["login chat"]


async def test_one_key_shows_the_log_and_takes_it_away() -> None:
    async with terminal(FakeSession(servers=FakeBoard())) as t:
        await t.opens("/mcp")
        await t.press("o", until=lambda: t.reads("said") == "Log  /home/me/.ebb/logs/mcp/forge.log\nforge ␛[2Jsays 200")
        await t.press("o", until=lambda: "Forge 2.1" in t.reads("said"))


async def test_without_servers_it_says_how_to_get_one() -> None:
    async with terminal(FakeSession()) as t:
        await t.type("/mcp", shows="No MCP servers yet. Add one with ebb mcp add.")


async def test_a_prompt_of_a_server_is_a_message() -> None:
    session = FakeSession(servers=FakeBoard())
    async with terminal(session) as t:
        await t.type("/mcp__forge__review a.py", until=lambda: session.said == ["/mcp__forge__review a.py"])


def test_everything_about_a_server_is_said_and_nothing_of_it_draws() -> None:
    text = "\n".join(map(plain, server_details(FORGE)))
    assert text == (
        "Forge 2.1\n"
        "command: forge-mcp --stdio\n"
        "folder: /home/me/project\n"
        "from: /home/me/project/.mcp.json\n"
        "log: /home/me/.ebb/logs/mcp/forge.log\n"
        "`spy` has hidden characters in its description; they are removed\n"
        "\n"
        "Tools  3\n"
        "  create_issue  180  Opens an issue.\n"
        "  merge  240  deferred  Merges a pull request.\n"
        "  wipe  90  not approved  Deletes ␛[31mall of it.\n"
        "\n"
        "Prompts  1\n"
        "  /mcp__forge__review FILE [STYLE]  Reviews a file.\n"
        "\n"
        "Resources  2\n"
        "  @forge:forge://guide\n"
        "  @forge:forge://rules"
    )
    assert servers_summary([FORGE, CHAT]) == "1 of 2 ready, 180 tokens per request"


def test_the_prompt_offers_prompts_and_resources_of_servers() -> None:
    def offered(text: str) -> list[tuple[str, bool]]:
        return [
            (candidate.text_before, candidate.is_final)
            for candidate in prompt_completions(text, FakeBoard().statuses())
        ]

    assert offered("/mcp_") == [("/mcp__forge__review ", False)]
    assert offered("see @ru") == [("see @forge:forge://rules ", False)]
    assert offered("see @forge") == [("see @forge:forge://guide ", False), ("see @forge:forge://rules ", False)]
    assert offered("me@forge") == offered("/src/a.py") == offered("plain words") == []
    assert [insert for insert, _ in offered("/conte")] == ["/context "]


def test_of_a_server_that_failed_no_tools_are_counted() -> None:
    failed = replace(FORGE, tools=(), state=ServerState("failed", "it ended with exit code 1"))
    assert plain(server_line(failed, 5)) == "forge  failed     it ended with exit code 1"
    assert servers_summary([failed]) == "0 of 1 ready"
