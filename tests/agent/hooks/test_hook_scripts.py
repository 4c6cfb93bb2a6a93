"""Scripts as people have them for Claude Code, of ten kinds, in sessions: they run unchanged."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import CallDenied, Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.session import TurnFailed, TurnFinished
from ebbtide.agent.events.view import FilesChanged
from ebbtide.agent.session import Session
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox
from tests.kit.extension_project import HOOKS, HookProject
from tests.kit.polling import soon
from tests.kit.session import bash, call, calls, events_of

DONE: dict[str, Any] = {"text": "done"}
HERE = '"$CLAUDE_PROJECT_DIR"/.claude/hooks'

FORMATTER = """#!/bin/bash
# After an edit: two blanks in place of a tab.
input=$(cat)
file=$(echo "$input" | jq -r '.tool_input.file_path // empty')
[[ "$file" == *.py && -f "$file" ]] || exit 0
sed -i 's/\\t/  /g' "$file"
"""
LINTER = """#!/usr/bin/env python3
import json, sys
told = json.load(sys.stdin)
path = told["tool_input"]["file_path"]
if told["tool_response"]["success"] and "import os" in open(path).read():
    print(f"{path}:1: `os` imported but unused", file=sys.stderr)
    sys.exit(2)
"""
GUARD = """#!/bin/bash
command=$(jq -r '.tool_input.command // ""')
if echo "$command" | grep -qE 'rm +-[a-z]*r[a-z]*f'; then
  jq -n '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "deny",
          permissionDecisionReason: "nothing is removed by force here"}}'
fi
"""
PROTECTOR = """#!/bin/bash
file=$(jq -r '.tool_input.file_path // ""')
case "$file" in
  *.env | *.env.*) echo '{"decision": "block", "reason": ".env is edited by hand"}' ;;
