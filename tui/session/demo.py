"""`ebb demo`: a scripted model fixes a real bug with the real tools in a new folder, without key or network;
interactive or printed."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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
from ebbtide.agent.sessions import Sessions
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.terminal.own_command import own_command
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.view.call_titles import title_of

PROMPT = "The tests fail. Find out why and fix it."
FLAGS = (
    "--permission-mode", "ask", "--allow", "bash(python3 -m unittest -q)", "--allow", "bash(cat orders.log)",
    "--config", "agent.tail_tokens=300",
)  # fmt: skip
"""Ask only about the change, and compact even a short session."""
_WRONG = 2345
FILES = Path(__file__).parent / "demo_project"


def print_demo(keep: str | None) -> int:
    """Print the demo; return 0 if the tests pass afterwards. Raises `UsageError`."""
    with _project(keep) as folder:
        print(f"A scripted model works on a small project in {folder}\n\n> {PROMPT}")
        asyncio.run(_play(folder))
        return _verdict(folder)


def show_demo(keep: str | None) -> int:
    """Show the demo in a separate interactive session: an approval, a large output, a compaction. Returns its exit
    code. Raises `UsageError`."""
    with _project(keep) as folder, tempfile.TemporaryDirectory(prefix="ebb-demo-home-") as home:
        (folder / "orders.log").write_text(log_of_orders(), encoding="utf-8")
        flags = ("-C", str(folder), "-m", f"scripted/{FILES / 'tour.toml'}", *FLAGS, PROMPT)
        # A home of its own: as in print. A process of its own: this one may be in the middle of something.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EBB_")}
        return subprocess.run(own_command(flags), env={**environment, "EBB_HOME": home}, check=False).returncode


@contextmanager
def _project(keep: str | None) -> Iterator[Path]:
    """A folder with a small project."""
    folder = Path(keep).expanduser() if keep else Path(tempfile.mkdtemp(prefix="ebb-demo-"))
    if keep:
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder `{keep}`: {error.strerror}; name a new one") from error
    try:
        for name in ("prices.py", "test_prices.py"):
            shutil.copyfile(FILES / f"{name}.txt", folder / name)
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def log_of_orders() -> str:
    """4,000 lines, one of which matters."""
    lines = [
        f"2026-11-22T{order // 240:02d}:{order // 4 % 60:02d} INFO order {order} is priced" for order in range(4000)
    ]
    lines[_WRONG] = f"2026-11-22T09:46 ERROR: order {_WRONG} is 350 cents, but 800 were paid"
    return "\n".join(lines) + "\n"


async def _play(folder: Path) -> None:
    flags = {"agent.model": f"scripted/{FILES / 'script.toml'}", "agent.permission_mode": "auto"}
    # A home of its own: the demo must not depend on the user's configuration, nor leave anything in it.
    config = load_config(folder, {"EBB_HOME": str(folder / ".ebb-home")}, flags)
    sessions = Sessions(config, folder, os.environ, interactive=False, ephemeral=True)
    titles: dict[str, str] = {}
    try:
        session = await sessions.open()
        try:
            async for event in session.send(PROMPT):
                if isinstance(event, ToolStarted):
                    titles[event.call_id] = title_of(event.name, event.arguments)
                _show(event, titles)
        finally:
            await session.close()
    finally:
        await sessions.close()


def _show(event: Event, titles: Mapping[str, str]) -> None:
    """Print an event. Read-only calls run in parallel, so each output is preceded by its title: `titles`, by call
    id."""
    match event:
        case TextDelta(text=text):
            print(sanitised(text), end="", flush=True)
        case ToolFinished(call_id=id, status=status, text=text):
            print(f"\n  * {titles[id]}")
            lines = sanitised(text).rstrip().splitlines()
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


def _verdict(folder: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=folder, capture_output=True, text=True, check=False
    )
    print("The tests pass." if done.returncode == 0 else f"The tests still fail:\n{done.stderr}")
    return done.returncode
