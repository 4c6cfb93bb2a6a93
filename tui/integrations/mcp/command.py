"""`ebb mcp`: its arguments and the output of its actions."""

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
from ebbtide.agent.errors import ConfigError, LoginNeeded, ServerFailed, UsageError
from ebbtide.agent.extensions.trust import ProjectTrust
from ebbtide.agent.extensions.trust_question import build_item_question
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.integrations.mcp.approvals import (
    ToolApproval,
    approval_lines,
    build_tools_question,
    compute_tool_digests,
    create_trust_item,
)
from ebbtide.agent.integrations.mcp.declarations import DeclaredServer, UnusableServer, load_declared_servers
from ebbtide.agent.integrations.mcp.manage import (
    ServerRow,
    create_server,
    find_server,
    list_servers,
    log_path,
    login_path,
    open_project_approvals,
    open_user_tool_pins,
    run_server,
    validate_table,
    write_server,
)
from ebbtide.agent.tokens.estimate import estimate_tools
from ebbtide.agent.window.deferral import create_specs
from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.offers import McpTool, ServerState
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tools.integrations.server_log import read_last_lines
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.secrets.redaction import redact_text
from ebbtide.tui import integration_registry
from ebbtide.tui.cli.arguments import (
    add_common_flags,
    confirm,
    create_subcommand_parser,
    first_positional_index,
    parse_integer,
    parse_subcommand_args,
    read_settings,
)
from ebbtide.tui.text.sanitise import sanitise, sanitise_line

DEFAULT_LOG_LINES = 50
"""Default number of log lines to show."""


def run(arguments: Sequence[str]) -> int:
    """Run `ebb mcp`; return the exit code."""
    action_index = first_positional_index(arguments)
    action = arguments[action_index] if action_index is not None else "list"
    if action_index is None or action not in _ACTIONS:
        parser = create_subcommand_parser(
            "mcp",
            "Manage MCP servers (Model Context Protocol), which provide tools.",
            "See `ebb mcp ACTION --help` for details. Exit codes: 0 no problems, 2 usage, 3 server unusable, 4 login "
            "needed.",
        )
        action_help = (
            "list: show the servers and their state (default). add: NAME URL, or NAME -- COMMAND. import: add servers "
            "of other programs. remove: delete a server. test: start servers and show what they offer. login: log in "
            "with your browser. logs: show a server's log. serve: run as an MCP server for another agent."
        )
        parser.add_argument("action", nargs="?", choices=tuple(_ACTIONS), default="list", help=action_help)
        parse_subcommand_args(parser, arguments, "JSON lines")  # exits here on `--help` or an unknown action
        return _list(arguments)
    return _ACTIONS[action]([*arguments[:action_index], *arguments[action_index + 1 :]])


def _list(arguments: Sequence[str]) -> int:
    parser = _create_parser("list", "List the declared servers and their state, without starting them.")
    options = parser.parse_args(arguments)
    _, config = read_settings(options)
    rows = list_servers(config, os.environ)
    for row in rows:
        if options.json:
            print_json(sys.stdout, asdict(row))
        else:
            print(sanitise_line(_row_line(row)))
    if not rows and not options.json:
        print("no MCP servers yet; add one with `ebb mcp add NAME -- COMMAND` or `ebb mcp add NAME URL`")
    return 0


def _row_line(row: ServerRow) -> str:
    detail = f"  ({row.detail})" if row.detail else ""
    ignored = f"  [not supported: {', '.join(row.ignored)}]" if row.ignored else ""
    return f"{row.standing:<12}  {row.name or row.source:<16}  {row.owner:<7}  {row.target}{detail}{ignored}"


