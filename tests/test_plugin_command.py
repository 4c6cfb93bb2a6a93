"""`ebb plugin` as users see it: what it shows, what it takes over, and what comes of that in sessions."""

import json
import os
from pathlib import Path

import pytest

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.load import load_config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.custom_commands import find_custom_commands
from ebbtide.agent.extensions.extension_folders import find_extension_folders
from ebbtide.agent.extensions.plugin_source import copy_plugin
from ebbtide.agent.extensions.session_extensions import SessionExtensions
from ebbtide.agent.extensions.session_trust import SessionTrust
from tests.kit.commands import Run, ebb
from tests.kit.files import write_file
from tests.kit.git import commit_all

HOOKS = {
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}"/scripts/guard.sh'}]}
        ]
    }
}


class Owner:
    def __init__(self, folder: Path) -> None:
        self.home, self.project, self.plugin = folder / "home", folder / "project", folder / "kit"
        for each in (self.home, self.project, self.plugin):
            each.mkdir()
        self.put(".claude-plugin/plugin.json", json.dumps({"name": "kit", "version": "1.2", "description": "A kit."}))
        self.put("skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs.\n---\nUse it.\n")
        self.put("commands/hello.md", "---\ndescription: Greets.\n---\nSay hello of ${CLAUDE_PLUGIN_ROOT}/hello.txt.\n")
        self.put("agents/critic.md", "---\nname: critic\ndescription: Finds faults.\n---\nFind faults.\n")
        self.put("hooks/hooks.json", json.dumps(HOOKS))
        self.put(
            "scripts/guard.sh", "#!/bin/sh\ngrep -q forbidden && { echo 'the kit says no' >&2; exit 2; }\nexit 0\n"
        )
        (self.plugin / "scripts" / "guard.sh").chmod(0o755)
        self.put(".mcp.json", '{"mcpServers": {"forge": {"command": "${CLAUDE_PLUGIN_ROOT}/serve"}}}')

    def put(self, name: str, text: str) -> None:
        write_file(self.plugin / name, text)

    def run(self, *arguments: str) -> Run:
        return ebb("-C", str(self.project), "plugin", *arguments, home=self.home)

    def refusal(self, folder: Path | None = None, name: str = "") -> str:
        """Why what lies in a folder is not taken."""
        with pytest.raises(UsageError) as caught, copy_plugin(str(folder or self.plugin), self.home / "plugins", name):
            pass
        return str(caught.value)

    def commits(self) -> str:
        return commit_all(self.plugin)


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


PREVIEW = """\
kit 1.2: A kit.
  from {source}
  skill pdf: Reads PDFs.
  command hello: Greets.
  agent critic: Finds faults.
  hook PreToolUse (Bash): "${{CLAUDE_PLUGIN_ROOT}}"/scripts/guard.sh
  server forge: {{"command": "${{CLAUDE_PLUGIN_ROOT}}/serve"}}
  program scripts/guard.sh
  7 files in all
"""


def test_a_folder_is_shown_and_added_and_taken_away_again(owner: Owner) -> None:
    assert owner.run("list").out == "no plugins yet; add one with `ebb plugin add PATH|GIT-URL`\n"
    preview = owner.run("add", str(owner.plugin))
    assert preview.out.startswith(PREVIEW.format(source=owner.plugin))
    assert preview.out.endswith("nothing added; `--yes` adds it without asking\n")
    assert owner.run("list").out.startswith("no plugins")
    added = owner.run("add", str(owner.plugin), "--yes")
    assert (added.code, added.out.splitlines()[-1]) == (
        0,
        "added `kit` for new sessions; remove it with `ebb plugin remove kit`",
    )
    assert owner.run("list").out == f"{'kit':<20}  1.2       {owner.plugin}  A kit.\n"
    again = owner.run("add", str(owner.plugin), "--json")
    assert (again.result["added"], again.result["problems"]) == (False, [])
    assert owner.run("remove", "kit").out == "removed `kit`\n"
    assert owner.run("remove", "kit").out == "no plugin `kit`\n"
    assert sorted(os.listdir(owner.home / "data" / "plugins")) == ["plugins.json", "plugins.json.lock"]


