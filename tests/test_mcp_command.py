"""`ebb mcp` as users and scripts see it: what it prints, what it writes, and how it exits."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import Run, ebb
from tests.kit.files import write_file
from tests.kit.mcp_project import IN_TIME, McpProject
from tests.kit.session import call, calls
from tests.tools.integrations.mcp.conftest import listening

CONFIG = """\
# my settings
[agent]
model = "ollama/x"  # the small one

[mcp.servers.old]
command = "old-server"
"""


class Owner(McpProject):
    """Somebody with a home, a project and servers, who calls `ebb mcp`."""

    @property
    def file(self) -> Path:
        return self.home / "config" / "config.toml"

    def run(self, *arguments: str, stdin: str | None = None, **env: str) -> Run:
        return ebb("-C", str(self.root), "mcp", *arguments, home=self.home, stdin=stdin, env=env)

    def ask(self, wanted: dict[str, Any], *flags: str) -> Run:
        """A run in which the model makes a call."""
        script = self.folder / "script.json"
        script.write_text(json.dumps({"reply": [calls(wanted), {"text": "done"}]}))
        given = ("-C", str(self.root), "-p", "go", "-m", f"scripted/{script}", "--config", IN_TIME)
        return ebb(*given, *flags, home=self.home)


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def test_a_server_is_added_and_removed_and_the_file_is_otherwise_as_it_was(owner: Owner) -> None:
    owner.file.write_text(CONFIG)
    run = owner.run("add", "forge", "--env", "TOKEN=${FORGE_TOKEN}", "--cwd", "tools", "--", "npx", "-y", "forge")
    assert (run.code, run.out, run.err) == (
        0, f"added `forge` to `{owner.file}`; test it with `ebb mcp test forge`\n", ""
    )  # fmt: skip
    assert owner.file.read_text() == (
        f'{CONFIG}\n[mcp.servers.forge]\ncommand = "npx"\nargs = ["-y", "forge"]\n'
        'env = {TOKEN = "${FORGE_TOKEN}"}\ncwd = "tools"\n'
    )
    run = owner.run("remove", "forge", "--json")
    assert (run.code, run.result) == (0, {"name": "forge", "file": str(owner.file)})
    assert owner.file.read_text() == CONFIG


def test_an_address_is_added_to_a_file_that_is_not_there_yet(owner: Owner) -> None:
    run = owner.run("add", "web", "https://h/mcp", "--header", "X-Key=${KEY}", "--scope", "read", "--json")
    table = {"url": "https://h/mcp", "headers": {"X-Key": "${KEY}"}, "scopes": ["read"]}
    assert (run.code, run.result) == (0, {"name": "web", "file": str(owner.file), "server": table})
    assert tomllib.loads(owner.file.read_text()) == {"mcp": {"servers": {"web": table}}}
    assert owner.file.stat().st_mode & 0o777 == 0o600


def test_options_may_stand_between_a_name_and_its_address_or_command(owner: Owner) -> None:
    run = owner.run("add", "web", "--header", "X-Key=a", "https://h/mcp", "--json")
    assert run.result["server"] == {"url": "https://h/mcp", "headers": {"X-Key": "a"}}
    run = owner.run("add", "forge", "--env", "A=1", "npx", "forge", "--json")
    assert run.result["server"] == {"command": "npx", "args": ["forge"], "env": {"A": "1"}}
    run = owner.run("add", "old", "--sse", "https://h/sse", "--json")
    assert run.result["server"] == {"url": "https://h/sse", "type": "sse"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("add", "x"), "no URL or command for `x`; give its URL, or its command after `--`"),
        (("add", "old", "--", "y"), "the server `old` already exists; replace it with `--replace`"),
        (("add", "x", "--env", "A", "--", "y"), "`--env A` is not NAME=VALUE"),
        (("add", "x", "http://h", "--env", "A=1"), "`env` is not supported for a server with a `url`"),
        (("add", "x", "ftp://h/mcp"), "its `url` must begin with `https://` or `http://`"),
        (("add", "x\ny", "z"), "its name must be one line of printable characters"),
        (("add", "old_", "z"), "the tools of `old_` and `old` would have the same names"),
        (("remove", "x"), "unknown server `x`; configured: `old`"),
        (("remove", "theirs"), "/.mcp.json`: remove it there, or add it to `mcp.disabled`"),
        (("test", "x"), "unknown server `x`; configured: `old`, `theirs`, `broken`"),
        (("test", "broken"), "the server `broken` of"),
        (("logs", "x"), "unknown server `x`"),
        (("logs", "old", "-n", "0"), "`--lines` must be at least 1"),
        (("login", "old"), "`old` is a local command and needs no login"),
        (("frobnicate",), "invalid choice: 'frobnicate'"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_exit_code_2(owner: Owner, arguments: tuple[str, ...], says: str) -> None:
    owner.file.write_text(CONFIG)
    owner.declares(theirs={"command": "x"}, broken={})
    run = owner.run(*arguments)
    assert (run.code, run.out) == (2, "")
    assert says in run.err
    assert "Traceback" not in run.err
    assert owner.file.read_text() == CONFIG


def test_a_file_that_cannot_be_edited_as_it_is_stays_as_it_is(owner: Owner) -> None:
    text = 'mcp.servers.old.command = "x"\nagent.max_turns = 3\n'
    owner.file.write_text(text)
    run = owner.run("add", "new", "--", "y")
    assert (run.code, run.err) == (
        2,
        f"ebb: cannot edit `{owner.file}` safely; edit `[mcp.servers.new]` there by hand\n",
    )
    assert owner.file.read_text() == text


def test_a_server_is_written_in_place_of_another(owner: Owner) -> None:
    owner.file.write_text(CONFIG)
    assert owner.run("add", "old", "--replace", "--", "new-server").code == 0
    assert tomllib.loads(owner.file.read_text())["mcp"]["servers"] == {"old": {"command": "new-server"}}


def test_the_list_says_how_each_stands_and_starts_none(owner: Owner) -> None:
    assert owner.run("list").out.startswith("no MCP servers yet; ")
    owner.file.write_text(
        '[mcp.servers.mine]\ncommand = ["mine", "-x"]\n[mcp.servers.off]\nurl = "http://h"\nenabled = false\n'
    )
    forge = owner.server("forge")
    owner.declares(
        forge={"command": forge[0], "args": forge[1:], "alwaysAllow": ["echo"]},
        broken={"type": "http", "command": "x"},
    )
    source, theirs = str(owner.file), str(owner.root / ".mcp.json")
    wrong = '`type` is "http", but it has a `command`'
    assert (
        owner.run("--json").lines
        == owner.run("list", "--json").lines
        == [
            row("mine", "on", "", "user", source, "mine -x"),
            row("off", "off", "`enabled` is false", "user", source, ""),
            row(
                "forge",
                "not approved",
                "the user has not approved it",
                "project",
                theirs,
                " ".join(forge),
                ["alwaysAllow"],
            ),
            row("broken", "unusable", wrong, "project", theirs, ""),
        ]
    )
    lines = owner.run().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["on", "off", "not approved", "unusable"]
    assert "[not supported: alwaysAllow]" in lines[2]
    assert not owner.has_started("forge")


def row(
    name: str, standing: str, detail: str, who: str, source: str, target: str, ignored: list[str] | None = None
) -> dict[str, Any]:
    return {
        "name": name, "standing": standing, "detail": detail, "owner": who, "source": source, "target": target,
        "ignored": ignored or [],
    }  # fmt: skip


def test_a_test_tells_what_a_server_offers(owner: Owner) -> None:
    owner.run("add", "forge", "--", *owner.server("forge", echo="Says it again."))
    found = owner.run("test", "--json").result
    summary = (found["name"], found["phase"], found["server"]["name"], found["resources"])
    assert summary == ("forge", "ready", "program", [])
    (tool,) = found["tools"]
    assert (tool["name"], tool["description"], tool["tokens"] > 20) == ("mcp__forge__echo", "Says it again.", True)
    run = owner.run("test", "forge")
    first, second = run.out.splitlines()
    assert (run.code, second) == (0, "      mcp__forge__echo: Says it again.")
    assert first.startswith("ok    forge: program 1, 1 tool (")


def test_a_server_that_cannot_be_reached_is_named_and_the_others_are_tested(owner: Owner) -> None:
    owner.run("add", "broken", "--", "/no/such/program")
    owner.run("add", "nowhere", "http://127.0.0.1:9/mcp")
    owner.run("add", "forge", "--", *owner.server("forge"))
    run = owner.run("test")
    marks = [line[:13] for line in run.out.splitlines() if not line.startswith(" ")]
    assert (run.code, marks) == (3, ["BAD   broken:", "BAD   nowhere", "ok    forge: "])
    assert [found["phase"] for found in owner.run("test", "--json").lines] == ["failed", "failed", "ready"]


def test_what_a_project_declares_is_tested_once_it_is_approved(owner: Owner) -> None:
    forge = owner.server("forge", echo="Says it again.")
    owner.declares(forge={"command": forge[0], "args": forge[1:]})
    run = owner.run("test")
    assert (run.code, owner.has_started("forge")) == (2, False)
    assert run.out.splitlines()[:2] == [
        "BAD   forge: not approved; approve it with `ebb mcp test forge --approve`:",
        f"  command: {' '.join(forge)}",
    ]
    assert owner.run("test", stdin="y\n").code == 2  # what is piped in is no answer of a user
    assert owner.run("test", "forge", "--approve").code == 0
    assert owner.run("list", "--json").result["standing"] == "on"
    assert owner.run("test", "forge", "--json").code == 0
    run = owner.ask(call("mcp__forge__echo", text="hi"), "--allow", "mcp__forge", "--output-format", "stream-json")
    assert [line["text"] for line in run.lines if line["type"] == "tool_finished"] == ["hi"]
    assert (run.code, run.err) == (0, "")


def test_without_a_rule_a_run_without_a_user_is_denied_a_servers_tool(owner: Owner) -> None:
    owner.run("add", "forge", "--", *owner.server("forge"))
    run = owner.ask(call("mcp__forge__echo"), "--output-format", "json")
    assert (run.code, run.result["stop_reason"]) == (5, "denied")
    assert run.result["denied"] == [
        {
            "tool": "mcp__forge__echo",
            "arguments": {},
            "rule": "ask mode: MCP tools need your OK",
            "allow": "mcp__forge",
        }
    ]


def test_the_log_of_a_server_is_shown_from_its_end(owner: Owner) -> None:
    owner.run("add", "forge", "--", *owner.server("forge"))
    run = owner.run("logs", "forge")
    log = owner.home / "logs" / "mcp" / "forge.log"
    assert (run.code, run.out, run.err) == (0, "", f"ebb: nothing logged yet in `{log}`\n")
    write_file(log, b"one\ntwo\x1b[2J\n\xff three\n")
    assert owner.run("logs", "forge", "-n", "2").out == "two␛[2J\n� three\n"
    assert owner.run("logs", "forge", "--json").result == {
        "name": "forge", "file": str(log), "lines": ["one", "two\x1b[2J", "� three"]
    }  # fmt: skip


def test_help_names_every_action(owner: Owner) -> None:
    run = owner.run("--help")
    assert run.code == 0
    assert "{list,add,remove,test,login,logs,import,serve}" in run.out
    assert "add: NAME URL, or NAME -- COMMAND." in " ".join(run.out.split())


def test_a_login_opens_the_browser_and_is_kept(owner: Owner) -> None:
    opener = owner.folder / "opener.py"
    opener.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n")
    with listening("authorising") as address:
        owner.run("add", "wiki", address)
        run = owner.run("test", "wiki")
        assert (run.code, run.out) == (4, "BAD   wiki: login needed; run `ebb mcp login wiki`\n")
        run = owner.run("login", "wiki", BROWSER=f"{sys.executable} {opener} %s")
        assert (run.code, run.out) == (0, "logged in to `wiki`\n")
        assert run.err.startswith("ebb: to log in to `wiki`, open http://127.0.0.1:")
        assert owner.run("test", "wiki").code == 0
        (login,) = (owner.home / "data" / "mcp" / "logins").iterdir()
        assert login.stat().st_mode & 0o777 == 0o600
        assert owner.run("remove", "wiki").code == 0
        assert not login.exists()


def test_a_login_that_nobody_finishes_is_given_up(owner: Owner) -> None:
    with listening("authorising") as address:
        owner.run("add", "wiki", address)
        run = owner.run("login", "wiki", "--no-browser", "--config", "mcp.servers.wiki.login_timeout=0.2")
    assert (run.code, run.out) == (4, "")
    assert run.err.splitlines()[-1] == ("ebb: not logged in to `wiki`: the login was not finished within 0.2 seconds")


def test_a_server_that_wants_no_login_says_nothing_of_one(owner: Owner) -> None:
    owner.run("add", "nowhere", "http://127.0.0.1:9/mcp")
    run = owner.run("login", "nowhere")
    assert (run.code, run.out) == (3, "")
    assert run.err.startswith("ebb: `nowhere` cannot be used: ")


def test_no_command_shows_the_secrets_of_a_server(owner: Owner) -> None:
    owner.file.write_text(
        '[mcp.servers.near]\ncommand = "server"\nargs = ["--token=abcd1234-swordfish"]\n'
        '[mcp.servers.far]\nurl = "https://me:swordfish@far.example/mcp"\n'
        'headers = { Authorization = "Bearer swordfish-4711" }\n'
    )
    for arguments in (["mcp", "list"], ["config"], ["config", "--json"]):
        run = ebb("-C", str(owner.root), *arguments, home=owner.home)
        assert "far.example/mcp" in run.out
        assert "--token=" in run.out
        assert "swordfish" not in run.out + run.err
