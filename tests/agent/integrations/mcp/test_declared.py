"""Which servers a configuration declares: real files, and what is wrong with them in one line."""

import json
import os
from typing import Any

import pytest

from ebbtide.agent.errors import ConfigError
from ebbtide.agent.integrations.mcp.declarations import (
    DeclaredServer,
    ServerDeclaration,
    UnusableServer,
    load_declared_servers,
)
from ebbtide.tools.integrations.mcp.spec import LoginSettings, ServerSpec
from tests.kit.files import write_file
from tests.kit.mcp_project import McpProject

ENVIRONMENT = {"HOST": "example.org", "TOKEN": "t0k", "EMPTY": "", "NAME": "forge"}


def found(project: McpProject, *settings: str) -> tuple[DeclaredServer | UnusableServer, ...]:
    return load_declared_servers(project.config(settings=settings), ENVIRONMENT)


def specs(project: McpProject, *settings: str) -> list[ServerSpec]:
    return [one.spec for one in found(project, *settings) if isinstance(one, DeclaredServer)]


def lines(project: McpProject, *settings: str) -> list[str]:
    return [
        one.notice.replace(str(project.folder), "")
        for one in found(project, *settings)
        if isinstance(one, UnusableServer)
    ]


def test_everything_that_may_be_said_of_a_server(project: McpProject) -> None:
    project.user(
        forge={
            "command": "npx", "args": ["-y", "forge-server"], "cwd": "tools", "enabled_tools": ["read_*"],
            "disabledTools": ["read_secret"], "startup_timeout": 5, "callTimeout": 600, "most_bytes": 1000,
        },
        chat={
            "url": "https://${HOST}/mcp", "type": "http", "client_id": "me", "client_secret": "${TOKEN}",
            "scopes": ["read"], "login_port": 8765, "login_timeout": 60,
        },
    )  # fmt: skip
    assert specs(project) == [
        ServerSpec(
            "forge", ("npx", "-y", "forge-server"), cwd=project.root / "tools", enabled_tools=("read_*",),
            disabled_tools=("read_secret",), startup_timeout=5.0, call_timeout=600.0, max_result_bytes=1000,
        ),
        ServerSpec("chat", url="https://example.org/mcp", login=LoginSettings("me", "t0k", ("read",), 8765, 60.0)),
    ]  # fmt: skip


