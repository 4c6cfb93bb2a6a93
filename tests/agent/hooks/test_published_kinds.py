"""Ten more kinds of scripts that people publish for Claude Code, written anew: each in a session, unchanged."""

import json
import shutil
from typing import Any

import pytest

from tests.kit.extension_project import HOOKS, HookProject
from tests.kit.session import bash, call, calls

DONE: dict[str, Any] = {"text": "All is done."}
HERE = '"$CLAUDE_PROJECT_DIR"/.claude/hooks'


BRANCH_GUARD = """#!/usr/bin/env bash
set -euo pipefail
read -r input
command=$(jq -r '.tool_input.command // empty' <<< "$input")
cwd=$(jq -r '.cwd // empty' <<< "$input")
grep -qE '(^|[;&|[:space:]])git[[:space:]]+commit' <<< "$command" || exit 0
branch=$(git -C "${cwd:-$CLAUDE_PROJECT_DIR}" symbolic-ref --short HEAD 2>/dev/null || true)
case "$branch" in main | master) echo "no commits on '$branch': make a branch" >&2; exit 2 ;; esac
"""
SECRET_SCANNER = """#!/usr/bin/env python3
import json, re, sys
told = json.load(sys.stdin)
KEY = re.compile(r"AKIA[0-9A-Z]{16}")
def texts(value):
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)
where = {"PreToolUse": "tool_input", "PostToolUse": "tool_response", "UserPromptSubmit": "prompt"}
if any(KEY.search(text) for text in texts(told[where[told["hook_event_name"]]])):
    print(json.dumps({"decision": "block", "reason": "an AWS key", "suppressOutput": True}))
"""
REWRITER = """#!/usr/bin/env node
let text = '';
process.stdin.on('data', piece => { text += piece; });
process.stdin.on('end', () => {
  const told = JSON.parse(text);
  const command = told.tool_input.command;
  if (!/^npm /.test(command)) { process.exit(0); }
  console.log(JSON.stringify({ hookSpecificOutput: {
    hookEventName: 'PreToolUse', permissionDecision: 'allow', permissionDecisionReason: 'pnpm is ours',
    updatedInput: { ...told.tool_input, command: command.replace(/^npm /, 'echo pnpm ') } } }));
});
"""
APPROVER = """#!/usr/bin/env python3
import json, sys
told = json.loads(sys.stdin.readline())
if told["tool_name"] == "Read" and told["tool_input"]["file_path"].endswith((".md", ".txt")):
    print(json.dumps({"decision": "approve", "reason": "documentation"}))
"""
AUDIT = """#!/usr/bin/perl
use strict;
use JSON::PP;
local $/;
my $told = decode_json(<STDIN>);
open(my $log, '>>', "$ENV{CLAUDE_PROJECT_DIR}/audit.tsv") or die $!;
print $log join("\\t", map { $_ // '-' } @$told{qw(hook_event_name tool_name)}), "\\n";
"""
COUNTER = """#!/usr/bin/env python3
import collections, json, sys
told = json.load(sys.stdin)
used = collections.Counter()
for line in open(told["transcript_path"]):
    entry = json.loads(line)
    if entry["type"] == "assistant" and isinstance(entry["message"]["content"], list):
        used.update(part["name"] for part in entry["message"]["content"] if part["type"] == "tool_use")
json.dump({"reason": told["reason"], "used": dict(used)}, open("session.json", "w"))
"""
SOUND = """#!/bin/bash
# Rings in the background and returns at once.
( sleep 300; echo late >> bell ) > /dev/null 2>&1 &
jq -r '.last_assistant_message // .message' >> bell
"""


async def test_a_branch_guard_that_reads_a_line(project: HookProject) -> None:
    project.git("init", "-qb", "main")
    project.write(f"{HOOKS}/branch.sh", BRANCH_GUARD)
    project.settings(PreToolUse=[("Bash", f"bash {HERE}/branch.sh")])
    project.script(calls(bash("git status -s && git commit -m x"), bash("git status -s")), DONE)
    done = await project.run()
    assert [status for status, _ in done.outputs] == ["denied", "done"]
    assert "no commits on 'main': make a branch" in done.outputs[0][1]
    assert done.told == []