def _add(arguments: Sequence[str]) -> int:
    flag_arguments, command_arguments = _split_at_dashes(arguments)
    parser = _create_parser(
        "add", "Add a server to your configuration: `ebb mcp add NAME URL` or `ebb mcp add NAME -- COMMAND`."
    )
    parser.add_argument("name", help="name of the server; its tools are called mcp__NAME__TOOL")
    parser.add_argument("target", nargs="*", help="URL, or command; everything after `--` is the command")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an environment variable of the command; ${VAR} works",
    )
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="send this HTTP header")
    parser.add_argument("--sse", action="store_true", help="use the older SSE transport")
    parser.add_argument("--cwd", metavar="FOLDER", help="run the command in FOLDER (default: the project)")
    parser.add_argument("--client-id", metavar="ID", help="use this OAuth client id")
    parser.add_argument(
        "--scope", action="append", default=[], metavar="SCOPE", help="request this OAuth scope (repeatable)"
    )
    parser.add_argument("--replace", action="store_true", help="replace an existing server of this name")
    options = parser.parse_intermixed_args(flag_arguments)
    _, config = read_settings(options)
    target = [*options.target, *command_arguments]
    if not target:
        raise UsageError(f"no URL or command for `{options.name}`; give its URL, or its command after `--`")
    if options.name in config.mcp_servers and not options.replace:
        raise UsageError(f"the server `{options.name}` already exists; replace it with `--replace`")
    names_with_prefix = [
        name for name in config.mcp_servers if ServerSpec(name).prefix == ServerSpec(options.name).prefix
    ]
    if set(names_with_prefix) - {options.name}:
        raise UsageError(
            f"the tools of `{options.name}` and `{names_with_prefix[0]}` would have the same names; choose another name"
        )
    is_url = not command_arguments and len(target) == 1 and "://" in target[0]
    target_fields = {"url": target[0]} if is_url else {"command": target[0], "args": target[1:]}
    table = validate_table(
        options.name,
        {
            **target_fields,
            "env": _parse_pairs(options.env, "--env"),
            "headers": _parse_pairs(options.header, "--header"),
            "type": "sse" if options.sse else "",
            "cwd": options.cwd,
            "client_id": options.client_id,
            "scopes": options.scope,
        },
        config,
    )
    path = config.folders.config / "config.toml"
    write_server(path, options.name, table)
    message = f"added `{options.name}` to `{path}`; test it with `ebb mcp test {options.name}`"
    _print_result(options, {"name": options.name, "file": str(path), "server": table}, message)
    return 0


def _remove(arguments: Sequence[str]) -> int:
    parser = _create_parser("remove", "Remove a server and its stored login from your configuration.")
    parser.add_argument("name", metavar="SERVER", help="name of the server, as in `ebb mcp list`")
    options = parser.parse_args(arguments)
    _, config = read_settings(options)
    path = config.folders.config / "config.toml"
    if options.name not in config.mcp_servers:
        server = find_server(options.name, config, os.environ)
        raise UsageError(
            f"`{options.name}` is declared in `{server.source}`: remove it there, or add it to `mcp.disabled`"
        )
    declarations = [
        declaration for declaration in load_declared_servers(config, os.environ) if declaration.name == options.name
    ]
    write_server(path, options.name, None)
    for declaration in declarations:
        if isinstance(declaration, DeclaredServer):
            login_path(declaration, config).unlink(missing_ok=True)
    _print_result(options, {"name": options.name, "file": str(path)}, f"removed `{options.name}` from `{path}`")
    return 0


def _test(arguments: Sequence[str]) -> int:
    parser = _create_parser("test", "Start servers, show what they offer, and stop them.")
    parser.add_argument("names", nargs="*", metavar="SERVER", help="servers to test (default: all)")
    parser.add_argument("--approve", action="store_true", help="approve the project's servers and their tools")
    options = parser.parse_args(arguments)
    _, config = read_settings(options)
    if options.names:
        chosen_servers: Sequence[DeclaredServer | UnusableServer] = [
            find_server(name, config, os.environ) for name in options.names
        ]
    else:
        chosen_servers = [
            server
            for server in load_declared_servers(config, os.environ)
            if not (isinstance(server, UnusableServer) and server.is_disabled)
        ]
    exit_codes = [0]
    for server in chosen_servers:
        if isinstance(server, UnusableServer):
            _print_result(
                options, {"name": server.name, "phase": "unusable", "detail": server.problem}, f"BAD   {server.notice}"
            )
            exit_codes.append(2)
        else:
            exit_codes.append(_test_server(server, config, options))
    return next(code for code in (3, 4, 2, 0) if code in exit_codes)