def test_a_repository_is_taken_at_one_commit_and_without_its_hooks(owner: Owner) -> None:
    first = owner.commits()
    owner.put("commands/bye.md", "Say bye.\n")
    owner.put(".gitattributes", "*.md filter=bad\n")
    second = owner.commits()
    address = f"file://{owner.plugin}"
    added = owner.run("add", address, "--yes", "--ref", first, "--json")
    assert (added.result["commit"], added.result["added"], added.code) == (first, True, 0)
    printed = owner.run("add", address, "--yes").out
    assert (
        f"  from {address} at commit {second}\n  replaces the one from {address} at commit {first} (different files)"
        in printed
    )
    folder = owner.home / "data" / "plugins" / "kit"
    assert (folder / "commands" / "bye.md").exists()
    assert not (folder / ".git").exists()
    (row,) = owner.run("list", "--json").result["plugins"]
    assert (row["commit"], row["problem"]) == (second, "")
    for refused in ("ext::sh -c touch% /tmp/x", "http://127.0.0.1:1/x", str(owner.plugin / "nothing")):
        assert owner.run("add", refused, "--yes").code == 2
    for ref in ("--upload-pack=touch x", "nowhere"):
        assert owner.run("add", address, "--yes", f"--ref={ref}").code == 2
    assert owner.run("add", f"{address}#{first}", "--yes", "--json").result["commit"] == first
    refusals = (
        (f"{address}#nowhere", "git could not fetch it: `fatal: couldn't find remote ref nowhere`"),
        (f"{address}/no", f"git could not fetch it: `fatal: '{owner.plugin}/no' does not appear to be a git r"),
        ("kit.git", "no folder `kit.git`; an address begins with `https://`, `ssh://`, `file://` or `git@`"),
    )
    assert [reason for source, reason in refusals if reason not in owner.run("add", source, "--yes").err] == []


def test_one_of_several_in_a_repository_is_named(owner: Owner, tmp_path: Path) -> None:
    market = tmp_path / "market"
    (market / "plugins").mkdir(parents=True)
    owner.plugin.rename(market / "plugins" / "kit")
    (market / ".claude-plugin").mkdir()
    sources = {"kit": "./plugins/kit", "out": "../..", "nul": "a\0b", "half": "\ud800"}
    plugins = [*({"name": name, "source": source} for name, source in sources.items()), {"name": "other"}]
    (market / ".claude-plugin" / "marketplace.json").write_text(json.dumps({"plugins": plugins}))
    assert owner.refusal(market) == "it contains several plugins; choose one with `--plugin`: kit, out, nul, half"
    message = "it contains no plugin `other` that can be fetched; available: kit, out, nul, half"
    assert owner.refusal(market, "other") == message
    for name in ("out", "nul", "half"):
        assert owner.refusal(market, name) == f"the plugin `{name}` is not in this repository"
    with copy_plugin(str(market), owner.home / "plugins", "kit") as plugin:
        assert (plugin.name, plugin.version, plugin.source) == ("kit", "1.2", str(market))


def test_a_repository_of_several_says_itself_what_each_of_them_is(owner: Owner) -> None:
    """As in public ones: all lie in one folder, of which each is a part."""
    for name in ("xlsx", "art"):
        owner.put(f"skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n")
    parts = {
        "source": "./",
        "strict": False,
        "skills": ["./skills/xlsx", "./skills/pdf"],
        "agents": "./agents/critic.md",
    }
    plugins = [
        {"name": "office", "version": "2", **parts},
        {"name": "all", "source": ".", "commands": ["./more/bye.md"]},
    ]
    owner.put(".claude-plugin/marketplace.json", json.dumps({"plugins": plugins}))
    owner.put("more/bye.md", "Say bye.\n")
    owner.put("more/no.md", "Say no.\n")
    assert owner.run("add", str(owner.plugin), "--plugin", "office", "--yes").out.splitlines()[:7] == [
        "office 2: A kit.",
        f"  from {owner.plugin}",
        "  skill xlsx: Does xlsx.",
        "  skill pdf: Reads PDFs.",
        "  command hello: Greets.",
        "  agent critic: Finds faults.",
        '  hook PreToolUse (Bash): "${CLAUDE_PLUGIN_ROOT}"/scripts/guard.sh',
    ]
    lines = owner.run("add", str(owner.plugin), "--plugin", "all", "--yes").out.splitlines()
    assert [line.split()[1].rstrip(":") for line in lines if line.startswith(("  skill", "  command"))] == [
        "art", "pdf", "xlsx", "hello", "bye",
    ]  # fmt: skip
    config = load_config(owner.project, {"HOME": str(owner.home), "EBB_HOME": str(owner.home)}, {})
    names = [command.name for command in find_custom_commands(config)[0]]
    assert names == ["hello", "bye", "office:hello"]
    extensions = SessionExtensions(config, SessionTrust(config, Channel(is_interactive=False)))
    assert [
        each and each.name for each in map(extensions.find_by_name, ("/", "all:bye", "ALL:Hello", "office:hello"))
    ] == [
        None,
        "bye",
        "hello",
        "office:hello",
    ]


