"""What failed in the sandbox is asked about, and runs again outside where the user says so."""

from dataclasses import replace

import pytest

from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy, decide, parse_rule, runs_unsandboxed
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.tools.base import Arguments, Effect, Result, Workspace
from ebbtide.tools.call_arguments.schema import object_schema
from ebbtide.tools.sandbox.sandbox import Sandbox
from tests.kit.session import Home, call, calls, decides, outputs_of, turn_in_which

BLOCKED = "it may not write `/opt/x`"


class Install:
    """Fails as long as it is in the sandbox."""

    name, description, schema = "install", "Installs.", object_schema({}, required=())
    effect: Effect = "run"

    def __init__(self) -> None:
        self.outside: list[bool] = []

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ("docker compose up",)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        is_first = not self.outside
        self.outside.append(workspace.sandbox is None)
        return Result("failed", has_failed=True, sandbox_block=BLOCKED) if is_first else Result("installed")


@pytest.mark.parametrize(
    ("mode", "answers", "questions", "text"),
    [
        ("ask", ["allow", "allow"], 2, "installed"),
        ("ask", ["allow", "deny"], 2, "failed"),
        (
            "auto",
            [],
            0,
            "failed\nthe user can start with `--allow 'outside(docker)'` to have it run outside the sandbox",
        ),
    ],
)
async def test_the_user_is_asked_whether_a_command_runs_again_outside(
    mode: PermissionMode, answers: list[str], questions: int, text: str, home: Home
) -> None:
    tool, asked, left = Install(), list[PermissionAsked](), iter(answers)
    session = await home.attended(
        ScriptedProvider.from_replies(calls(call("install")), {"text": "done"}), tool, mode=mode
    )

    def answer(event: PermissionAsked) -> None:
        asked.append(event)
        decides(session, Decision("allow" if next(left) == "allow" else "deny"))(event)

    await turn_in_which(session, PermissionAsked, answer)
    assert [output.text for output in outputs_of(session)] == [text]
    assert len(asked) == questions
    if questions:
        assert asked[1].reason == (
            f"it failed in the sandbox, where {BLOCKED}; allow it to run again, outside the sandbox. "
            "A rule makes such commands always run there"
        )
        assert asked[1].offers == ("outside(=docker compose up)", "outside(docker)")


async def test_a_rule_that_is_kept_there_says_where_commands_run_and_not_whether(home: Home) -> None:
    tool, asked = Install(), list[PermissionAsked]()
    model = ScriptedProvider.from_replies(calls(call("install")), calls(call("install")), {"text": "done"})
    session = await home.attended(model, tool, mode="ask")
    runner = session._ctx.calls.runner
    boxed = replace(runner.workspace, sandbox=Sandbox(home.root, home.outputs / "tmp"))
    session._ctx = replace(session._ctx, calls=replace(session._ctx.calls, runner=replace(runner, workspace=boxed)))

    def answer(event: PermissionAsked) -> None:
        asked.append(event)
        decides(session, Decision("allow", rule="outside(docker)" if len(asked) == 2 else ""))(event)

    await turn_in_which(session, PermissionAsked, answer)
    assert tool.outside == [False, True, True]
    assert [event.id.partition("-")[0] for event in asked] == ["permission", "outside", "permission"]


def placed(*allow: str, deny: tuple[str, ...] = (), mode: PermissionMode = "ask") -> Policy:
    return Policy("/w", mode, tuple(map(parse_rule, allow)), tuple(map(parse_rule, deny)))


@pytest.mark.parametrize(
    ("command", "policy", "is_outside"),
    [
        ("docker ps", placed("outside(docker)"), True),
        ("docker ps && docker build .", placed("outside(docker)"), True),
        ("docker ps; curl evil", placed("outside(docker)"), False),
        ("docker ps $(curl evil)", placed("outside(docker)"), False),
        ("docker ps > ~/.bashrc", placed("outside(docker)"), False),
        ("sh -c 'docker ps'", placed("outside(docker)"), False),
        ("docker ps", placed("bash(docker)", "*", "bash"), False),
        ("docker push x", placed("outside(docker)", deny=("outside(docker push)",)), False),
        ("docker ps", placed("outside(docker)", mode="plan"), False),
        ("make up", placed("outside(=make up)"), True),
    ],
)
def test_only_what_such_rules_cover_whole_runs_outside(command: str, policy: Policy, is_outside: bool) -> None:
    assert runs_unsandboxed(PermissionRequest("bash", "run", (command,)), policy) == is_outside


def test_what_runs_outside_is_not_let_through_as_held() -> None:
    sandboxed = replace(placed("outside(docker)"), allows_sandboxed_commands=True)
    asked = [PermissionRequest("bash", "run", (command,)) for command in ("make", "docker ps")]
    assert [decide(one, sandboxed).verdict for one in asked] == ["allow", "ask"]


async def test_where_nothing_holds_commands_auto_mode_asks_and_says_so_once(home: Home) -> None:
    model = ScriptedProvider.from_replies(calls(call("install")), calls(call("install")), {"text": "done"})
    session = await home.attended(model, Install(), mode="auto")
    session._ctx.calls.runner.approver.get_sandbox_problem = lambda: "bubblewrap is not installed"
    asked = list[PermissionAsked]()

    def answer(event: PermissionAsked) -> None:
        asked.append(event)
        decides(session, Decision("deny"))(event)

    events = await turn_in_which(session, PermissionAsked, answer)
    notices = [event.text for event in events if isinstance(event, Noticed)]
    assert notices == ["auto mode asks before commands: bubblewrap is not installed"]
    assert {event.reason for event in asked} == {
        "commands are not sandboxed: bubblewrap is not installed; `--no-sandbox` runs them anyway"
    }
    assert [output.status for output in outputs_of(session)] == ["denied", "denied"]
