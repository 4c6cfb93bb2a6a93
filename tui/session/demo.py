"""`ebb demo`: a scripted model fixes a real bug in a new folder. It uses the real tools, but no API key and no network.
The demo is interactive or printed."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.events.session import (
    Event,
    ReplyFinished,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFailed,
    TurnFinished,
)
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.terminal.own_command import own_command
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.view.call_titles import call_title

DEMO_PROMPT = "The tests fail. Find out why and fix it."
DEMO_FLAGS = (
    "--permission-mode", "ask", "--allow", "bash(python3 -m unittest -q)", "--allow", "bash(cat orders.log)",
    "--config", "agent.tail_tokens=300",
)  # fmt: skip
"""Flags for the demo. Only the change needs approval, and even a short session gets compacted."""
_WRONG_ORDER_NUMBER = 2345
DEMO_FILES = Path(__file__).parent / "demo_project"


def print_demo(retained_folder: str | None) -> int:
    """Print the demo. Returns 0 if the tests pass afterwards. Raises `UsageError`."""
    with _demo_project(retained_folder) as folder:
        print(f"A scripted model works on a small project in {folder}\n\n> {DEMO_PROMPT}")
        asyncio.run(_run_demo(folder))
        return _report_result(folder)


def show_demo(retained_folder: str | None) -> int:
    """Show the demo in a separate interactive session, with an approval, a large output and a compaction. Returns the
    session's exit code. Raises `UsageError`."""
    with _demo_project(retained_folder) as folder, tempfile.TemporaryDirectory(prefix="ebb-demo-home-") as home:
        (folder / "orders.log").write_text(order_log(), encoding="utf-8")
        flags = ("-C", str(folder), "-m", f"scripted/{DEMO_FILES / 'tour.toml'}", *DEMO_FLAGS, DEMO_PROMPT)
        # Use a separate home, so that the demo neither depends on the user's configuration nor changes it. Use a
        # separate process, because an interface may be running in this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EBB_")}
        return subprocess.run(own_command(flags), env={**environment, "EBB_HOME": home}, check=False).returncode


@contextmanager
def _demo_project(retained_folder: str | None) -> Iterator[Path]:
    """Create a folder with a small project. It is deleted at the end unless the user named it."""
    folder = Path(retained_folder).expanduser() if retained_folder else Path(tempfile.mkdtemp(prefix="ebb-demo-"))
    if retained_folder:
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise UsageError(
                f"cannot create the folder `{retained_folder}`: {error.strerror}; name a new one"
            ) from error
    try:
        for name in ("prices.py", "test_prices.py"):
            shutil.copyfile(DEMO_FILES / f"{name}.txt", folder / name)
        yield folder
    finally:
        if not retained_folder:
            shutil.rmtree(folder, ignore_errors=True)


def order_log() -> str:
    """Build a log of 4,000 lines, one of which contains the error."""
    lines = [
        f"2026-11-22T{order // 240:02d}:{order // 4 % 60:02d} INFO order {order} is priced" for order in range(4000)
    ]
    lines[_WRONG_ORDER_NUMBER] = f"2026-11-22T09:46 ERROR: order {_WRONG_ORDER_NUMBER} is 350 cents, but 800 were paid"
    return "\n".join(lines) + "\n"


async def _run_demo(folder: Path) -> None:
    flags = {"agent.model": f"scripted/{DEMO_FILES / 'script.toml'}", "agent.permission_mode": "auto"}
    # Use a separate home, so that the demo neither depends on the user's configuration nor changes it.
    config = load_config(folder, {"EBB_HOME": str(folder / ".ebb-home")}, flags)
    sessions = ProjectSessions(config, folder, os.environ, is_interactive=False, is_ephemeral=True)
    titles: dict[str, str] = {}
    try:
        session = await sessions.open()
        try:
            async for event in session.send(DEMO_PROMPT):
                if isinstance(event, ToolStarted):
                    titles[event.call_id] = call_title(event.name, event.arguments)
                _print_event(event, titles)
        finally:
            await session.close()
    finally:
        await sessions.close()


def _print_event(event: Event, title_by_call: Mapping[str, str]) -> None:
    """Print an event. Read-only calls run in parallel, so each output is preceded by its call's title. `title_by_call`:
    titles by call id."""
    match event:
        case TextDelta(text=text):
            print(sanitise(text), end="", flush=True)
        case ToolFinished(call_id=call_id, status=status, text=text):
            print(f"\n  * {title_by_call[call_id]}")
            lines = sanitise(text).rstrip().splitlines()
            print("\n".join(f"    {line}" for line in lines[:14]))
            if len(lines) > 14:
                print(f"    … {pluralize(len(lines) - 14, 'more line')}")
            print(f"    [{status}]")
        case StepStarted() | ReplyFinished() | TurnFinished():
            print()
        case TurnFailed(message=message):
            print(f"\n{message}\n")
        case _:
            pass


def _report_result(folder: Path) -> int:
    test_run = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=folder, capture_output=True, text=True, check=False
    )
    print("The tests pass." if test_run.returncode == 0 else f"The tests still fail:\n{test_run.stderr}")
    return test_run.returncode