def test_a_plugin_may_lie_in_another_repository(owner: Owner, tmp_path: Path) -> None:
    commit = owner.commits()
    market = tmp_path / "market"
    (market / ".claude-plugin").mkdir(parents=True)
    at = {"source": "git-subdir", "url": f"file://{owner.plugin}", "path": ".", "sha": commit}
    sources = {"kit": at, "far": {**at, "path": "../.."}, "npm": {"source": "npm", "package": "x"}, "own": "kit"}
    plugins = [{"name": name, "source": source} for name, source in sources.items()]
    text = json.dumps({"plugins": plugins, "metadata": {"pluginRoot": "./plugins"}})
    (market / ".claude-plugin" / "marketplace.json").write_text(f"\ufeff{text}")
    with copy_plugin(str(market), owner.home / "plugins", "kit") as plugin:
        assert (plugin.name, plugin.source, plugin.commit) == ("kit", f"file://{owner.plugin}", commit)
    assert owner.refusal(market, "far") == "the plugin `far` is not in this repository"
    assert owner.refusal(market, "npm") == "it contains no plugin `npm` that can be fetched; available: kit, far, own"
    assert owner.refusal(market, "own") == "the plugin `own` is not in this repository"
    assert (
        owner.run("add", "owner/kit")
        .err.rstrip()
        .endswith("; for the GitHub repository use `https://github.com/owner/kit`")
    )


def test_what_a_plugin_brings_besides_is_named(owner: Owner) -> None:
    owner.put(".claude-plugin/plugin.json", json.dumps({"name": "kit", "lspServers": {"x": {"command": "x"}}}))
    owner.put("output-styles/loud.md", "Be loud.\n")
    problem = "`lspServers`, `outputStyles` are not supported and are skipped"
    assert owner.run("add", str(owner.plugin), "--json").result["problems"] == [problem]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda plugin: (plugin / "etc").symlink_to("/etc"), "its link `etc` leads out of it"),
        (lambda plugin: (plugin / "skills" / "x").symlink_to("../../project"), "its link `skills/x` leads out of it"),
        (lambda plugin: os.mkfifo(plugin / "skills" / "pipe"), "`skills/pipe` is neither a file nor a folder"),
        (lambda plugin: os.truncate(plugin / ".mcp.json", 30_000_000), "it contains more than 2,000 files or"),
    ],
)  # fmt: skip
def test_what_leads_out_of_its_folder_is_refused(owner: Owner, spoil: object, reason: str) -> None:
    assert callable(spoil)
    spoil(owner.plugin)
    assert owner.refusal().startswith(f"the plugin `kit` cannot be used: {reason}")
    assert os.listdir(owner.home / "plugins") == []


def test_a_manifest_that_cannot_be_used_is_named(owner: Owner) -> None:
    for manifest, message in (
        ("{", "`.claude-plugin/plugin.json` cannot be used: it is not valid JSON: "),
        ('{"name": "../x"}', "'../x' is not a valid plugin name: "),
        ('{"name": "plugins.json"}', "'plugins.json' is not a valid plugin name: "),
    ):
        owner.put(".claude-plugin/plugin.json", manifest)
        assert owner.refusal().startswith(message)
    assert owner.refusal(owner.project).startswith("`project` contains no skills, commands, agents, hooks or servers")


def test_hooks_and_servers_of_a_plugin_are_there_in_sessions_until_its_files_change(owner: Owner) -> None:
    assert owner.run("add", str(owner.plugin), "--yes").code == 0
    script = owner.home / "script.json"
    call = {"name": "bash", "arguments": {"command": "echo forbidden"}}
    script.write_text(json.dumps({"reply": [{"calls": [call]}, {"text": "done"}]}))
    ask = ("-C", str(owner.project), "-p", "go", "-m", f"scripted/{script}", "--permission-mode", "auto")
    run = ebb(*ask, "--output-format", "json", home=owner.home)
    assert run.result["denied"][0]["rule"] == "a hook denied it: the kit says no"
    servers = ebb("-C", str(owner.project), "mcp", "list", "--json", home=owner.home).result
    assert (servers["name"], servers["owner"], servers["source"]) == ("forge", "user", "plugin kit")
    config = load_config(owner.project, {"HOME": str(owner.home), "EBB_HOME": str(owner.home)}, {})
    (hello,), _ = find_custom_commands(config)
    assert hello.text == f"Say hello of {owner.home}/data/plugins/kit/hello.txt.\n"
    (owner.project / ".claude" / "skills").mkdir(parents=True)
    folder = owner.home / "data" / "plugins" / "kit"
    assert [(place.owner, place.path) for place in find_extension_folders("skill", config)] == [
        ("plugin", folder / "skills"),
        ("project", owner.project / ".claude" / "skills"),
    ]
    (folder / "scripts" / "guard.sh").write_text("#!/bin/sh\n")
    run = ebb(*ask, "--output-format", "json", home=owner.home)
    assert run.result["denied"] == []
    assert "unusable: its files have changed" in owner.run("list").out
