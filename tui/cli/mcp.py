"""`ebb mcp`: arguments and output of its actions."""

import argparse
import asyncio
import os
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ebbtide.agent.config.values import Config
from ebbtide.agent.context.estimate import estimate_tools
from ebbtide.agent.errors import ConfigError, LoginNeeded, ServerFailed, UsageError
from ebbtide.agent.extensions.trust import FolderTrust
from ebbtide.agent.extensions.trust_question import item_question
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.mcp.approvals import ToolApproval, digests_of, item_of, terms, tools_question
from ebbtide.agent.mcp.declarations import DeclaredServer, UnusableServer, declared_servers
from ebbtide.agent.mcp.manage import (
    ServerRow,
    approvals_of,
    find_server,
    log_of,
    login_of,
    make_server,
    pins_of,
    rows,
    running_server,
    table_for,
    write_server,
)
from ebbtide.agent.window.deferral import specs_of
from ebbtide.tools.mcp.client_handlers import ClientHandlers
from ebbtide.tools.mcp.offers import McpTool, ServerState
from ebbtide.tools.mcp.spec import ServerSpec
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.secrets.redaction import redact_text
from ebbtide.tools.server_log import last_lines
from ebbtide.tui.cli import mcp_serve
from ebbtide.tui.cli.arguments import (
    add_common,
    confirm,
    first_word,
    parse_subcommand_args,
    parser_of,
    read_settings,
    whole_number,
)
from ebbtide.tui.cli.subcommands import subcommand_at
from ebbtide.tui.text.sanitise import sanitised, sanitised_line

LINES = 50
"""Default number of log lines."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb mcp`; return the exit code."""
    first = first_word(arguments)
    action = arguments[first] if first is not None else "list"
    if first is None or action not in _ACTIONS:
        parser = parser_of(
            "mcp",
            "Servers of the Model Context Protocol, which bring tools.",
            "`ebb mcp ACTION --help` tells more. "
            "Exit codes: 0 all is well, 2 usage, 3 a server cannot be used, 4 one wants a login.",
        )
        told = (
            "list: the state of each (also without a word). add: NAME URL, or NAME -- COMMAND. "
            "import: those of other programs. test: start, tell what "
            "it offers, end. login: in your browser. logs: what it printed. "
            "serve: the other way round, this agent as a server for another one."
        )
        parser.add_argument("action", nargs="?", choices=tuple(_ACTIONS), default="list", help=told)
        parse_subcommand_args(parser, arguments, "JSON lines")  # ends here with `--help` or a wrong word
        return _list(arguments)
    return _ACTIONS[action]([*arguments[:first], *arguments[first + 1 :]])


def _list(arguments: Sequence[str]) -> int:
    parser = _parser("list", "The declared servers and the state of each. None is started.")
    options = parser.parse_args(arguments)
    _, config = read_settings(options)
    found = rows(config, os.environ)
    for row in found:
        if options.json:
            print_json(sys.stdout, asdict(row))
        else:
            print(sanitised_line(_row_line(row)))
    if not found and not options.json:
        print("no servers; `ebb mcp add NAME -- COMMAND` or `ebb mcp add NAME URL` adds one")
    return 0


def _row_line(row: ServerRow) -> str:
    detail = f"  ({row.detail})" if row.detail else ""
    ignored = f"  [not supported: {', '.join(row.ignored)}]" if row.ignored else ""
    return f"{row.standing:<12}  {row.name or row.source:<16}  {row.owner:<7}  {row.target}{detail}{ignored}"


def _add(arguments: Sequence[str]) -> int:
    before, after = _split_at_dashes(arguments)
    parser = _parser("add", "Adds a server to your configuration: `ebb mcp add NAME URL`, or NAME -- COMMAND.")
    parser.add_argument("name", help="what its tools are named after: mcp__NAME__TOOL")
    parser.add_argument("target", nargs="*", help="its address, or its command; what follows `--` is the command")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="of the command; ${VAR} works")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="sent to the address")
    parser.add_argument("--sse", action="store_true", help="the address speaks the older transport of events")
    parser.add_argument("--cwd", metavar="FOLDER", help="where the command runs; the project's folder without it")
    parser.add_argument("--client-id", metavar="ID", help="of a client that is registered with the server's login")
    parser.add_argument("--scope", action="append", default=[], metavar="SCOPE", help="asked for at a login")
    parser.add_argument("--replace", action="store_true", help="also where there is a server of that name")
    options = parser.parse_intermixed_args(before)
    _, config = read_settings(options)
    words = [*options.target, *after]
    if not words:
        raise UsageError(f"what is `{options.name}`? write its address, or its command after `--`")
    if options.name in config.servers and not options.replace:
        raise UsageError(f"there is a server `{options.name}`; `--replace` writes this one in its place")
    alike = [other for other in config.servers if ServerSpec(other).prefix == ServerSpec(options.name).prefix]
    if set(alike) - {options.name}:
        raise UsageError(
            f"`{options.name}` could not be told from `{alike[0]}` in the names of tools; choose another name"
        )
    is_address = not after and len(words) == 1 and "://" in words[0]
    given = {"url": words[0]} if is_address else {"command": words[0], "args": words[1:]}
    table = table_for(
        options.name,
        {
            **given,
            "env": _pairs(options.env, "--env"),
            "headers": _pairs(options.header, "--header"),
            "type": "sse" if options.sse else "",
            "cwd": options.cwd,
            "client_id": options.client_id,
            "scopes": options.scope,
        },
        config,
    )
    path = config.folders.config / "config.toml"
    write_server(path, options.name, table)
    said = f"added `{options.name}` to `{path}`; `ebb mcp test {options.name}` tries it"
    _print_result(options, {"name": options.name, "file": str(path), "server": table}, said)
    return 0