def _test_server(declaration: DeclaredServer, config: Config, options: argparse.Namespace) -> int:
    if not _ensure_approved(declaration, config, options):
        detail = f"not approved; approve it with `ebb mcp test {declaration.name} --approve`"
        _print_result(
            options,
            {"name": declaration.name, "phase": "not approved", "detail": detail},
            "\n".join([f"BAD   {declaration.name}: {detail}:", *(f"  {line}" for line in approval_lines(declaration))]),
        )
        return 2

    async def start_and_read_state() -> tuple[ServerState, float]:
        start_time = time.monotonic()
        async with run_server(declaration, ClientHandlers(), config) as server:
            return server.state, time.monotonic() - start_time

    state, seconds = asyncio.run(start_and_read_state())
    if options.json:
        print_json(sys.stdout, {"name": declaration.name, "seconds": round(seconds, 3), **_state_json(state)})
    else:
        print("\n".join(map(sanitise, _state_lines(declaration.name, state, seconds))))
    if state.phase == "ready":
        _approve_tools(declaration, config, state, options)
    return {"ready": 0, "needs_login": 4}.get(state.phase, 3)


def _ensure_approved(declaration: DeclaredServer, config: Config, options: argparse.Namespace) -> bool:
    """Check whether the server may be started. If it is not approved, ask the user, provided there is a terminal."""
    trust, item = ProjectTrust(config), create_trust_item(declaration)
    if trust.trust_state(item) == "on":
        return True
    if options.approve or confirm(build_item_question(item, trust.previous_approval(item)), as_json=options.json):
        trust.decide([item], "approved")
        return True
    return False


def _approve_tools(
    declaration: DeclaredServer, config: Config, state: ServerState, options: argparse.Namespace
) -> None:
    approvals = open_user_tool_pins(config) if declaration.owner == "user" else open_project_approvals(config)
    approval = approvals.find_approval(declaration.name, declaration.digest) or ToolApproval(declaration.digest)
    digests = compute_tool_digests(state.approvable_tools)
    new_tools = [
        tool for tool in state.approvable_tools if approval.tools.get(tool.original_name) != digests[tool.original_name]
    ]
    question = build_tools_question(
        declaration.name, new_tools, state.notes, approval.seen, has_changed=bool(approval.tools)
    )
    if new_tools and (options.approve or confirm(question, as_json=options.json)):
        approvals.allow_tools(declaration, {**approval.tools, **digests}, state.approvable_tools)


def _state_json(state: ServerState) -> dict[str, object]:
    return {
        "phase": state.phase,
        "detail": state.detail,
        "server": {"name": state.name, "version": state.version, "protocol": state.protocol},
        "tools": [
            {"name": tool.name, "description": tool.description, "schema": tool.schema, "tokens": _tool_tokens(tool)}
            for tool in state.tools
        ],
        "resources": [resource.uri for resource in (*state.resources, *state.templates)],
        "prompts": [prompt.name for prompt in state.prompts],
        "notes": list(state.notes),
    }


def _state_lines(name: str, state: ServerState, seconds: float) -> list[str]:
    if state.phase == "needs_login":
        return [f"BAD   {name}: login needed; run `ebb mcp login {name}`"]
    if state.phase != "ready":
        return [f"BAD   {name}: {state.detail}"]
    tokens = sum(map(_tool_tokens, state.tools))
    tools, resources, prompts = (
        pluralize(len(items), noun)
        for items, noun in ((state.tools, "tool"), (state.resources, "resource"), (state.prompts, "prompt"))
    )
    offers_text = f"{tools} ({tokens:,} tokens), {resources}, {prompts}"
    return [
        f"ok    {name}: {state.name} {state.version}, {offers_text}, in {seconds:.1f} s",
        *(f"      {tool.name}: {' '.join(tool.description.split())[:100]}" for tool in state.tools),
        *(f"note  {note}" for note in state.notes),
    ]


def _tool_tokens(tool: McpTool) -> int:
    return estimate_tools(create_specs((tool,)))


