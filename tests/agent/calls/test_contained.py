"""Commands that probably only look are tried where they can do nothing else, and asked about if they needed more."""

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy, decide, parse_rule
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.events.permissions import CallDenied, Decision, PermissionAsked
from ebbtide.agent.events.session import Event, ToolFinished, ToolProgress, ToolStarted
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.tools.base import ReadOnlyAccess
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import sandbox_kind
from tests.kit.session import Home, bash, calls, decides, events_of, outputs_of, turn_in_which

needs_bubblewrap = pytest.mark.skipif(sandbox_kind() != "bubblewrap", reason="bubblewrap does not work here")
LOOKS = "for x in a b; do cat $x; done | awk '{ n += NR } END { print n }'"
WRITES = 'awk \'{ print $1 ";" > f; print "seen" }\' f=out a'


def boxed(session: Session, home: Home, **policy: Any) -> Approver:
    """Give the commands of a session a sandbox."""
    runner = session._ctx.calls.runner
    workspace = replace(runner.workspace, sandbox=Sandbox(home.root, home.outputs / "tmp", has_network=False))
    runner.approver.policy = replace(runner.approver.policy, **policy)
    session._ctx = replace(session._ctx, calls=replace(session._ctx.calls, runner=replace(runner, workspace=workspace)))
    for name in "ab":
        (home.root / name).write_text(f"{name}\n")
    return runner.approver


async def played(
    home: Home, command: str, *answers: str, mode: PermissionMode = "ask"
) -> tuple[list[Event], list[str], str]:
    """The events of a turn with the command, the reasons of its questions, and its output."""
    session = await home.attended(ScriptedProvider.from_replies(calls(bash(command)), {"text": "done"}), mode=mode)
    boxed(session, home)
    reasons, left = list[str](), iter(answers)

    def answer(event: PermissionAsked) -> None:
        reasons.append(event.reason)
        decides(session, Decision("allow" if next(left) == "allow" else "deny"))(event)

    events = await turn_in_which(session, PermissionAsked, answer)
    return events, reasons, outputs_of(session)[-1].text


@needs_bubblewrap
@pytest.mark.parametrize("mode", ["ask", "accept-edits", "plan"])
async def test_what_only_looks_runs_without_a_question(mode: PermissionMode, home: Home) -> None:
    events, reasons, text = await played(home, LOOKS, mode=mode)
    assert (reasons, text) == ([], "3\nexit code 0")
    assert [type(event) for event in events if isinstance(event, ToolStarted | ToolFinished)] == [
        ToolStarted, ToolFinished,
    ]  # fmt: skip


@needs_bubblewrap
async def test_what_wanted_to_write_is_asked_about_and_runs_once_it_is_approved(home: Home) -> None:
    events, reasons, text = await played(home, WRITES, "allow")
    assert reasons[0].startswith("ask mode: commands need your OK; it was tried read-only, where it may not write")
    assert len(reasons) == 1
    assert (home.root / "out").read_text() == "a;\n"
    assert text == "seen\nexit code 0"
    assert "".join(event.text for event in events if isinstance(event, ToolProgress)) in ("", "seen\n")
    assert sum(isinstance(event, ToolFinished) for event in events) == 1


@needs_bubblewrap
async def test_what_wanted_to_write_and_is_not_approved_leaves_nothing(home: Home) -> None:
    _, reasons, text = await played(home, WRITES, "deny")
    assert (len(reasons), text.partition(".")[0]) == (1, "denied by the user")
    assert sorted(path.name for path in home.root.iterdir()) == ["a", "b"]


@needs_bubblewrap
async def test_in_plan_mode_it_fails_without_a_question(home: Home) -> None:
    _, reasons, text = await played(home, WRITES, mode="plan")
    assert reasons == []
    assert "it ran in a sandbox, where it may not write" in text
    assert not (home.root / "out").exists()