def _remove(arguments: Sequence[str]) -> int:
    parser = _parser("remove", "Removes a server, and what a login to it gave, from your configuration.")
    parser.add_argument("name", metavar="SERVER", help="as `ebb mcp list` names it")
    options = parser.parse_args(arguments)
    _, config = read_settings(options)
    path = config.folders.config / "config.toml"
    if options.name not in config.servers:
        found = find_server(options.name, config, os.environ)
        raise UsageError(
            f"`{options.name}` is declared in `{found.source}`: remove it there, or name it in `mcp.disabled`"
        )
    declared = [one for one in declared_servers(config, os.environ) if one.name == options.name]
    write_server(path, options.name, None)
    for one in declared:
        if isinstance(one, DeclaredServer):
            login_of(one, config).unlink(missing_ok=True)
    _print_result(options, {"name": options.name, "file": str(path)}, f"removed `{options.name}` from `{path}`")
    return 0


def _test(arguments: Sequence[str]) -> int:
    parser = _parser("test", "Starts servers, says what they offer, and ends them.")
    parser.add_argument("names", nargs="*", metavar="SERVER", help="all that are declared, when none is named")
    parser.add_argument("--approve", action="store_true", help="approve what a project declares, and its tools")
    options = parser.parse_args(arguments)
    _, config = read_settings(options)
    if options.names:
        chosen: Sequence[DeclaredServer | UnusableServer] = [
            find_server(name, config, os.environ) for name in options.names
        ]
    else:
        chosen = [
            one for one in declared_servers(config, os.environ) if not (isinstance(one, UnusableServer) and one.is_off)
        ]
    codes = [0]
    for one in chosen:
        if isinstance(one, UnusableServer):
            _print_result(options, {"name": one.name, "phase": "unusable", "detail": one.problem}, f"BAD   {one.line}")
            codes.append(2)
        else:
            codes.append(_test_one(one, config, options))
    return next(code for code in (3, 4, 2, 0) if code in codes)


def _test_one(declared: DeclaredServer, config: Config, options: argparse.Namespace) -> int:
    if not _may_start(declared, config, options):
        detail = f"it is not approved; `ebb mcp test {declared.name} --approve` approves it"
        _print_result(
            options,
            {"name": declared.name, "phase": "not approved", "detail": detail},
            "\n".join([f"BAD   {declared.name}: {detail}:", *(f"  {term}" for term in terms(declared))]),
        )
        return 2

    async def look() -> tuple[ServerState, float]:
        began = time.monotonic()
        async with running_server(declared, ClientHandlers(), config) as server:
            return server.state, time.monotonic() - began

    state, seconds = asyncio.run(look())
    if options.json:
        print_json(sys.stdout, {"name": declared.name, "seconds": round(seconds, 3), **_state_json(state)})
    else:
        print("\n".join(map(sanitised, _state_lines(declared.name, state, seconds))))
    if state.phase == "ready":
        _approve_tools(declared, config, state, options)
    return {"ready": 0, "needs_login": 4}.get(state.phase, 3)


def _may_start(declared: DeclaredServer, config: Config, options: argparse.Namespace) -> bool:
    """Whether the server may be started; asks in a terminal."""
    trust, item = FolderTrust(config), item_of(declared)
    if trust.standing(item) == "on":
        return True
    if options.approve or confirm(item_question(item, trust.before(item)), as_json=options.json):
        trust.decide([item], "approved")
        return True
    return False


def _approve_tools(declared: DeclaredServer, config: Config, state: ServerState, options: argparse.Namespace) -> None:
    approvals = pins_of(config) if declared.owner == "user" else approvals_of(config)
    approval = approvals.of(declared.name, declared.digest) or ToolApproval(declared.digest)
    digests = digests_of(state.approvable)
    new = [tool for tool in state.approvable if approval.tools.get(tool.original) != digests[tool.original]]
    question = tools_question(declared.name, new, state.notes, approval.seen, has_changed=bool(approval.tools))
    if new and (options.approve or confirm(question, as_json=options.json)):
        approvals.allow_tools(declared, {**approval.tools, **digests}, state.approvable)