def _login(arguments: Sequence[str]) -> int:
    parser = _create_parser("login", "Open your browser to log in to a server, and store the login privately.")
    parser.add_argument("name", metavar="SERVER", help="name of the server, as in `ebb mcp list`")
    parser.add_argument("--no-browser", action="store_true", help="only print the URL to open")
    options = parser.parse_args(arguments)
    _, config = read_settings(options)
    declaration = find_server(options.name, config, os.environ)
    if not declaration.spec.url:
        raise UsageError(f"`{declaration.name}` is a local command and needs no login")
    if not _ensure_approved(declaration, config, argparse.Namespace(json=options.json, approve=False)):
        raise UsageError(
            f"`{declaration.name}` is not approved; approve it with `ebb mcp test {declaration.name} --approve`"
        )

    async def log_in() -> ServerState:
        server = create_server(declaration, LoginBrowser(opens_browser=not options.no_browser), config)
        try:
            return await server.login()
        finally:
            await server.close()

    state = asyncio.run(log_in())
    if state.phase == "needs_login":
        raise LoginNeeded(f"not logged in to `{declaration.name}`: {state.detail}")
    if state.phase != "ready":
        raise ServerFailed(f"`{declaration.name}` cannot be used: {state.detail}")
    _print_result(options, {"name": declaration.name, "phase": state.phase}, f"logged in to `{declaration.name}`")
    return 0


class LoginBrowser(ClientHandlers):
    """Prints the login URL and, if `opens_browser` is set, also opens it in the browser."""

    def __init__(self, *, opens_browser: bool) -> None:
        self._opens = opens_browser

    async def open_login(self, server: str, url: str) -> None:
        print(f"ebb: to log in to `{server}`, open {sanitise_line(url)}", file=sys.stderr, flush=True)
        if self._opens:
            await asyncio.to_thread(webbrowser.open, url)


def _logs(arguments: Sequence[str]) -> int:
    parser = _create_parser("logs", "Show the end of a server's log: its stderr and its log messages.")
    parser.add_argument("name", metavar="SERVER", help="name of the server, as in `ebb mcp list`")
    parser.add_argument(
        "-n",
        "--lines",
        type=parse_integer,
        default=DEFAULT_LOG_LINES,
        metavar="N",
        help=f"show the last N lines (default: {DEFAULT_LOG_LINES})",
    )
    options = parser.parse_args(arguments)
    if options.lines < 1:
        parser.error("`--lines` must be at least 1")
    _, config = read_settings(options)
    declaration = find_server(options.name, config, os.environ)
    path = log_path(declaration, config)
    lines = [redact_text(line, os.environ, declaration.spec.secrets) for line in _last_lines(path, options.lines)]
    if options.json:
        print_json(sys.stdout, {"name": declaration.name, "file": str(path), "lines": lines})
        return 0
    print(f"ebb: {path}" if lines else f"ebb: nothing logged yet in `{path}`", file=sys.stderr)
    for line in lines:
        print(sanitise_line(line))
    return 0


def _last_lines(path: Path, count: int) -> list[str]:
    try:
        return read_last_lines(path, count)
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror or error}") from error


def _create_parser(action: str, description: str) -> argparse.ArgumentParser:
    parser = create_subcommand_parser(f"mcp {action}", description)
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    add_common_flags(parser)
    return parser


def _split_at_dashes(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at `--`, which is left out."""
    index = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:index]], [*arguments[index + 1 :]]


def _parse_pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    pairs = dict[str, str]()
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"`{flag} {text}` is not NAME=VALUE")
        pairs[name] = value
    return pairs


def _print_result(options: argparse.Namespace, value: Mapping[str, object], message: str) -> None:
    """Print a result as JSON or text."""
    if options.json:
        print_json(sys.stdout, value)
    else:
        print(sanitise(message))


def _integration_action(row: integration_registry.SubcommandRow) -> Callable[[Sequence[str]], int]:
    return lambda arguments: row.load()(arguments)


_ACTIONS: dict[str, Callable[[Sequence[str]], int]] = {
    "list": _list,
    "add": _add,
    "remove": _remove,
    "test": _test,
    "login": _login,
    "logs": _logs,
    **{name: _integration_action(row) for name, row in integration_registry.MCP_ACTIONS.items()},
}