@needs_bubblewrap
async def test_without_a_user_what_wanted_to_write_is_denied(home: Home) -> None:
    model = ScriptedProvider.from_replies(calls(bash(LOOKS)), calls(bash(WRITES)), {"text": "done"})
    session = await home.session(model, policy=Policy(str(home.root), "ask"))
    boxed(session, home)
    events = await events_of(session, "go")
    looked, denied = outputs_of(session)
    assert looked.text == "3\nexit code 0"
    assert denied.text.startswith("denied: ask mode: commands need your OK, and there is no user to ask")
    assert [event.rule for event in events if isinstance(event, CallDenied)] == ["ask mode: commands need your OK"]
    assert not (home.root / "out").exists()


@needs_bubblewrap
@pytest.mark.parametrize(
    ("file", "reason"),
    [(".env", "`.env` may hold secrets"), ("/etc/hosts", "`/etc/hosts` is outside the working folder")],
)
@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_files_with_secrets_and_files_elsewhere_are_asked_about_and_then_seen(
    file: str, reason: str, mode: PermissionMode, home: Home
) -> None:
    (home.root / ".env").write_text("x\n")
    lines = (home.root / file).read_text().count("\n")
    _, reasons, text = await played(home, f"{{ cat {file}; }} | wc -l", "allow", mode=mode)
    assert (reasons, text) == ([reason], f"{lines}\nexit code 0")


@needs_bubblewrap
async def test_a_name_that_is_put_together_shows_no_secret(home: Home) -> None:
    (home.root / ".env").write_text("K=1\n")
    _, reasons, text = await played(home, 'awk \'BEGIN { f = ".e" "nv"; while ((getline l < f) > 0) print l }\'')
    assert (reasons, text) == ([], "no output\nexit code 0")


@needs_bubblewrap
async def test_a_rule_that_covers_the_line_lets_it_run_normally(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies(calls(bash(WRITES)), {"text": "done"}), mode="ask")
    boxed(session, home, allow_rules=(parse_rule(f"bash(={WRITES})"),))
    await events_of(session, "go")
    assert outputs_of(session)[-1].text == "seen\nexit code 0"
    assert (home.root / "out").exists()


def contained(*paths: str, secret: str = "") -> PermissionRequest:
    return PermissionRequest(
        "bash", "run", ("ls | sort",), ReadOnlyAccess("grep", ("/w", *paths), secret, runs_in_read_only_sandbox=True)
    )


@pytest.mark.parametrize(
    ("asked", "policy", "verdict", "is_guarded"),
    [
        (contained(), Policy("/w"), "allow", True),
        (contained("/etc/x"), Policy("/w"), "ask", False),
        (contained("/etc/x"), Policy("/w", readable_folders=("/etc",)), "allow", True),
        (contained(secret=".env"), Policy("/w"), "ask", False),
        (contained("/etc/x"), Policy("/w", "plan"), "ask", True),
        (contained(), Policy("/w", deny_rules=(parse_rule("bash(sort)"),)), "deny", False),
        (contained(), Policy("/w", deny_rules=(parse_rule("read(secret)"),)), "ask", False),
        (contained("/w/secret"), Policy("/w", deny_rules=(parse_rule("read(secret)"),)), "deny", False),
        (contained(), Policy("/w", allow_rules=(parse_rule("bash"),)), "allow", False),
        (contained(), Policy("/w", allow_rules=(parse_rule("bash(ls)"), parse_rule("bash(sort)"))), "allow", False),
        (contained(), Policy("/w", allow_rules=(parse_rule("outside(=ls | sort)"),)), "ask", False),
        (contained(), Policy("/w", "auto"), "allow", False),
        (contained(), Policy("/w", "auto", sandbox_problem="none"), "allow", True),
        (contained(), Policy("/w", allows_sandboxed_commands=True), "allow", False),
        (contained(), Policy("/w", no_shell_reason="no shell"), "deny", False),
    ],
)
def test_rules_come_first_and_only_what_is_allowed_to_look_is_contained(
    asked: PermissionRequest, policy: Policy, verdict: str, is_guarded: bool
) -> None:
    ruling = decide(asked, policy)
    assert (ruling.verdict, ruling.requires_read_only) == (verdict, is_guarded)
