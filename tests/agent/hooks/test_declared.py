"""Which hooks a session has, and what of them has to be approved."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.config.hook_tables import HookEntry, HookEvent, HttpAction, parse_hooks
from ebbtide.agent.config.load import load_config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.hooks.declarations import DeclaredHook, collect_hooks
from ebbtide.agent.hooks.matchers import matches_call, matches_names
from ebbtide.agent.hooks.tool_names import ClaudeToolCall
from tests.kit.extension_project import HookProject


def command(line: str) -> ClaudeToolCall:
    return ClaudeToolCall("Bash", {"command": line}, our_name="bash")


def file(path: str) -> ClaudeToolCall:
    return ClaudeToolCall("Edit", {"file_path": path}, ("MultiEdit",), our_name="edit")


@pytest.mark.parametrize(
    ("matcher", "names", "expected"),
    [
        ("", ("Bash",), True),
        ("*", ("Bash",), True),
        ("Bash", ("Bash",), True),
        ("Bash", ("BashOutput", "TaskOutput"), False),
        ("Edit|Write", ("Write",), True),
        ("MultiEdit, Write", ("Edit", "MultiEdit"), True),
        ("bash", ("Bash",), False),
        ("Notebook.*", ("NotebookEdit",), True),
        ("mcp__.*__write.*", ("mcp__files__write_file",), True),
        ("^(Edit|Write)$", ("Edit",), True),
        ("^(?!Bash)", ("Bash",), False),
        ("^(?!Bash)", ("Read",), True),
        ("(a+)+$", ("a" * 190 + "b",), False),
        ("startup|resume", ("compact",), False),
        ("Bash", (), True),
        ("mcp__files", ("mcp__files__write_file",), True),
        ("Read|mcp__file", ("mcp__files__write_file",), False),
    ],
)
def test_a_matcher_means_tools_by_name_or_pattern(matcher: str, names: tuple[str, ...], expected: bool) -> None:
    assert matches_names(matcher, names) is expected


@pytest.mark.parametrize(
    ("matcher", "view", "expected"),
    [
        ("Bash(touch:*)", command("touch a"), True),
        ("Bash(touch:*)", command("ls && touch a"), True),
        ("Bash(touch:*)", command("ls"), False),
        ("Bash(touch:*)", ClaudeToolCall("BashOutput", {}), False),
        ("Write|Edit|Bash(git commit:*)|Bash(git push:*)", command("git push"), True),
        ("Write|Edit|Bash(git commit:*)|Bash(git push:*)", file("/p/a"), True),
        ("Write|Edit|Bash(git commit:*)|Bash(git push:*)", command("git log"), False),
        ("Bash(git add.*)", command("git add a"), True),
        ("Bash(git (add|commit).+)", command("cd x; git commit -m y"), True),
        ("Bash(git )", command("git push"), True),
        ("Bash(git )", command("gitk"), False),
        ("Bash(*)", command("ls"), True),
        ("bash(rm *)", command("rm x"), True),
        ("Edit(*.py)", file("/p/a.py"), True),
        ("Edit(.*\\.py$)", file("/p/a.py"), True),
        ("Edit(*.py)", file("/p/a.pyx"), False),
        ("Task(Create|Update)", ClaudeToolCall("TaskCreate", {}), True),
        ("mcp__(a|b)__.*", ClaudeToolCall("mcp__b__c", {}), True),
        ("mcp__db__query(DROP *)", ClaudeToolCall("mcp__db__query", {"sql": "DROP TABLE a"}), True),
    ],
)
def test_a_matcher_may_be_a_permission_rule(matcher: str, view: ClaudeToolCall, expected: bool) -> None:
    assert matches_call(matcher, view, "/p", "/p", "/home/u") is expected


@pytest.mark.parametrize(
    ("matcher", "event", "is_named"),
    [
        ("git add", "PreToolUse", True),
        ("BASH", "PreToolUse", True),
        ("edit", "PreToolUse", False),
        ("Edit, Write", "PreToolUse", False),
        ("stock", "PreToolUse", False),
        ("Bash(*)", "PreToolUse", False),
        ("Bash(*", "PreToolUse", True),
        ("code reviewer", "SubagentStop", False),
    ],
)
def test_a_matcher_that_never_matches_is_named(matcher: str, event: HookEvent, is_named: bool) -> None:
    assert bool(DeclaredHook(HookEntry(event, matcher, "x"), "user", "config.toml").unusable_reason) is is_named


def test_keys_of_a_hook_say_when_where_and_how_it_runs() -> None:
    keys = {"if": " Bash(git *) ", "once": True, "asyncRewake": True, "statusMessage": "looks", "timeout": 5}
    target = {"url": "http://a/b", "headers": {"X-Key": "$KEY"}, "allowedEnvVars": ["KEY"]}
    hooks = [
        {"command": "a", **keys},
        {"command": "b", "args": ["${CLAUDE_PROJECT_DIR}/x y"]},
        {"command": "Get-Date", "shell": "powershell"},
        {"type": "http", **target},
    ]
    found, problems = parse_hooks({"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]})
    assert problems == ()
    assert [each.summary for each in found] == [
        "PreToolUse (Bash, if Bash(git *)): a",
        "PreToolUse (Bash): b '${CLAUDE_PROJECT_DIR}/x y'",
        "PreToolUse (Bash): pwsh -NoProfile -Command Get-Date",
        "PreToolUse (Bash): posts to http://a/b with $KEY",
    ]
    assert found[0] == HookEntry("PreToolUse", "Bash", "a", 5.0, "Bash(git *)", True, True, "looks")
    assert found[3].action == HttpAction("http://a/b", (("X-Key", "$KEY"),), ("KEY",))
    assert DeclaredHook(found[1], "user", "config.toml").argv("/p") == ("b", "/p/x y")


def test_servers_of_a_project_are_on_this_machine(project: HookProject) -> None:
    urls = ["http://localhost:8080/a", "https://example.org/a", "http://localhost.example.org/", "http://127.0.0.1@b/"]
    hooks: list[dict[str, object]] = [{"type": "http", "url": url} for url in urls]
    hooks.append({"type": "http", "url": "http://[::1]/", "allowedEnvVars": ["KEY"]})
    settings = json.dumps({"hooks": {"Stop": [{"hooks": hooks}]}})
    project.write(".claude/settings.json", settings)
    found = collect_hooks(project.config())
    assert [each.entry.action_text for each in found.hooks] == ["posts to http://localhost:8080/a"]
    assert [each.partition("` for Stop is skipped: a project's hooks")[0] for each in found.problems] == [
        "the hook `posts to https://example.org/a",
        "the hook `posts to http://localhost.example.org/",
        "the hook `posts to http://127.0.0.1@b/",
        "the hook `posts to http://[::1]/ with $KEY",
    ]
    project.write(".claude/settings.json", settings, of_user=True)
    assert len(collect_hooks(project.config()).hooks) == 6


def test_a_hook_may_take_as_long_as_its_event_lets_it() -> None:
    events: list[HookEvent] = ["Stop", "UserPromptSubmit", "SessionEnd"]
    assert [DeclaredHook(HookEntry(event, "", "x"), "user", "").timeout for event in events] == [600, 30, 5]
    assert DeclaredHook(HookEntry("SessionEnd", "", "x", 60.0), "user", "").timeout == 60


def test_our_configuration_says_hooks_in_the_same_shape(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    file = tmp_path / "config" / "config.toml"
    file.write_text(
        '[[hooks.PreToolUse]]\nmatcher = "Bash"\nhooks = [{ type = "command", command = "a", timeout = 5 }]\n'
        '[[hooks.Stop]]\nhooks = [{ command = ["b", "-q"] }, { command = "c", async = true }]\n'
        '[[hooks.after_tool]]\nmatch = "bash"\ncommand = "d"\n'
    )
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {})
    assert config.hooks == (
        HookEntry("PreToolUse", "Bash", "a", 5.0),
        HookEntry("Stop", "", ("b", "-q")),
        HookEntry("Stop", "", "c", runs_in_background=True),
    )
    assert [each.command for each in config.hooks_after_tool] == ["d"]
    assert config.may_have_hooks
    file.write_text('[[hooks.PreTool]]\nhooks = [{ command = "a" }]\n')
    with pytest.raises(ConfigError, match="unknown hook event `PreTool`; known events are SessionStart, "):
        load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {})


def test_what_is_not_understood_is_left_out_and_named() -> None:
    found, problems = parse_hooks(
        {
            "Stop": [
                {
                    "hooks": [
                        {"type": "script", "prompt": "?"},
                        {"type": ["command"]},
                        {"type": "command", "command": "ok"},
                        3,
                        {"command": "x", "if": "Bash"},
                        {"command": "x", "only": "Bash"},
                        {"command": "x", "async": "yes"},
                        {"command": "x", "statusMessage": 3},
                        {"command": "x", "shell": "fish"},
                        {"type": "http"},
                        {"type": "http", "url": "file:///etc/passwd"},
                        {"type": "http", "url": "http://a", "headers": {"X": "a\nb"}},
                        {"type": "http", "url": "http://a", "allowedEnvVars": "TOKEN"},
                        {"type": "http", "url": "http://a", "command": "x"},
                    ]
                }
            ],
            "PreToolUse": [{"hooks": [{"command": "x", "if": "Bash(git"}]}, {"matcher": "Bash"}],
            "WorktreeCreate": [],
            "Setup": [],
            "SessionEnd": [{"hooks": [{"command": "x", "timeout": -1}, {"command": ""}]}],
            "SessionStart": {},
        }
    )
    assert found == (HookEntry("Stop", "", "ok"),)
    assert [problem[:60] for problem in problems] == [
        "unknown hook event `WorktreeCreate`, `Setup`; known events a",
        "a hook for `Stop` is skipped: its `type` is 'script'; the kn",
        "a hook for `Stop` is skipped: its `type` is \"['command']\"; t",
        "a hook for `Stop` is skipped: it is not a table",
        "a hook for `Stop` is skipped: `if` applies only to tool call",
        "a hook for `Stop` is skipped: unknown key `only`",
        "a hook for `Stop` is skipped: its `async` must be true or fa",
        "a hook for `Stop` is skipped: its `statusMessage` must be a ",
        "a hook for `Stop` is skipped: its `shell` must be `bash` or ",
        "a hook for `Stop` is skipped: its `url` must begin with `htt",
        "a hook for `Stop` is skipped: its `headers` must be strings ",
        "a hook for `Stop` is skipped: its `allowedEnvVars` must be v",
        "a hook for `Stop` is skipped: unknown key `command`",
        "a hook for `PreToolUse` is skipped: its `if` must be a rule ",
        '`hooks.PreToolUse` must contain tables such as {matcher = "B',
        "a hook for `SessionEnd` is skipped: its `timeout` must be a ",
        "a hook for `SessionEnd` is skipped: it has no `command`",
        "`hooks.SessionStart` must be a list of tables with `matcher`",
    ]


def test_a_project_declares_hooks_that_are_approved_with_the_scripts_that_they_run(project: HookProject) -> None:
    script = project.write(".claude/hooks/guard.sh", "#!/bin/sh\n. ./shared.sh\n")
    shared = project.write(".claude/hooks/shared.sh", "true\n")
    other = project.write("tools/check.py", "print()\n")
    project.settings(
        PreToolUse=[("Bash", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh')],
        Stop=[("", "python3 tools/check.py || exit 2")],
    )
    found = collect_hooks(project.config())
    (file,) = found.files
    assert found.problems == ()
    assert [(each.event, each.owner, each.declared_in) for each in found.hooks] == [
        ("PreToolUse", "project", ".claude/settings.json"),
        ("Stop", "project", ".claude/settings.json"),
    ]
    assert file.trust_item.details == (
        'PreToolUse (Bash): "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh',
        "Stop: python3 tools/check.py || exit 2",
        "runs the file .claude/hooks/guard.sh",
        "runs the file tools/check.py",
    )
    assert file.is_unchanged()
    for each in (script, shared, other):
        before = each.read_text()
        each.write_text(f"{before}# more\n")
        assert not file.is_unchanged(), each
        each.write_text(before)
    assert file.is_unchanged()
    project.settings(Stop=[("", "true")])
    assert not file.is_unchanged()


def test_broken_settings_cost_a_line(project: HookProject) -> None:
    settings = project.write(".claude/settings.json", "{")
    (problem,) = collect_hooks(project.config()).problems
    assert problem.startswith("the hooks of `.claude/settings.json` are skipped: it is not valid JSON: ")
    for text in (
        '{"hooks": {}}',
        '{"permissions": {}}',
        "",
        '{"disableAllHooks": true, "hooks": {"Stop": [{"hooks": []}]}}',
    ):
        settings.write_text(text)
        assert collect_hooks(project.config()) == replace(collect_hooks(project.config()), hooks=(), problems=())
    settings.unlink()
    os.mkfifo(settings)
    (problem,) = collect_hooks(project.config()).problems
    assert problem == "the hooks of `.claude/settings.json` are skipped: it cannot be read: it is not a regular file"
    settings.unlink()
    settings.symlink_to("/etc/hostname")
    (problem,) = collect_hooks(project.config()).problems
    assert problem == f"the hooks of `.claude/settings.json` are skipped: it leads out of `{project.root}`"
    project.write(".claude/settings.local.json", '{"hooks": {"Stop": [{"matcher": "(", "hooks": [{"command": "x"}]}]}}')
    assert "its matcher `(` is not a valid pattern" in collect_hooks(project.config()).problems[-1]


def test_a_list_may_mean_a_tool_by_our_name_and_a_pattern_does_not() -> None:
    assert matches_names("bash|apply_patch", ("Edit", "MultiEdit"), "apply_patch")
    assert not matches_names("^(?!Edit)", ("Edit",), "edit")
    assert not matches_names("Edit|", ("Bash",), "")


def test_a_script_that_is_named_by_another_way_into_the_project_is_approved_with_what_it_holds(
    project: HookProject,
) -> None:
    (project.folder / "link").symlink_to(project.root)
    script = project.write("run.sh", "true\n")
    project.settings(Stop=[("", f"sh {project.folder}/link/run.sh")])
    (file,) = collect_hooks(project.config()).files
    assert file.trust_item.details == (f"Stop: sh {project.folder}/link/run.sh", "runs the file run.sh")
    script.write_text("touch made\n")
    assert not file.is_unchanged()


def test_an_approval_is_of_the_same_in_another_folder_with_the_same_files(project: HookProject) -> None:
    project.write(".claude/hooks/run.sh", "true\n")
    project.settings(Stop=[("", ".claude/hooks/run.sh")])
    (here,) = collect_hooks(project.config()).files
    project.root = project.root.rename(project.folder / "tree")
    (there,) = collect_hooks(project.config()).files
    assert there.trust_item == here.trust_item
