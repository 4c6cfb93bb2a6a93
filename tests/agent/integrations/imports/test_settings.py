"""Settings of other agents: what they are in our terms, and that no rule allows more than it did there."""

import json
from pathlib import Path

from ebbtide.agent.config.load import read_toml
from ebbtide.agent.config.options import PROVIDER_NAMES
from ebbtide.agent.integrations.imports.agent_folders import find_agent_folders
from ebbtide.agent.integrations.imports.settings import find_importable_settings
from ebbtide.agent.providers.registry import registry_models
from tests.kit.files import write_file
from tests.kit.user import User

CLAUDE = {
    "model": "opus[1m]",
    "permissions": {
        "allow": [
            "Bash(npm run test:*)", "Bash(ls)", "Bash(git:*)", "Bash(find * -x)", "Bash(echo $X:*)", "Read(~/notes/**)",
            "Edit(src/**)", "mcp__hub", "mcp__hub__get", "mcp__wiki__get", "WebFetch(domain:a.example)", "Odd", "(",
        ],
        "deny": ["Bash(rm -rf:*)", "Edit(//etc/**)"],
        "ask": ["Bash(git push:*)", "mcp__wiki"],
    },
}  # fmt: skip
OPENCODE = {
    "model": "amazon-bedrock/x",
    "permission": {"bash": {"*": "ask", "git *": "allow", "git push *": "ask", "ls": "allow"}, "edit": "deny"},
}
GEMINI = {"tools": {"allowed": ["run_shell_command(git)", "replace"]}}


def set_up(home: Path) -> None:
    for name, content in (
        (".claude/settings.json", json.dumps(CLAUDE)),
        (".codex/config.toml", 'model = "gpt-test"\nmodel_reasoning_effort = "high"\napproval_policy = "never"\n'),
        (".config/opencode/opencode.json", json.dumps(OPENCODE)),
        (".gemini/settings.json", json.dumps(GEMINI)),
        (".aider.conf.yml", "# mine\nmodel: 'ollama_chat/x'  # local\nreasoning-effort: odd\n"),
    ):
        write_file(home / name, content)


def test_settings_are_read_in_our_terms_and_no_rule_allows_more_than_it_did(tmp_path: Path) -> None:
    set_up(tmp_path)
    offers, problems = find_importable_settings(find_agent_folders({"HOME": str(tmp_path)}), tmp_path / "app")
    opus = next(one.value for one in offers if one.original == "model `opus[1m]`")
    assert opus.removeprefix("anthropic/") in registry_models("anthropic")
    not_here, asked = "no equivalent here", "also asked here, as are all calls that no rule allows"
    in_place = "already applies here, read from that file"
    in_part = "it would allow calls that `{}` asks about there"
    assert [(one.agent, one.description) for one in offers] == [
        ("claude", f"model `opus[1m]` → agent.model {opus}"),
        ("claude", "allow `Bash(npm run test:*)` → permissions.allow bash(npm run test)"),
        ("claude", "allow `Bash(ls)` → permissions.allow bash(=ls)"),
        ("claude", f"allow `Bash(git:*)`: {in_part.format('Bash(git push:*)')}"),
        ("claude", f"allow `Bash(find * -x)`: {not_here}"),
        ("claude", f"allow `Bash(echo $X:*)`: {not_here}"),
        ("claude", f"allow `Read(~/notes/**)` → permissions.allow read({tmp_path}/notes/)"),
        ("claude", f"allow `Edit(src/**)`: {not_here}"),
        ("claude", "allow `mcp__hub` → permissions.allow mcp__hub__*"),
        ("claude", "allow `mcp__hub__get` → permissions.allow mcp__hub__get"),
        ("claude", f"allow `mcp__wiki__get`: {in_part.format('mcp__wiki')}"),
        ("claude", "allow `WebFetch(domain:a.example)` → permissions.allow web_fetch(a.example)"),
        ("claude", f"allow `Odd`: {not_here}"),
        ("claude", f"allow `(`: {in_part.format('Bash(git push:*)')}"),
        ("claude", "deny `Bash(rm -rf:*)` → permissions.deny bash(rm -rf)"),
        *(("claude", f"deny `Edit(//etc/**)` → permissions.deny {tool}(/etc/)") for tool in WRITERS),
        ("claude", f"ask `Bash(git push:*)`: {in_place}"),
        ("claude", f"ask `mcp__wiki`: {in_place}"),
        ("codex", "model `gpt-test` → agent.model openai/gpt-test"),
        ("codex", "reasoning effort `high` → agent.reasoning_effort high"),
        ("codex", "approval_policy `never`: use a permission mode instead: `/mode`, `--permission-mode`"),
        ("opencode", f"model `amazon-bedrock/x`: its provider is not one of {', '.join(PROVIDER_NAMES[:-1])}"),
        ("opencode", f"ask `bash(*)`: {asked}"),
        ("opencode", f"allow `bash(git *)`: {in_part.format('git push *')}"),
        ("opencode", f"ask `bash(git push *)`: {asked}"),
        ("opencode", "allow `bash(ls)` → permissions.allow bash(=ls)"),
        *(("opencode", f"deny `edit(*)` → permissions.deny {tool}") for tool in WRITERS),
        ("gemini", "allow `run_shell_command(git)` → permissions.allow bash(git)"),
        ("gemini", "allow `replace` → permissions.allow edit"),
        ("aider", "model `ollama_chat/x` → agent.model ollama/x"),
        ("aider", "reasoning effort `odd`: unknown effort"),
    ]
    assert problems == []


def test_providers_have_their_names_here(tmp_path: Path) -> None:
    write_file(tmp_path / ".config/opencode/opencode.json", json.dumps({"model": "google/x"}))
    offers, _ = find_importable_settings(find_agent_folders({"HOME": str(tmp_path)}), tmp_path / "app")
    assert [one.description for one in offers] == ["model `google/x` → agent.model gemini/x"]


WRITERS = ("edit", "write", "apply_patch")


def test_what_is_set_here_stays_and_what_is_not_is_taken_with_yes(tmp_path: Path) -> None:
    user = User(tmp_path)
    set_up(tmp_path)
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    config = write_file(tmp_path / "config" / "config.toml", '# mine\n[permissions]\nallow = ["glob", "bash(=ls)"]\n')
    preview = user.ebb("import", env=env)
    assert (preview.code, config.read_text().count("\n")) == (0, 3)
    assert "nothing imported" in preview.out
    (done,) = user.ebb("import", "--yes", "--json", "--from", "codex", "--from", "opencode", env=env).lines
    assert (done["model"]["written"], done["rules"]["written"]) == (
        ["agent.model openai/gpt-test", "agent.reasoning_effort high"], [f"permissions.deny {tool}" for tool in WRITERS]
    )  # fmt: skip
    assert done["rules"]["left"]["allow `bash(ls)`"] == "already configured"
    assert config.read_text().startswith("# mine\n")
    assert read_toml(config) == {
        "permissions": {"allow": ["glob", "bash(=ls)"], "deny": [*WRITERS]},
        "agent": {"model": "openai/gpt-test", "reasoning_effort": "high"},
    }
