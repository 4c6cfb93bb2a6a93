"""Rules that a project has written for Claude Code: they hold as far as they tighten."""

import json

import pytest

from ebbtide.agent.events.permissions import CallDenied, Decision, PermissionAsked
from ebbtide.agent.hooks.claude_rules import ClaudeRule, ClaudeRules, load_claude_rules
from ebbtide.agent.hooks.tool_names import to_claude_calls
from ebbtide.agent.messages import ToolCall
from tests.kit.extension_project import HookProject
from tests.kit.session import bash, call, calls

DONE = {"text": "done"}


def declare(project: HookProject, name: str = "settings.json", **permissions: object) -> None:
    project.write(f".claude/{name}", json.dumps({"permissions": permissions}))


@pytest.mark.parametrize(
    ("rule", "tool", "arguments", "verdict"),
    [
        ("Read(./secrets/**)", "read", {"path": "secrets/a/k.txt"}, "deny"),
        ("Read(secrets/**)", "grep", {"pattern": "x", "path": "secrets/a"}, "deny"),
        ("Read(./secrets/**)", "read", {"path": "src/secrets.py"}, None),
        ("Read(**/*.pem)", "read", {"path": "a/b.pem"}, "deny"),
        ("Read(./.env.*)", "bash", {"command": "cat .env.local | head"}, "deny"),
        ("Read(./.env.*)", "bash", {"command": "echo .env.local"}, None),
        ("Read(./.env)", "bash", {"command": "python load.py .env"}, "ask"),
        ("Edit(/src/gen/**)", "write", {"path": "src/gen/a.py", "content": ""}, "deny"),
        ("Write(/src/gen/**)", "edit", {"path": "src/gen/a.py", "old": "a", "new": "b"}, "deny"),
        ("Edit(/src/gen/**)", "bash", {"command": "echo x > src/gen/a.py"}, "deny"),
        ("Edit(*.lock)", "apply_patch", {"patch": "*** Begin Patch\n*** Delete File: a.lock\n*** End Patch"}, "deny"),
        ("Bash(curl:*)", "bash", {"command": "cd /tmp && curl http://a"}, "deny"),
        ("Bash(rm -rf *)", "bash", {"command": "$DO -rf x"}, "ask"),
        ("Bash(rm -rf *)", "bash", {"command": "rm x"}, None),
        ("WebFetch", "web_fetch", {"url": "http://a"}, "deny"),
        ("Task(explore)", "task", {"agent": "explore", "prompt": "x"}, "deny"),
        ("mcp__github", "mcp__github__push", {}, "deny"),
        ("Skill(x)", "bash", {"command": "x"}, None),
    ],
)
def test_a_rule_means_the_calls_that_it_means_there(
    rule: str, tool: str, arguments: dict[str, object], verdict: str | None
) -> None:
    rules = ClaudeRules((ClaudeRule(rule, "deny", "settings.json"),))
    ruling = rules.decide_call(to_claude_calls(ToolCall("1", tool, arguments), "/p"), "/p", "/p")
    assert (ruling and ruling.verdict) == verdict


async def test_what_a_project_denies_is_denied_before_anything_is_approved(project: HookProject) -> None:
    project.trusts = False
    declare(project, allow=["Bash"], deny=["Read(./secrets/**)"], ask=["Bash(git push:*)"])
    declare(project, "settings.local.json", deny=["Bash(curl:*)"])
    project.write(".claude/settings.json", '{"permissions": {"deny": ["Read(*.pem)"]}}', of_user=True)
    project.write("a.pem", "key")
    project.write("secrets/k", "key")
    project.script(
        calls(call("read", path="secrets/k"), bash("curl x"), bash("git push"), bash("echo hi")),
        calls(bash("cat a.pem")),
        DONE,
    )
    done = await project.run()
    assert [event.rule for event in done.events if isinstance(event, CallDenied)] == [
        "the rule `Read(./secrets/**)` of `.claude/settings.json` denied it",
        "the rule `Bash(curl:*)` of `.claude/settings.local.json` denied it",
        "the rule `Bash(git push:*)` of `.claude/settings.json` asks for your approval",
        "the rule `Read(*.pem)` of `~/.claude/settings.json` denied it",
    ]
    assert done.told == []


async def test_who_is_there_is_asked_and_a_hook_cannot_change_a_call_into_a_denied_one(project: HookProject) -> None:
    project.write(
        "change.sh",
        """#!/bin/sh
grep -q "echo one" || exit 0
echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
       "updatedInput": {"command": "curl x"}}}'
""",
    )
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./change.sh"}]}]}
    permissions = {"deny": ["Bash(curl:*)"], "ask": ["Bash(echo two)"]}
    project.write(".claude/settings.json", json.dumps({"hooks": hooks, "permissions": permissions}))
    project.script(calls(bash("echo one"), bash("echo two")), DONE)
    asked: list[PermissionAsked] = []

    def answer(session: object, event: object) -> None:
        if isinstance(event, PermissionAsked):
            asked.append(event)
            session.answer(event.id, Decision("allow"))  # type: ignore[attr-defined]  # it is a session

    done = await project.run(interactive=True, meanwhile=answer)
    assert [event.arguments["command"] for event in asked] == ["echo two"]
    denied = [event.rule for event in done.events if isinstance(event, CallDenied)]
    assert denied == ["the rule `Bash(curl:*)` of `.claude/settings.json` denied it"]


def test_what_is_no_rule_costs_a_line(project: HookProject) -> None:
    declare(project, deny=["Read(x", 3, "", "Bash(rm:*)"], ask="WebSearch")
    found = load_claude_rules(project.config())
    assert [(rule.text, rule.verdict) for rule in found.rules] == [("Bash(rm:*)", "deny"), ("WebSearch", "ask")]
    assert found.problems == ("`permissions.deny` in `.claude/settings.json`: 3 entries ignored, not valid rules",)
    project.write(".claude/settings.json", "\ufeff{]")
    (problem,) = load_claude_rules(project.config()).problems
    assert problem.startswith("the rules of `.claude/settings.json` are skipped: it is not valid JSON: ")
    declare(project, deny={"a": 1})
    assert load_claude_rules(project.config()).rules == ()
