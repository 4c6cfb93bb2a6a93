"""A program that is killed in the middle of a step: what had ended by then is known when the session continues."""

import asyncio
from pathlib import Path

from ebbtide.agent.messages import User
from ebbtide.agent.records.call_progress import CALL_INTERRUPTED_TEXT, NOT_BEGUN_TEXT
from tests.kit.commands import command, environment
from tests.kit.polling import soon
from tests.kit.project import Project
from tests.kit.session import events_of

LARGE = "seq 1 3000"
COMMANDS = ("echo first", LARGE, "echo > began; exec sleep 600", "echo fourth > fourth")
STEP = {"calls": [{"name": "bash", "arguments": {"command": each}} for each in COMMANDS]}


async def test_calls_that_had_ended_keep_their_outputs(tmp_path: Path) -> None:
    async with Project(tmp_path) as project:
        script = project.script(STEP, {"text": "Done."})
        run = command("-p", "go", "-m", f"scripted/{script}", "--permission-mode", "auto")
        env, nowhere = environment(project.home), asyncio.subprocess.DEVNULL
        killed = await asyncio.create_subprocess_exec(
            *run, cwd=project.root, env=env, stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
        await soon((project.root / "began").exists)
        killed.kill()
        await killed.wait()

        again = await project.session({"calls": [READ_LARGE]}, {"text": "I see."}, resume="")
        await events_of(again, "what happened?")
        first, large, third, fourth, read = (
            output for message in again.history.messages if isinstance(message, User) for output in message.outputs
        )
        assert (first.status, first.text) == ("done", "first\nexit code 0")
        assert large.status == "done"
        assert large.text.startswith("[Tool result stored")
        assert (third.status, third.text) == ("interrupted", CALL_INTERRUPTED_TEXT)
        assert (fourth.status, fourth.text) == ("cancelled", NOT_BEGUN_TEXT)
        assert read.text.startswith("403\n404\n")
        assert not (project.root / "fourth").exists()


READ_LARGE = {"name": "read_result", "arguments": {"ref_id": "r2", "offset": 1500, "limit": 20}}
