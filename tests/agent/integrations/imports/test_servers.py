"""Servers of other programs: what is read of their files, and what is written of those that are chosen."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ebbtide.agent.config.load import load_config, read_toml
from ebbtide.agent.integrations.imports.agent_folders import find_agent_folders, read_settings
from ebbtide.agent.integrations.imports.servers import ImportableServer, find_importable_servers, import_problem
from tests.kit.user import User

VSCODE = """{ // comments and last commas are allowed
  "inputs": [{"type": "promptString", "id": "gh-key", "password": true},],
  "servers": {
    "hub": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${input:gh-key}"}},
    "files": {"command": "npx", "args": ["-y", "fs", "${workspaceFolder}/src"], "env": {"A": "${env:B}"},
              "envFile": "x"},
    "asks": {"command": "x", "args": ["${A:-b} ${command:pick}"]}, /* no such thing here */
  },
}"""
CODEX = """model = "m"
[mcp_servers.docs]
url = "https://docs.example/mcp"
bearer_token_env_var = "DOCS_TOKEN"
env_http_headers = { X-Team = "TEAM" }
startup_timeout_ms = 2500
[mcp_servers.off]
command = "srv"
env_vars = ["PLACE"]
enabled = false
"""
FILES: Mapping[str, object] = {
    "app/.vscode/mcp.json": VSCODE,
    ".cursor/mcp.json": {
        "mcpServers": {"hub": {"command": "docker", "args": ["--token=abc123def456"], "disabled": True}}
    },
    ".codex/config.toml": CODEX,
    ".claude.json": {
        "mcpServers": {"mine": {"type": "stdio", "command": "uvx", "args": ["srv"]}},
        "projects": {"APP": {"mcpServers": {"here": {"url": "https://h.example"}}}, "/else": {"mcpServers": {"x": {}}}},
    },
    ".config/Claude/claude_desktop_config.json": '{"mcpServers": {',
    ".config/opencode/opencode.jsonc": {
        "mcp": {"local": {"type": "local", "command": ["bun", "x"], "environment": {"K": "{env:KX}"}, "timeout": 5000}}
    },
    ".gemini/settings.json": {
        "mcpServers": {
            "g": {"httpUrl": "https://g.example/$SITE", "timeout": 30000, "trust": True, "includeTools": ["a"]},
            "old": {"url": "https://o.example/sse"},
            "bad": {"command": 5},
            "worse": [],
        }
    },
}  # fmt: skip


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody whose other programs have servers configured."""
    made = User(tmp_path)
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text.replace('"APP"', json.dumps(str(made.project))))
    return made


def offers_of(user: User) -> tuple[dict[str, ImportableServer], list[str]]:
    config = load_config(user.project, {"EBB_HOME": str(user.home)}, {})
    offers, problems = find_importable_servers(find_agent_folders({"HOME": str(user.home)}), config)
    return {f"{one.agent}:{one.name}": one for one in offers}, problems


def test_each_program_s_servers_are_read_in_our_terms(user: User) -> None:
    offers, problems = offers_of(user)
    assert {name: one.table for name, one in offers.items() if not one.problem} == {
        "vscode:hub": {
            "type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${GH_KEY}"}
        },
        "vscode:files": {
            "command": "npx", "args": ["-y", "fs", f"{user.project}/src"], "env": {"A": "${B}"},
        },
        "cursor:hub": {"command": "docker", "args": ["--token=abc123def456"], "enabled": False},
        "codex:docs": {
            "url": "https://docs.example/mcp", "startup_timeout": 2.5,
            "headers": {"X-Team": "${TEAM}", "Authorization": "Bearer ${DOCS_TOKEN}"},
        },
        "codex:off": {"command": "srv", "enabled": False, "env": {"PLACE": "${PLACE}"}},
        "claude:mine": {"type": "stdio", "command": "uvx", "args": ["srv"]},
        "claude:here": {"url": "https://h.example"},
        "opencode:local": {
            "type": "stdio", "command": "bun", "args": ["x"], "env": {"K": "${KX}"}, "startup_timeout": 5.0
        },
        "gemini:old": {"url": "https://o.example/sse", "type": "sse"},
        "gemini:g": {"url": "https://g.example/${SITE}", "call_timeout": 30.0, "enabled_tools": ["a"]},
    }  # fmt: skip
    assert {name: one.problem for name, one in offers.items() if one.problem} == {
        "vscode:asks": "`${command:pick}` is not supported; use an environment variable, `${NAME}`",
        "gemini:bad": "`command` must be a list of texts in quotes",
        "gemini:worse": "it must be an object",
    }
    assert offers["vscode:files"].notes == ("not supported: `envFile`",)
    assert offers["vscode:hub"].notes == ("it prompts for `gh-key` there; set `GH_KEY` in your environment instead",)
    assert offers["codex:docs"].referenced_variables == ("TEAM", "DOCS_TOKEN")
    (problem,) = problems
    assert problem.startswith(f"`{user.home}/.config/Claude/claude_desktop_config.json` cannot be read: ")