def _state_json(state: ServerState) -> dict[str, object]:
    return {
        "phase": state.phase,
        "detail": state.detail,
        "server": {"name": state.name, "version": state.version, "protocol": state.protocol},
        "tools": [
            {"name": tool.name, "description": tool.description, "schema": tool.schema, "tokens": _tokens(tool)}
            for tool in state.tools
        ],
        "resources": [resource.uri for resource in (*state.resources, *state.templates)],
        "prompts": [prompt.name for prompt in state.prompts],
        "notes": list(state.notes),
    }


def _state_lines(name: str, state: ServerState, seconds: float) -> list[str]:
    if state.phase == "needs_login":
        return [f"BAD   {name} wants you to log in: `ebb mcp login {name}`"]
    if state.phase != "ready":
        return [f"BAD   {name}: {state.detail}"]
    tokens = sum(map(_tokens, state.tools))
    tools, resources, prompts = (
        pluralize(len(found), noun)
        for found, noun in ((state.tools, "tool"), (state.resources, "resource"), (state.prompts, "prompt"))
    )
    what = f"{tools} ({tokens:,} tokens), {resources}, {prompts}"
    return [
        f"ok    {name}: {state.name} {state.version}, {what}, in {seconds:.1f} s",
        *(f"      {tool.name}: {' '.join(tool.description.split())[:100]}" for tool in state.tools),
        *(f"note  {note}" for note in state.notes),
    ]


def _tokens(tool: McpTool) -> int:
    return estimate_tools(specs_of((tool,)))


def _login(arguments: Sequence[str]) -> int:
    parser = _parser("login", "Logs in to a server: your browser is opened, and what it gives is kept for you alone.")
    parser.add_argument("name", metavar="SERVER", help="as `ebb mcp list` names it")
    parser.add_argument("--no-browser", action="store_true", help="only print the address to open")
    options = parser.parse_args(arguments)
    _, config = read_settings(options)
    declared = find_server(options.name, config, os.environ)
    if not declared.spec.url:
        raise UsageError(f"`{declared.name}` is a command on this machine: there is nothing to log in to")
    if not _may_start(declared, config, argparse.Namespace(json=options.json, approve=False)):
        raise UsageError(f"`{declared.name}` is not approved: `ebb mcp test {declared.name} --approve` approves it")

    async def work() -> ServerState:
        server = make_server(declared, Browser(opens=not options.no_browser), config)
        try:
            return await server.login()
        finally:
            await server.close()

    state = asyncio.run(work())
    if state.phase == "needs_login":
        raise LoginNeeded(f"you are not logged in to `{declared.name}`: {state.detail}")
    if state.phase != "ready":
        raise ServerFailed(f"`{declared.name}` cannot be used: {state.detail}")
    _print_result(options, {"name": declared.name, "phase": state.phase}, f"you are logged in to `{declared.name}`")
    return 0


class Browser(ClientHandlers):
    """Shows the login URL."""

    def __init__(self, *, opens: bool) -> None:
        self._opens = opens

    async def open_login(self, server: str, url: str) -> None:
        print(f"ebb: to log in to `{server}`, open {sanitised_line(url)}", file=sys.stderr, flush=True)
        if self._opens:
            await asyncio.to_thread(webbrowser.open, url)


def _logs(arguments: Sequence[str]) -> int:
    parser = _parser("logs", "The end of what a server printed on its error output, and of what it had to say.")
    parser.add_argument("name", metavar="SERVER", help="as `ebb mcp list` names it")
    parser.add_argument(
        "-n", "--lines", type=whole_number, default=LINES, metavar="N", help=f"how many; {LINES} at first"
    )
    options = parser.parse_args(arguments)
    if options.lines < 1:
        parser.error("ask for at least one line")
    _, config = read_settings(options)
    declared = find_server(options.name, config, os.environ)
    path = log_of(declared, config)
    lines = [redact_text(line, os.environ, declared.spec.secrets) for line in _last_lines(path, options.lines)]
    if options.json:
        print_json(sys.stdout, {"name": declared.name, "file": str(path), "lines": lines})
        return 0
    print(f"ebb: {path}" if lines else f"ebb: nothing was written to `{path}` yet", file=sys.stderr)
    for line in lines:
        print(sanitised_line(line))
    return 0


def _last_lines(path: Path, count: int) -> list[str]:
    try:
        return last_lines(path, count)
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror or error}") from error


def _parser(action: str, description: str) -> argparse.ArgumentParser:
    parser = parser_of(f"mcp {action}", description)
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    add_common(parser)
    return parser


def _split_at_dashes(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at `--`."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:place]], [*arguments[place + 1 :]]


def _pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    pairs = dict[str, str]()
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"`{flag} {text}` is not NAME=VALUE")
        pairs[name] = value
    return pairs


def _print_result(options: argparse.Namespace, value: Mapping[str, object], said: str) -> None:
    """Print a result as JSON or text."""
    if options.json:
        print_json(sys.stdout, value)
    else:
        print(sanitised(said))


_ACTIONS: dict[str, Callable[[Sequence[str]], int]] = {
    "list": _list,
    "add": _add,
    "import": lambda arguments: subcommand_at("mcp_import:run")(arguments),
    "remove": _remove,
    "test": _test,
    "login": _login,
    "logs": _logs,
    "serve": mcp_serve.serve,
}
