"""Ten agents at once: a mode that changes while they work, and a program that is killed with all of them at work."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.events.session import AgentActivity, ToolFinished, ToolStarted
from ebbtide.agent.events.subagents import AgentFinished
from tests.kit.files import write_file
from tests.kit.polling import soon
from tests.kit.user import User

MANY = 10


def bash(command: str) -> dict[str, object]:
    return {"name": "bash", "arguments": {"command": command}}


@pytest.fixture
def user(tmp_path: Path) -> User:
    user = User(tmp_path)
    folder = user.home / "config" / "agents"
    write_file(folder / "writer.md", "---\nname: writer\ndescription: writes\n---\nWrite.\n")
    return user


def scripts(user: User, *replies: object) -> tuple[str, str]:
    """A model that sends off ten agents, and theirs."""
    tasks = [{"name": "task", "arguments": {"agent": "writer", "prompt": f"part {n}"}} for n in range(MANY)]
    found = []
    for name, script in (("main", [{"calls": tasks}, {"text": "all done"}]), ("agent", list(replies))):
        path = user.home / f"{name}.json"
        path.write_text(json.dumps({"reply": script}))
        found.append(f"scripted/{path}")
    return found[0], found[1]


async def test_a_mode_that_changes_holds_for_the_next_call_of_each_of_them(user: User) -> None:
    here, gate = user.project / "here", user.project / "gate"
    here.mkdir()
    waits = bash(f"touch {here}/$$; while [ ! -e {gate} ]; do sleep 0.02; done")
    write = {"name": "write", "arguments": {"path": "b.py", "content": "x"}}
    main, agents = scripts(user, {"calls": [waits]}, {"calls": [write]}, {"text": "I could not."})
    environment = {"HOME": str(user.home), "EBB_HOME": str(user.home), "EBB_SANDBOX": "off", "PATH": "/usr/bin:/bin"}
    values = {
        "agent.model": main, "agents.model": agents, "agents.concurrent": MANY, "agent.permission_mode": "auto",
        "lsp.enabled": False,
    }  # fmt: skip
    sessions = ProjectSessions(
        load_config(user.project, environment, values), user.project, environment, is_interactive=True
    )
    session = await sessions.open(None)
    statuses: list[tuple[str, str]] = []
    done: list[AgentFinished] = []
    begun = 0
    async for event in session.send("go"):
        match event:
            case AgentActivity(event=ToolStarted(name="bash")):
                begun += 1
                if begun == MANY:
                    assert session.agents is not None
                    assert len(session.agents.running) == MANY
                    await session.change_mode("plan")
                    gate.touch()
            case AgentActivity(event=ToolFinished(name=name, status=status)):
                statuses.append((name, status))
            case AgentFinished():
                done.append(event)
            case _:
                pass
    await sessions.close()
    assert sorted(statuses) == [("bash", "done")] * MANY + [("write", "denied")] * MANY
    assert [one.end for one in done] == ["answered"] * MANY
    assert not (user.project / "b.py").exists()


async def test_a_program_that_is_killed_with_ten_at_work_goes_on(user: User) -> None:
    pids = user.project / "pids"
    pids.mkdir()
    main, agents = scripts(user, {"calls": [bash(f"touch {pids}/$$; exec sleep 600")]}, {"text": "never"})
    process = user.begin(
        "-p", "go", "-m", main, "--permission-mode", "auto", "--output-format", "stream-json",
        "--config", f'agents.model="{agents}"', "--config", f"agents.concurrent={MANY}",
    )  # fmt: skip
    assert process.stdout is not None
    try:
        await soon(lambda: len([*pids.iterdir()]) == MANY)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    finally:
        for pid in pids.iterdir():
            with suppress(ProcessLookupError):
                os.killpg(int(pid.name), signal.SIGKILL)
        process.stdout.close()
    (listed,) = user.ebb("sessions", "list", "--json").lines
    assert len(listed["agents"]) == MANY
    run = user.ask({"text": "I see."}, flags=("-c",))
    assert (run.code, run.result["session"], run.result["result"]) == (0, listed["id"], "I see.")
    listing = user.ebb("sessions", "show", listed["id"], "--json")
    outputs = [part["status"] for line in listing.lines for part in line["parts"] if part["type"] == "output"]
    assert outputs == ["interrupted"] * MANY
    # Each of them can be looked at, and gone on with by itself.
    child = listed["agents"][0]["id"]
    alone = user.ask({"text": "Here."}, flags=("-r", child))
    assert (alone.code, alone.result["session"], alone.result["result"]) == (0, child, "Here.")
    assert user.ebb("doctor", "--json", "-m", main).result["well"]
    assert "and 10 agent sessions" in user.ebb("sessions", "delete", listed["id"]).out
