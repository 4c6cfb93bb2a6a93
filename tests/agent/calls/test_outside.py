"""What failed in the sandbox is asked about, and runs again outside where the user says so."""

import pytest

from agent.config.options import Mode
from agent.events import Decision, PermissionAsked
from agent.providers.wires.scripted import Scripted
from tests.kit.session import Home, call, calls, decides, outputs_of, turn_in_which
from tools.base import Arguments, Effect, Result, Workspace
from tools.schema import object_of

BLOCKED = "it may not write `/opt/x`"


class Install:
    """Fails as long as it is in the sandbox."""

    name, description, schema = "install", "Installs.", object_of({}, required=())
    effect: Effect = "run"

    def __init__(self) -> None:
        self.outside: list[bool] = []

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ("install",)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        is_first = not self.outside
        self.outside.append(workspace.sandbox is None)
        return Result("failed", failed=True, blocked=BLOCKED) if is_first else Result("installed")


@pytest.mark.parametrize(
    ("mode", "answers", "questions", "text"),
    [
        ("ask", ["allow", "allow"], 2, "installed"),
        ("ask", ["allow", "deny"], 2, "failed"),
        ("auto", [], 0, "failed"),
    ],
)
async def test_the_user_is_asked_whether_a_command_runs_again_outside(
    mode: Mode, answers: list[str], questions: int, text: str, home: Home
) -> None:
    tool, asked, left = Install(), list[PermissionAsked](), iter(answers)
    session = await home.attended(Scripted.of(calls(call("install")), {"text": "done"}), tool, mode=mode)

    def answer(event: PermissionAsked) -> None:
        asked.append(event)
        decides(session, Decision("allow" if next(left) == "allow" else "deny"))(event)

    await turn_in_which(session, PermissionAsked, answer)
    assert [output.text for output in outputs_of(session)] == [text]
    assert len(asked) == questions
    if questions:
        assert (
            asked[1].reason
            == f"in the sandbox it failed, where {BLOCKED}; allow it to run once more, outside the sandbox"
        )