def test_what_is_chosen_is_written_and_what_is_not_is_named_without_a_secret(user: User) -> None:
    env = {"HOME": str(user.home), "XDG_CONFIG_HOME": str(user.home / ".config"), "EBB_HOME": str(user.home / "ebb")}
    config = user.home / "ebb" / "config" / "config.toml"

    preview = user.ebb("mcp", "import", env=env)
    tried = user.ebb("mcp", "import", "mine", "--dry-run", env=env)
    assert (preview.code, tried.code, config.exists()) == (0, 0, False)
    assert "  4  hub                   cursor          docker --token=***" in preview.out
    assert "abc123def456" not in preview.out + preview.err

    several = user.ebb("mcp", "import", "hub", env=env)
    assert (several.code, several.err.splitlines()[-1]) == (
        2, "ebb: several servers are named `hub`: use `vscode:hub`, `cursor:hub`, or the number in the list"
    )  # fmt: skip

    added = json.loads(user.ebb("mcp", "import", "cursor:hub", "1", "docs", "gemini:bad", "--json", env=env).out)
    assert (added["written"], added["left"]) == (
        ["hub", "docs"],
        {"vscode:hub": "the server `hub` exists", "gemini:bad": "`command` must be a list of texts in quotes"},
    )
    assert read_toml(config) == {"mcp": {"servers": {
        "hub": {"command": "docker", "args": ["--token=abc123def456"], "enabled": False},
        "docs": {
            "url": "https://docs.example/mcp", "startup_timeout": 2.5,
            "headers": {"X-Team": "${TEAM}", "Authorization": "Bearer ${DOCS_TOKEN}"},
        },
    }}}  # fmt: skip


SECRET_TABLES: tuple[Mapping[str, object], ...] = (
    {"url": "https://me:password@a.example/mcp"},
    {"url": "https://me:pass/word@a.example/mcp"},
    {"url": "https://a.example/mcp?a=b&api_key=abc"},
    {"url": "https://a.example", "client_id": "me", "client_secret": "abc"},
    {"command": "x", "env": {"DATABASE_URL": "postgres://u:pw@h/db"}},
    {"command": "x", "env": {"API_KEY": "abc${X}"}},
    {"command": "x", "env": {"API_KEY": "${X:-abc}"}},
    {"command": "docker", "args": ["run", "-e", "API_KEY=abc", "image"]},
    {"command": "x", "args": ["postgres://u:pw@h/db"]},
    {"command": "x", "args": ["--password", "abc"]},
    {"url": "https://a.example", "headers": {"Proxy-Authorization": "Basic abc"}},
)
PUBLIC_TABLES: tuple[Mapping[str, object], ...] = (
    {"url": "https://${USER}:${PASSWORD}@a.example/mcp?toolsets=a&api_key=${KEY}"},
    {"url": "https://a.example:8080/@a/b", "client_id": "me", "client_secret": "${SECRET}"},
    {"command": "uvx", "args": ["--from", "git+ssh://git@a.example/b", "srv", "--token=${A}", "--api-key", "${B}"]},
    {"command": "docker", "args": ["run", "-e", "API_KEY", "-e", "TOKEN=${T}", "image"]},
    {"command": "x", "env": {"DATABASE_URL": "postgres://u:${PW}@h/db", "API_KEY": "${A}${B:-}", "MODE": "fast"}},
    {"url": "https://a.example", "headers": {"Authorization": "Basic ${USER}:${PASSWORD}", "X-Team": "a"}},
)


@pytest.mark.parametrize(
    ("table", "is_secret"), [*((table, True) for table in SECRET_TABLES), *((table, False) for table in PUBLIC_TABLES)]
)
def test_a_server_with_a_key_or_password_of_its_own_stays_out_of_a_project_s_file(
    table: Mapping[str, object], is_secret: bool
) -> None:
    offer = ImportableServer("x", "vscode", "mcp.json", table)
    assert bool(import_problem(offer, {}, into_project=True)) == is_secret
    assert import_problem(offer, {}, into_project=False) == ""


def test_a_project_s_file_takes_servers_without_keys_and_keeps_what_it_says(user: User) -> None:
    env = {"HOME": str(user.home), "XDG_CONFIG_HOME": str(user.home / ".config")}
    file = user.project / ".mcp.json"
    file.write_text('{"mcpServers": {"first": {"command": "x"}}, "other": 1}')
    done = user.ebb("mcp", "import", "cursor:hub", "mine", "--to", "project", env=env)
    assert "skipped `hub` of cursor: it may contain keys, and other people can read a project's file" in done.out
    assert read_settings(file) == {
        "mcpServers": {"first": {"command": "x"}, "mine": {"type": "stdio", "command": "uvx", "args": ["srv"]}},
        "other": 1,
    }