async def test_a_scanner_for_secrets_at_three_places(project: HookProject) -> None:
    key = "AKIA" + "A1B2C3D4E5F6G7H8"
    project.write("keys.txt", f"id = {key}\n")
    project.write(f"{HOOKS}/secrets.py", SECRET_SCANNER)
    scan = f"{HERE}/secrets.py"
    project.settings(
        UserPromptSubmit=[("", scan)],
        PreToolUse=[("Write|Edit|MultiEdit|Bash", scan)],
        PostToolUse=[("Read|read", scan)],
    )
    project.script(calls(call("write", path="a.py", content=f"K = '{key}'"), call("read", path="keys.txt")), DONE)
    done = await project.run()
    assert [status for status, _ in done.outputs] == ["denied", "done"]
    assert done.outputs[1][1].endswith("[A hook of the user for `read` objects; take it into account:]\nan AWS key")
    assert not (project.root / "a.py").exists()
    project.script(DONE)
    refused = await project.run(f"use {key}")
    assert getattr(refused.end, "message", "") == "a hook refuses it: an AWS key"


@pytest.mark.skipif(not (shutil.which("node") and shutil.which("perl")), reason="the scripts are run by node and perl")
async def test_hooks_in_three_languages_rewrite_commands_approve_reads_and_keep_a_log(
    project: HookProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.user_home))
    project.flags = {"agent.permission_mode": "ask"}
    project.write("notes.md", "read me\n")
    project.write("../outside.md", "read me, too\n")
    for name, text in (("rewrite.js", REWRITER), ("approve.py", APPROVER), ("audit.pl", AUDIT)):
        project.write(f".claude/hooks/{name}", text, of_user=True)
    project.settings(
        of_user=True,
        PreToolUse=[
            ("Bash", "~/.claude/hooks/rewrite.js"),
            ("Read", "$HOME/.claude/hooks/approve.py"),
            ("*", "perl ~/.claude/hooks/audit.pl"),
        ],
        PostToolUse=[("", "perl ~/.claude/hooks/audit.pl")],
        Stop=[("*", "perl ~/.claude/hooks/audit.pl")],
    )
    project.script(calls(bash("npm install left-pad"), call("read", path="../outside.md"), bash("touch asked")), DONE)
    done = await project.run()
    assert [status for status, _ in done.outputs] == ["done", "done", "denied"]
    assert "pnpm install left-pad" in done.outputs[0][1]
    assert "read me, too" in done.outputs[1][1]
    assert (project.root / "audit.tsv").read_text().splitlines() == [
        "PreToolUse\tBash", "PostToolUse\tBash", "PreToolUse\tRead", "PostToolUse\tRead", "PreToolUse\tBash", "Stop\t-",
    ]  # fmt: skip


async def test_a_count_of_tools_at_the_end_and_a_sound_that_returns_at_once(project: HookProject) -> None:
    project.write(f"{HOOKS}/count.py", COUNTER)
    project.write(f"{HOOKS}/sound.sh", SOUND)
    project.settings(SessionEnd=[("", f"python3 {HERE}/count.py")], Stop=[("", f"{HERE}/sound.sh")])
    project.script(calls(bash("true"), bash("true"), call("read", path="bell")), DONE)
    done = await project.run()
    assert json.loads((project.root / "session.json").read_text()) == {
        "reason": "other", "used": {"Bash": 2, "Read": 1},
    }  # fmt: skip
    assert (project.root / "bell").read_text() == "All is done.\n"
    assert done.told == []


async def test_two_hooks_that_disagree_and_one_that_changes_the_file_that_is_edited(project: HookProject) -> None:
    allow = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    project.write("a.txt", "one\n")
    project.settings(
        PreToolUse=[
            ("Edit", "echo changed > a.txt"),
            ("Bash", f"echo '{json.dumps(allow)}'"),
            ("Bash", "echo 'never on a Friday' >&2; exit 2"),
        ]
    )
    project.script(
        calls(call("read", path="a.txt")), calls(call("edit", path="a.txt", old="one", new="two"), bash("ls"))
    )
    done = await project.run()
    assert [status for status, _ in done.outputs] == ["done", "failed", "denied"]
    assert (project.root / "a.txt").read_text() == "changed\n"
    assert "never on a Friday" in done.outputs[2][1]
