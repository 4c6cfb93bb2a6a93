"""Language servers in whole runs: what the model is told, and that none outlives a run."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.agent.events.session import Noticed, ToolFinished
from ebbtide.agent.extensions.trust_question import APPROVE_OPTION, REFUSE_OPTION
from ebbtide.tools.sandbox.system import NoSandbox, detect_sandbox
from tests.kit.files import write_program
from tests.kit.mcp_project import McpProject, say
from tests.kit.polling import is_gone, soon
from tests.kit.session import call, calls
from tests.kit.user import User
from tests.tools.integrations.lsp import scripted

SETTINGS = ("--config", 'lsp.servers.words.extensions=[".txt"]', "--config", "lsp.timeout=20")
SERVER = ("--config", f'lsp.servers.words.command=["{sys.executable}", "{scripted.__file__}"]', *SETTINGS)
AUTO = ("--permission-mode", "auto")
WRONG = calls(call("write", path="a.txt", content="fine\nwrong\n"))


@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_a_change_of_a_file_is_told_what_it_brought(sandbox: str, user: User) -> None:
    if sandbox == "auto" and isinstance(detect_sandbox(), NoSandbox):
        pytest.skip("this machine has no sandbox")
    model = user.script(WRONG, {"text": "Done."})
    env = {"EBB_LSP_ENABLED": "true", "EBB_SANDBOX": sandbox}
    # In the sandbox /tmp is another one, where this checkout and its environment may lie.
    script = shutil.copy(scripted.__file__, user.project / "words.py")
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    server = ("--config", f'lsp.servers.words.command=["{python}", "{script}"]', *SETTINGS)
    run = user.ebb("-p", "go", "-m", model, "--output-format", "json", *AUTO, *server, env=env)
    output = "created `a.txt`: 2 lines\nNew problems since this change:\na.txt:2:1 error: wrong here [words W1]"
    assert (run.code, user.outputs(run.result["session"])) == (0, [output])
    assert (user.home / "logs" / "language-servers" / "words.log").exists()


def test_a_run_that_keeps_nothing_keeps_no_log_of_servers(user: User) -> None:
    model = user.script(WRONG, {"text": "Done."})
    flags = ("--ephemeral", "--output-format", "stream-json", *AUTO, *SERVER)
    run = user.ebb("-p", "go", "-m", model, *flags, env={"EBB_LSP_ENABLED": "true"})
    (finished,) = [line for line in run.lines if line["type"] == "tool_finished"]
    assert finished["text"].endswith("wrong here [words W1]")
    assert finished["problems"] == {"count": 1, "lines": ["a.txt:2:1 error: wrong here [words W1]"]}
    assert not list(user.home.rglob("words.log"))


def test_without_the_setting_no_server_is_asked(user: User) -> None:
    run = user.ask(WRONG, {"text": "Done."}, flags=(*AUTO, *SERVER))
    assert user.outputs(run.result["session"]) == ["created `a.txt`: 2 lines"]


async def test_a_killed_run_leaves_no_server(user: User) -> None:
    model = user.script(WRONG, calls(call("bash", command="touch started; sleep 600")), {"text": "Done."})
    running = user.begin("-p", "go", "-m", model, *AUTO, *SERVER, env={"EBB_LSP_ENABLED": "true"})
    await soon(lambda: (user.project / "started").exists())
    (server,) = servers_in(user.project)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert is_gone(server)


@pytest.mark.parametrize(
    ("interactive", "answer"), [(True, APPROVE_OPTION), (True, REFUSE_OPTION), (False, APPROVE_OPTION)]
)
async def test_a_project_s_own_server_runs_once_the_user_has_agreed(
    interactive: bool, answer: str, tmp_path: Path
) -> None:
    project = McpProject(tmp_path)
    project.environment["PATH"] = "/nonexistent"
    own = write_program(project.root / ".venv" / "bin" / "ruff", f"exec {sys.executable} {scripted.__file__}\n")
    (project.root / "a.py").touch()
    write = calls(call("write", path="b.py", content="wrong\n"))
    session = await project.open(write, {"text": "Done."}, interactive=interactive, settings=("lsp.timeout=20",))
    events = await say(session, answer=lambda asked: answer)
    await project.close()
    asked = [event.question.split("\n")[0] for event in events if isinstance(event, QuestionAsked)]
    (finished,) = [event.text for event in events if isinstance(event, ToolFinished)]
    brings = f"This project has the server `ruff (language server)` in `{own}`."
    problems = "\nNew problems since this change:\nb.py:1:1 error: wrong here [ruff W1]"
    assert asked == ([brings] if interactive else [])
    assert finished == "created `b.py`: 1 line" + (problems if interactive and answer == APPROVE_OPTION else "")
    assert not [event for event in events if isinstance(event, Noticed)]


def servers_in(folder: Path) -> list[int]:
    """The scripted servers that run in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = scripted.__file__.encode() in (entry / "cmdline").read_bytes().split(b"\0")
            if is_ours and Path(os.readlink(entry / "cwd")) == folder.resolve():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_the_doctor_names_the_servers(user: User) -> None:
    missing = (
        "--config",
        'lsp.servers.gone.command="/no/such/server"',
        "--config",
        'lsp.servers.gone.extensions=["x"]',
    )
    env = {"EBB_LSP_ENABLED": "true", "PATH": "/nonexistent"}
    run = user.ebb("doctor", "--json", "-m", user.script(), *SERVER, *missing, env=env)
    findings = json.loads(run.out)["findings"]
    assert [(one["state"], one["text"]) for one in findings if one["subject"] == "language servers"] == [
        ("well", f"words ({sys.executable}); not started for this check"),
        ("broken", "gone: program `/no/such/server` not found"),
    ]