esac
"""
LOGGER = """jq -r '"\\(.tool_input.command) - \\(.tool_input.description // "no description")"' >> commands.log"""


async def test_a_formatter_a_linter_a_guard_a_protector_and_a_log_around_calls(project: HookProject) -> None:
    for name, text in (("format.sh", FORMATTER), ("lint.py", LINTER), ("guard.sh", GUARD), ("protect.sh", PROTECTOR)):
        project.write(f"{HOOKS}/{name}", text)
    project.settings(
        PreToolUse=[("Bash", LOGGER), ("Bash", f"{HERE}/guard.sh"), ("Edit|MultiEdit|Write", f"{HERE}/protect.sh")],
        PostToolUse=[("Edit|Write", f"{HERE}/format.sh"), ("Edit|Write", f"python3 {HERE}/lint.py")],
    )
    patch = "*** Begin Patch\n*** Add File: .env.local\n+A=1\n*** End Patch"
    project.script(
        calls(
            call("write", path="a.py", content="import os\nif x:\n\ty()\n"),
            bash("rm -rf build"),
            bash("echo hi"),
            call("write", path=".env", content="KEY=1"),
            call("apply_patch", patch=patch),
        ),
        DONE,
    )
    done = await project.run()
    assert (project.root / "a.py").read_text() == "import os\nif x:\n  y()\n"
    (write, removal, echo, env, patched) = done.outputs
    assert write[1].endswith(
        "[A hook of the user for `write` objects; take it into account:]\n"
        f"{project.root}/a.py:1: `os` imported but unused"
    )
    assert removal[0] == env[0] == patched[0] == "denied"
    assert removal[1].startswith("denied: a hook denied it: nothing is removed by force here. ")
    assert env[1].startswith("denied: a hook denied it: .env is edited by hand. ")
    assert echo == ("done", "hi\nexit code 0")
    assert (project.root / "commands.log").read_text() == "rm -rf build - no description\necho hi - no description\n"
    assert not (project.root / ".env").exists()
    assert not (project.root / ".env.local").exists()
    assert done.told == []


@pytest.mark.parametrize("line", ["$CLAUDE_PROJECT_DIR/", "bash ${CLAUDE_PROJECT_DIR:-.}/"])
async def test_a_hook_is_found_in_a_project_with_a_blank_in_its_path(tmp_path: Path, line: str) -> None:
    """anthropics/claude-code#5648, ruvnet/agentic-flow#184: with an unquoted `$CLAUDE_PROJECT_DIR` no hook is found
    there. A guard let everything through, or refused everything where the shell exits with 2."""
    folder = tmp_path / "My Projects"
    folder.mkdir()
    project = HookProject(folder)
    project.write(f"{HOOKS}/guard.sh", GUARD)
    project.settings(PreToolUse=[("Bash", f"{line}{HOOKS}/guard.sh")])
    project.script(calls(bash("rm -rf build"), bash("echo hi")), DONE)
    done = await project.run()
    assert done.outputs[0][1].startswith("denied: a hook denied it: nothing is removed by force here. ")
    assert done.outputs[1] == ("done", "hi\nexit code 0")
    assert done.told == []


async def test_context_at_the_start_and_with_each_prompt(project: HookProject) -> None:
    project.write(
        f"{HOOKS}/start.sh",
        '#!/bin/bash\nsource=$(jq -r .source)\necho "started by $source; two files are not committed"\n',
    )
    advice = {"hookEventName": "UserPromptSubmit", "additionalContext": "Our style: no tabs."}
    project.settings(
        SessionStart=[("startup", f"{HERE}/start.sh"), ("resume", "echo never")],
        UserPromptSubmit=[("", f"cat > prompt.json; echo '{json.dumps({'hookSpecificOutput': advice})}'")],
    )
    project.script(DONE, DONE)
    done = await project.run("write a page", "and another")
    assert json.loads((project.root / "prompt.json").read_text())["prompt"] == "and another"
    assert done.said.count("started by startup; two files are not committed") == 1
    assert done.said.count("[A hook of the user for `UserPromptSubmit` notes:]\nOur style: no tabs.") == 2


async def test_a_prompt_that_a_hook_refuses_is_not_sent(project: HookProject) -> None:
    project.settings(UserPromptSubmit=[("", "grep -q password && { echo 'no passwords here' >&2; exit 2; }; exit 0")])
    project.script(DONE)
    done = await project.run("my password is x")
    assert (done.end.__class__.__name__, done.history.messages) == ("TurnFailed", ())
    assert getattr(done.end, "message", "") == "a hook refuses it: no passwords here"
    assert (await project.run("hello")).said == "hello\ndone"


async def test_tests_are_run_before_the_turn_ends_and_the_work_is_committed(project: HookProject) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    project.git("init", "-q")
    project.write(
        f"{HOOKS}/tests.sh",
        '#!/bin/bash\ninput=$(cat)\n[ "$(echo "$input" | jq -r .stop_hook_active)" = true ] && exit 0\n'
        'grep -q fixed result.txt || jq -n \'{decision: "block", reason: "1 test fails: result.txt"}\'\n',
    )
    project.write(
        f"{HOOKS}/commit.sh",
        "#!/bin/bash\n"
        'last=$(jq -r .transcript_path | xargs cat | jq -rs \'[.[] | select(.type == "assistant")] | last'
        ' | .message.content[] | select(.type == "text") | .text\')\n'
        f'git add result.txt && {" ".join(git)} commit -qm "$last"\n',
    )
    project.settings(Stop=[("", f"{HERE}/tests.sh")], SessionEnd=[("", f"{HERE}/commit.sh")])
    project.script(
        calls(call("write", path="result.txt", content="broken")),
        {"text": "I am done."},
        calls(call("write", path="result.txt", content="fixed")),
        {"text": "Repaired the result."},
    )
    done = await project.run()
    assert done.told == ["a hook makes the model continue: 1 test fails: result.txt"]
    assert "[A hook of the user for `Stop` says that you are not done:]\n1 test fails: result.txt" in done.said
    assert project.git("log", "--format=%s") == "Repaired the result."


async def test_a_desktop_notification_when_something_is_asked(project: HookProject) -> None:
    project.flags = {"agent.permission_mode": "ask"}
    sent = project.user_home / "sent"
    project.settings(Notification=[("permission_prompt", f"jq -r .message > {sent}.new; mv {sent}.new {sent}")])
    project.script(calls(bash("make")), DONE)

    async def answer(session: Session, question: str) -> None:
        await soon(sent.exists)
        session.answer(question, Decision("deny"))

    answers: list[asyncio.Task[None]] = []

    def meanwhile(session: Session, event: object) -> None:
        if isinstance(event, PermissionAsked):
            answers.append(asyncio.create_task(answer(session, event.id)))

    await project.run(interactive=True, meanwhile=meanwhile)
    assert sent.read_text() == "ebb needs your permission to use Bash\n"


async def test_a_hook_changes_the_input_and_the_model_is_told(project: HookProject) -> None:
    changed = {
        "hookEventName": "PreToolUse",
        "updatedInput": {"command": "echo safe"},
        "additionalContext": "made safe",
    }
    project.settings(PreToolUse=[("Bash", f"echo '{json.dumps({'hookSpecificOutput': changed})}'")])
    project.script(calls(bash("echo unsafe")), DONE)
    done = await project.run()
    assert done.outputs == [
        (
            "done",
            "[A hook changed this call before it ran.\n`command` now: echo safe]\nsafe\nexit code 0\n"
            "[A hook of the user for `Bash` notes:]\nmade safe",
        )
    ]


@pytest.mark.parametrize("made", [{"command": 3}, {}])
async def test_an_input_that_no_tool_takes_lets_nothing_run(project: HookProject, made: dict[str, object]) -> None:
    changed = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": made}
    project.settings(PreToolUse=[("Bash", f"echo '{json.dumps({'hookSpecificOutput': changed})}'")])
    project.script(calls(bash("touch ran")), DONE)
    done = await project.run()
    assert done.outputs[0][1].startswith("denied: a hook denied it: it changed the input into one that cannot be used")
    assert not (project.root / "ran").exists()


@pytest.mark.parametrize(
    ("of_user", "decision", "command", "flags", "status"),
    [
        (True, "allow", "touch ran", {"agent.permission_mode": "ask"}, "done"),
        (False, "allow", "touch ran", {"agent.permission_mode": "ask"}, "denied"),
        (True, "allow", "touch ran", {"permissions.deny": ["bash(touch)"]}, "denied"),
        (True, "allow", "$(echo touch) ran", {"permissions.deny": ["bash(touch)"]}, "denied"),
        (True, "allow", "touch ran", {"agent.permission_mode": "plan"}, "denied"),
        (True, "ask", "touch ran", {"agent.permission_mode": "auto"}, "denied"),
        (False, "deny", "touch ran", {"agent.permission_mode": "auto"}, "denied"),
    ],
)  # fmt: skip
async def test_what_a_hook_allows_goes_no_further_than_a_rule_of_the_user(
    project: HookProject, of_user: bool, decision: str, command: str, flags: dict[str, object], status: str
) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision}}
    project.settings(PreToolUse=[("Bash", f"echo '{json.dumps(answer)}'")], of_user=of_user)
    project.flags = flags
    project.script(calls(bash(command)), DONE)
    done = await project.run()
    assert [each[0] for each in done.outputs] == [status]
    assert (project.root / "ran").exists() == (status == "done")


async def test_a_changed_input_is_looked_at_by_the_policy(project: HookProject) -> None:
    changed = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"command": "touch ran"}}
    project.settings(PreToolUse=[("Bash", f"echo '{json.dumps({'hookSpecificOutput': changed})}'")], of_user=True)
    project.flags = {"agent.permission_mode": "auto", "permissions.deny": ["bash(touch)"]}
    project.script(calls(bash("echo harmless")), DONE)
    assert [status for status, _ in (await project.run()).outputs] == ["denied"]
    assert not (project.root / "ran").exists()


async def test_hooks_that_hang_fork_flood_or_print_garbage_cost_a_line_and_the_rest_works(project: HookProject) -> None:
    project.write("plain.sh", "echo no")
    project.settings(
        PreToolUse=[
            ("Bash", "sleep 600"),
            ("Bash", "(sleep 600 & sleep 600 &) ; exec sleep 600"),
            ("Bash", "head -c 100000000 /dev/zero"),
            ("Bash", "printf '\\001\\377\\000 garbage %.0s' $(seq 500)"),
            ("Bash", "printf '{\\377'"),
            ("Bash", "/no/such/program"),
            ("Bash", "./plain.sh"),
            ("Bash", "exec 0<&- 1>&- 2>&-; exit 3"),
            ("Bash", 'printf \'{"systemMessage": "still here"}\''),
        ],
    )
    settings = project.root / ".claude" / "settings.json"
    tables = json.loads(settings.read_text())
    for group in tables["hooks"]["PreToolUse"][:2]:
        group["hooks"][0]["timeout"] = 0.3
    settings.write_text(json.dumps(tables))
    project.script(calls(bash("echo one"), bash("echo two")), DONE)
    done = await project.run()
    assert done.outputs == [("done", "one\nexit code 0"), ("done", "two\nexit code 0")]
    assert sorted(done.told) == sorted(
        [
            "the hook `sleep 600` for PreToolUse was ended after 0.3 s; it was skipped",
            "the hook `(sleep 600 & sleep 600 &) ; exec sleep 600` for PreToolUse was ended after 0.3 s; it was "
            "skipped",
            "the hook `printf '{\\377'` for PreToolUse printed invalid JSON; it was skipped",
            "the hook `/no/such/program` for PreToolUse exited with 127: /bin/bash: line 1: /no/such/program: No such "
            "file or directory; it was skipped",
            "the hook `./plain.sh` for PreToolUse exited with 126: /bin/bash: line 1: ./plain.sh: Permission denied; "
            "it was skipped",
            "the hook `exec 0<&- 1>&- 2>&-; exit 3` for PreToolUse exited with 3; it was skipped",
            *["still here"] * 2,
        ]
    )


async def test_a_stop_hook_that_is_never_content_does_not_go_on_for_ever(project: HookProject) -> None:
    project.settings(Stop=[("", "echo more >&2; exit 2")])
    project.script(*[DONE] * 20)
    done = await project.run()
    assert done.told[-1].startswith("hooks made the model continue 10 times in this turn; the turn ends now: more")
    assert getattr(done.end, "end", "") == "answered"


async def test_a_hook_ends_the_turn(project: HookProject) -> None:
    project.settings(PreToolUse=[("Bash", """echo '{"continue": false, "stopReason": "the budget is spent"}'""")])
    project.script(calls(bash("touch ran")), DONE)
    done = await project.run()
    assert done.told == ["a hook ended the turn: the budget is spent"]
    assert getattr(done.end, "end", "") == "interrupted"
    assert not (project.root / "ran").exists()


async def test_hooks_hear_of_a_compaction_and_may_refuse_one_that_is_asked_for(project: HookProject) -> None:
    project.settings(
        PreCompact=[
            ("manual", "jq -r .custom_instructions >> asked; [ -e refuse ] && { echo not now >&2; exit 2; }; true")
        ],
        PostCompact=[("", "jq -r .trigger >> made")],
        SessionStart=[("compact", "echo we work on the parser")],
    )
    long = calls(*[bash(f"seq {n} {n + 400}") for n in range(6)])
    summary = {"text": "<retain>x</retain><summary>Numbers were printed.</summary>"}
    project.script(long, DONE, long, DONE, summary, DONE)
    (project.root / "refuse").touch()
    refused: list[str] = []
    session = await project.session()
    await events_of(session)
    await events_of(session)
    try:
        await session.compact("keep the numbers")
    except AgentError as error:
        refused.append(str(error))
    (project.root / "refuse").unlink()
    await session.compact("keep the numbers")
    await events_of(session)
    last = session.history.messages[-2]
    await session.close()
    assert refused == ["a hook prevents the compaction: not now"]
    assert (project.root / "asked").read_text() == "keep the numbers\n" * 2
    assert (project.root / "made").read_text() == "manual\n"
    assert any("we work on the parser" in getattr(part, "text", "") for part in last.parts)


async def test_hooks_of_a_project_run_in_the_sandbox_and_those_of_the_user_outside(project: HookProject) -> None:
    if isinstance(detect_sandbox(), NoSandbox):
        pytest.skip("this machine has no sandbox")
    project.environment["EBB_SANDBOX"] = "require"
    probe = f'ls -a {project.user_home} 2>/dev/null; head -c 1 "$(jq -r .transcript_path)"; touch'
    project.settings(UserPromptSubmit=[("", f"{probe} {project.user_home}/escaped; true")])
    project.settings(UserPromptSubmit=[("", f"touch {project.user_home}/mine")], of_user=True)
    project.script(DONE)
    done = await project.run()
    assert (project.user_home / "mine").exists()
    assert not (project.user_home / "escaped").exists()
    assert "notes:]" in done.said


async def test_in_plan_mode_hooks_of_a_project_change_nothing(project: HookProject) -> None:
    if isinstance(detect_sandbox(), NoSandbox):
        pytest.skip("this machine has no sandbox")
    project.environment["EBB_SANDBOX"] = "require"
    project.flags["agent.permission_mode"] = "plan"
    project.settings(UserPromptSubmit=[("", "touch /tmp/here; touch here || ls /tmp/here")])
    project.script(DONE)
    done = await project.run()
    assert "notes:]\n/tmp/here" in done.said
    assert not (project.root / "here").exists()


async def test_what_nobody_has_approved_does_not_run(project: HookProject) -> None:
    project.trusts = False
    project.settings(UserPromptSubmit=[("", "touch ran")])
    project.settings(UserPromptSubmit=[("", "touch ran-too")], of_user=True)
    project.script(DONE)
    done = await project.run()
    assert sorted(os.listdir(project.root)) == [".claude", ".git"]
    assert (
        "the hooks of `~/.claude/settings.json` are not approved, so they are skipped; start `ebb` in a terminal to "
        "decide, or give `--trust`"
    ) in done.told


async def test_the_users_own_hooks_for_another_program_are_approved_once(project: HookProject) -> None:
    project.trusts = False
    settings = project.settings(UserPromptSubmit=[("", "echo it runs")], of_user=True)
    asked: list[str] = []

    def meanwhile(session: Session, event: object) -> None:
        if isinstance(event, QuestionAsked):
            asked.append(event.question)
            session.answer(event.id, "approve")

    for _ in range(2):
        project.script(DONE)
        done = await project.run(interactive=True, meanwhile=meanwhile)
        assert "notes:]\nit runs" in done.said
    assert asked == [
        "`~/.claude/settings.json` has hooks that were written for Claude Code:\n\n  UserPromptSubmit: echo it runs\n\n"
        "They run automatically, without asking, outside the sandbox, and can do anything that you can do.\n"
        "May they run here as well?"
    ]
    settings.write_text(settings.read_text().replace("it runs", "it is another"))
    project.script(DONE)
    assert "it is another" in (await project.run(interactive=True, meanwhile=meanwhile)).said
    assert len(asked) == 2


async def test_a_script_that_changes_while_the_session_runs_is_not_run_any_more(project: HookProject) -> None:
    project.write(f"{HOOKS}/log.sh", "#!/bin/sh\ncat >/dev/null; echo called >> log\n")
    project.settings(PreToolUse=[("Bash", f"{HERE}/log.sh")])
    project.write("build.sh", "echo 'echo changed >> log' >> .claude/hooks/log.sh\n")
    change = bash("sh build.sh")
    project.script(calls(bash("true")), calls(change), calls(bash("true")), DONE)
    done = await project.run()
    assert (project.root / "log").read_text() == "called\n" * 2
    assert done.told == [
        "the hooks of `.claude/settings.json` were disabled: they, or files that they run, have changed since "
        "they were approved; a new session asks about them"
    ]


async def test_after_a_refusal_the_session_goes_on_and_praise_is_no_objection(project: HookProject) -> None:
    project.settings(
        UserPromptSubmit=[("", "grep -q secret && exit 2; exit 0")],
        PostToolUse=[("Bash", """echo '{"decision": "approve", "reason": "well done"}'""")],
    )
    project.script(calls(bash("echo hi")), DONE, DONE)
    done = await project.run("a secret", "go", "go on")
    (refused,) = [event.message for event in done.events if isinstance(event, TurnFailed)]
    assert refused.endswith("for UserPromptSubmit objected without a reason")
    assert done.outputs == [("done", "hi\nexit code 0")]
    assert (done.end, "secret" in done.said) == (TurnFinished("answered", "done"), False)


async def test_hooks_of_a_project_are_asked_about_and_run_once_they_are_approved(project: HookProject) -> None:
    project.trusts = False
    project.settings(UserPromptSubmit=[("", "echo it runs")], Stop=[("", "echo formatted > a.txt")])
    asked: list[str] = []

    def meanwhile(session: Session, event: object) -> None:
        if isinstance(event, QuestionAsked):
            asked.append(event.question)
            session.answer(event.id, "approve")

    project.script(calls(call("write", path="a.txt", content="x")), DONE)
    done = await project.run(interactive=True, meanwhile=meanwhile)
    (question,) = asked
    assert question.startswith("This project has hooks in `.claude/settings.json`.")
    assert "\n  UserPromptSubmit: echo it runs\n  Stop: echo formatted > a.txt\n" in question
    assert "in the sandbox without network access" in question
    assert "notes:]\nit runs" in done.said
    (changed,) = [event for event in done.events if isinstance(event, FilesChanged)]
    assert changed.files == ("a.txt",)
    assert (project.root / "a.txt").read_text() == "formatted\n"
    project.script(DONE)
    assert "it runs" in (await project.run(interactive=True, meanwhile=meanwhile)).said
    assert len(asked) == 1


async def test_a_long_reason_is_for_the_model_and_its_beginning_for_people(project: HookProject) -> None:
    project.settings(PreToolUse=[("Bash", "seq 1000 >&2; exit 2")])
    project.script(calls(bash("true")), DONE)
    done = await project.run()
    (denied,) = [event.rule for event in done.events if isinstance(event, CallDenied)]
    assert denied.startswith("a hook denied it: 1 2 3 ")
    assert len(denied) < 250
    assert "denied: a hook denied it: 1\n2\n3\n" in done.outputs[0][1]
    assert "\n1000. Do it another way" in done.outputs[0][1]


DENIAL = json.dumps({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}})
NOISY = f"""#!/bin/bash
echo "nvm is not compatible with the npm config \\"prefix\\""
echo '{{}}'
printf '\\xef\\xbb\\xbf\\033[1m%s\\033[0m\\n' '{DENIAL}'
echo 'guard: done in 3 ms'
"""


async def test_a_refusal_between_other_output_holds(project: HookProject) -> None:
    project.write(f"{HOOKS}/guard.sh", NOISY)
    project.settings(
        PreToolUse=[("Bash(touch:*)", f"{HERE}/guard.sh"), ("Bash(mkdir:*)", """echo '{"decision": "block",}'""")],
        UserPromptSubmit=[
            ("", """grep -q secret && echo 'checked' && echo '{"decision": "block", "reason": "mine"}'""")
        ],
    )
    project.script(calls(bash("touch ran"), bash("mkdir made"), bash("echo fine")), DONE)
    done = await project.run()
    assert [status for status, _ in done.outputs] == ["denied", "denied", "done"]
    assert done.outputs[0][1].startswith("denied: a hook denied it: no. ")
    assert 'printed a decision that is not valid JSON: {"decision": "block",}' in done.outputs[1][1]
    assert not (project.root / "ran").exists()
    refused = await project.run("a secret")
    assert (getattr(refused.end, "message", ""), refused.history.messages) == ("a hook refuses it: mine", ())