def test_a_projects_file_is_read_as_other_programs_write_it(project: McpProject) -> None:
    entry = {
        "type": "stdio", "command": "${NAME}-server", "args": ["--port", "${PORT:-80}", "${EMPTY:-none}", "${1}"],
        "env": {"TOKEN": "${TOKEN}", "MODE": "dev"}, "alwaysAllow": ["x"], "description": "…",
    }  # fmt: skip
    project.declares(
        forge=entry,
        web={"type": "streamable-http", "url": "http://h/mcp", "headers": {"X-Key": "${TOKEN}"}},
        old={"type": "sse", "url": "http://h/sse"},
    )
    forge, web, old = found(project)
    assert isinstance(old, DeclaredServer)
    assert old.spec == ServerSpec("old", url="http://h/sse", is_sse=True)
    assert isinstance(forge, DeclaredServer)
    assert isinstance(web, DeclaredServer)
    assert forge.spec == ServerSpec(
        "forge", ("forge-server", "--port", "80", "none", "${1}"), env={"TOKEN": "t0k", "MODE": "dev"},
        cwd=project.root,
    )  # fmt: skip
    assert (forge.owner, forge.ignored_keys) == ("project", ("alwaysAllow", "description"))
    assert forge.declaration == ServerDeclaration(
        ("${NAME}-server", "--port", "${PORT:-80}", "${EMPTY:-none}", "${1}"), env=("TOKEN=${TOKEN}", "MODE=dev"),
        referenced_variables=("NAME", "PORT", "EMPTY", "TOKEN"),
    )  # fmt: skip
    assert web.spec == ServerSpec("web", url="http://h/mcp", headers={"X-Key": "t0k"})


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "it needs a `command` or a `url`, and only one of them"),
        ({"command": "x", "url": "http://h"}, "it needs a `command` or a `url`, and only one of them"),
        ({"args": ["x"]}, "it has `args` but no `command`"),
        ({"command": "x", "type": "http"}, '`type` is "http", but it has a `command`'),
        ({"command": "x", "type": "sse"}, '`type` is "sse", but it has a `command`'),
        ({"url": "file:///etc/passwd"}, "its `url` must begin with `https://` or `http://` and name a host"),
        ({"url": "${NAME}"}, "its `url` must begin with `https://` or `http://` and name a host"),
        ({"url": "http://h", "env": {"A": "1"}}, "`env` is not supported for a server with a `url`"),
        ({"command": "x", "headers": {"A": "1"}}, "`headers` is not supported for a server with a `command`"),
        ({"command": "x", "args": "y"}, "`args` must be a list of texts in quotes"),
        ({"command": ["x", 3]}, "`command` must be a list of texts in quotes"),
        ({"command": "x", "env": {"PORT": 3}}, "`env` must be a table of quoted strings"),
        ({"command": "x\0y"}, "it contains a NUL character"),
        ({"command": "${EMPTY:-}"}, "its `command` is empty after expanding variables"),
        ({"command": "x", "args": ["${NOT_THERE}"]},
         "`NOT_THERE` is not set in the environment; set it, or write `${NOT_THERE:-…}`"),
        ("x", "it must be an object"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_used_is_named_and_the_others_are_used(
    project: McpProject, entry: Any, problem: str
) -> None:
    project.declares(bad=entry, good={"command": "x"})
    assert lines(project) == [f"the server `bad` of `/project/.mcp.json` was skipped: {problem}"]
    assert [spec.name for spec in specs(project)] == ["good"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "it is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[]", 'it must be an object with one object per server, {"mcpServers": {"NAME": {…}}}'),
        ('{"servers": {}}', 'it must be an object with one object per server, {"mcpServers": {"NAME": {…}}}'),
        ('{"mcpServers": {"a": {}, "a": {}}}', "it is not JSON: `a` occurs twice"),
        (b"\xff{", "it is not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (" " * 1_000_001, "it is larger than 1,000,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(project: McpProject, content: str | bytes, problem: str) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    (project.root / ".mcp.json").write_bytes(data)
    assert lines(project) == [f"cannot use `/project/.mcp.json`: {problem}"]


def test_a_folder_in_place_of_the_file_is_named(project: McpProject) -> None:
    (project.root / ".mcp.json").mkdir()
    assert lines(project) == ["cannot use `/project/.mcp.json`: Is a directory"]


def test_the_home_of_somebody_who_is_not_there_is_a_folder_that_is_not_there(project: McpProject) -> None:
    project.declares(forge={"command": "forge", "cwd": "~nobody-of-that-name/x"})
    assert [spec.cwd for spec in specs(project)] == [project.root / "~nobody-of-that-name/x"]


def test_a_file_is_read_through_a_link_within_the_project_alone(project: McpProject) -> None:
    project.declares(forge={"command": "forge"})
    declaration = (project.root / ".mcp.json").rename(project.folder / "elsewhere.json")
    (project.root / ".mcp.json").symlink_to(declaration)
    assert (lines(project), specs(project)) == (["cannot use `/project/.mcp.json`: it leads outside the project"], [])
    declaration.rename(project.root / "servers.json")
    (project.root / ".mcp.json").unlink()
    (project.root / ".mcp.json").symlink_to("servers.json")
    assert [spec.name for spec in specs(project)] == ["forge"]


@pytest.mark.parametrize("kind", ["pipe", "link to a terminal"])
def test_nothing_is_waited_for_in_place_of_the_file(project: McpProject, kind: str) -> None:
    path = project.root / ".mcp.json"
    controller, terminal = os.openpty()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(os.ttyname(terminal))
    why = "it is not a regular file" if kind == "pipe" else "it leads outside the project"
    try:
        assert lines(project) == [f"cannot use `/project/.mcp.json`: {why}"]
    finally:
        os.close(controller)
        os.close(terminal)


def test_a_file_of_very_many_names_is_read_in_one_pass(project: McpProject) -> None:
    entries = {f"s{number}": 0 for number in range(80_000)}
    (project.root / ".mcp.json").write_text(json.dumps({"mcpServers": entries}, separators=(",", ":")))
    assert len(lines(project)) == len(entries)


def test_a_server_of_the_user_goes_before_the_projects_of_that_name(project: McpProject) -> None:
    project.user(forge={"command": "mine"})
    project.declares(forge={"command": "theirs"}, chat={"command": "chat"})
    assert [(one.name, one.owner) for one in found(project)] == [("forge", "user"), ("chat", "project")]
    assert lines(project) == []


def test_names_that_tools_could_not_be_told_apart_by_are_named(project: McpProject) -> None:
    project.declares(**{"my server": {"command": "a"}, "my__server": {"command": "b"}, "x\x1b[2J": {"command": "c"}})
    assert lines(project) == [
        "the server `my__server` of `/project/.mcp.json` was skipped: in tool names it would be the same as "
        "`my server`; rename it",
        "the server `x?[2J` of `/project/.mcp.json` was skipped: its name must be one line of printable characters",
    ]


def test_a_server_can_be_switched_off_everywhere(project: McpProject) -> None:
    project.user(mine={"command": "x", "enabled": False})
    project.declares(off={"command": "x", "disabled": True}, forge={"command": "x"}, chat={"command": "x"})
    write_file(project.root / ".ebb" / "config.toml", '[mcp]\ndisabled = ["chat"]\n')
    assert [
        (one.name, isinstance(one, UnusableServer) and one.is_disabled)
        for one in found(project, 'mcp.disabled=["forge"]')
    ] == [
        ("mine", True),
        ("off", True),
        ("forge", True),
        ("chat", False),
    ]
    assert [(one.name, isinstance(one, UnusableServer) and one.is_disabled) for one in found(project)][2:] == [
        ("forge", False),
        ("chat", True),
    ]


def test_a_projects_configuration_declares_no_server(project: McpProject) -> None:
    (project.root / ".ebb").mkdir()
    path = project.root / ".ebb" / "config.toml"
    path.write_text('[mcp.servers.forge]\ncommand = "x"\n')
    config = project.config()
    assert load_declared_servers(config, {}) == ()
    assert config.notices == (
        f"`mcp.servers` in {path} was ignored: a project's servers are declared in its `.mcp.json`",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[mcp]\nservers = 3", "`mcp.servers` must contain one table per server"),
        ("[mcp.servers]\nforge = 3", "`mcp.servers` must contain one table per server"),
        ("[mcp.servers.forge]\ncomand = 'x'", "unknown key `mcp.servers.forge.comand`; use one of command, args"),
        ("[mcp.servers.forge]\nargs = 'x'", "`mcp.servers.forge.args` is 'x', but must be a list of texts in quotes"),
        ("[mcp.servers.\"a\\nb\"]\ncommand = 'x'", "'a\\nb' is not a valid server name"),
        ("[mcp]\nwait = -1", "`mcp.wait` is -1, but must be a number of seconds, or 0"),
    ],
)
def test_what_the_user_writes_wrong_is_an_error_that_names_the_key(
    project: McpProject, text: str, problem: str
) -> None:
    path = project.home / "config" / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        project.config()
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_a_table_without_keys_is_a_server_that_cannot_be_used(project: McpProject) -> None:
    (project.home / "config" / "config.toml").write_text("[mcp.servers.forge]\n")
    assert [(one.name, isinstance(one, UnusableServer)) for one in found(project)] == [("forge", True)]


def test_values_that_the_user_configured_are_not_shown(project: McpProject) -> None:
    project.user(forge={"command": "x", "env.TOKEN": "s3cret"}, web={"url": "http://h", "headers.Key": "s3cret"})
    written = [one.declaration for one in found(project) if isinstance(one, DeclaredServer)]
    assert written == [ServerDeclaration(("x",), env=("TOKEN",)), ServerDeclaration(url="http://h", headers=("Key",))]


def test_what_a_digest_depends_on(project: McpProject) -> None:
    def digest(environment: dict[str, str], **entry: Any) -> str:
        project.declares(forge=entry)
        (one,) = load_declared_servers(project.config(), environment)
        assert isinstance(one, DeclaredServer)
        return one.digest

    secret: dict[str, Any] = {"command": "x", "env": {"TOKEN": "${TOKEN}"}}
    assert digest({"TOKEN": "a"}, **secret) == digest({"TOKEN": "b"}, **secret)
    program = {"command": "${PROGRAM}"}
    assert digest({"PROGRAM": "a"}, **program) != digest({"PROGRAM": "b"}, **program)
    different: list[dict[str, Any]] = [
        {"command": "x"},
        {"command": "x", "args": ["y"]},
        {"command": "x", "cwd": "z"},
        {"url": "http://h"},
    ]
    digests = {digest({}, **entry) for entry in (*different, secret | {"env": {"TOKEN": ""}})}
    assert len(digests) == 5


def test_settings_of_the_command_line_make_a_server(project: McpProject) -> None:
    settings = ('mcp.servers.forge.command="x"', 'mcp.servers.forge.args=["y"]')
    assert [spec.command for spec in specs(project, *settings)] == [("x", "y")]
    sources = project.config(settings=settings).sources
    assert json.loads(json.dumps(sources))["mcp.servers.forge.args"].startswith("--config")
