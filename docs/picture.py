"""Generates the screenshots with the program itself: `make pictures`.

A scripted model fixes a small project. The final screen is `docs/terminal.svg`, the picture in the README; screens from
earlier moments are in `docs/pictures/ours`, in two sizes."""

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, chdir
from pathlib import Path

from textual.pilot import Pilot

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.tui.app import EbbApp
from ebbtide.tui.session.demo import DEMO_PROMPT
from ebbtide.tui.view.blocks import Call
from ebbtide.tui.widgets.question_panel import QuestionPanel

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "terminal.svg"
SIZE = (100, 34)
MOMENTS = ROOT / "docs" / "pictures" / "ours"
SIZES = ((120, 40), (200, 60))

_DEMO = ROOT / "tui" / "session" / "demo_project"
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_DISPLAY_FOLDER = "~/shop"
"""The name of the folder in the pictures."""
_ANSWER = "tests pass now"  # how the script ends


@asynccontextmanager
async def running(size: tuple[int, int], mode: str, message: str | None) -> AsyncIterator[tuple[EbbApp, Pilot[str]]]:
    """Run the program in a terminal of this size, in a temporary project."""
    with tempfile.TemporaryDirectory(prefix="ebb-picture-") as home:
        project = Path(home) / "shop"
        project.mkdir()
        for name in ("prices.py", "test_prices.py"):
            shutil.copyfile(_DEMO / f"{name}.txt", project / name)
        shutil.copyfile(_DEMO / "script.toml", Path(home) / "script.toml")
        flags = {"agent.model": "scripted/script.toml", "agent.permission_mode": mode}
        environment = {"EBB_HOME": str(Path(home) / "home")}
        sessions = ProjectSessions(load_config(project, environment, flags), project, environment, is_interactive=True)
        app = EbbApp(sessions, first_message=message, guard_s=0.0)
        try:
            with chdir(home):  # so that the script has a short name
                async with app.run_test(size=size) as pilot:
                    yield app, pilot
        finally:
            await sessions.close()


async def turn() -> str:
    """Return the screen as SVG after a turn, with the diff of its edit open."""
    async with running(SIZE, "auto", DEMO_PROMPT) as (app, pilot):
        while app.is_working or not _is_answered(app):
            await pilot.pause()
        transcript = app.main_screen.transcript
        transcript.focus()
        await pilot.pause()
        while not (isinstance(transcript.marked_block, Call) and transcript.marked_block.name == "edit"):
            await pilot.press("up")
        await pilot.press("enter")
        app.main_screen.prompt.focus()
        await pilot.pause()
        return _svg(app)


async def moments(size: tuple[int, int]) -> dict[str, str]:
    """Return the screens of a session that asks before each step, by name, in order."""
    seen: dict[str, str] = {}
    async with running(size, "ask", None) as (app, pilot):
        while app.is_working:
            await pilot.pause()
        app.context.presenter.has_panel = True
        await pilot.pause()
        seen["greeting"] = _svg(app)
        app.main_screen.prompt.insert(DEMO_PROMPT)
        await pilot.press("enter")
        for name in ("command", "edit", None):  # the last question, to run the tests again, needs no picture
            while not app.screen.query(QuestionPanel):
                await pilot.pause()
            await pilot.pause()
            if name is not None:
                seen[name] = _svg(app)
            await pilot.press("enter")
            while app.screen.query(QuestionPanel):
                await pilot.pause()
        while app.is_working or not _is_answered(app):
            await pilot.pause()
        seen["answer"] = _svg(app)
    return seen


def _is_answered(app: EbbApp) -> bool:
    return _ANSWER in app.main_screen.transcript.visible_text()


def _svg(app: EbbApp) -> str:
    """Export the screen as SVG, without fonts to download and with the temporary folder renamed."""
    folder = str(app.controller.session.working_folder) if app.controller.session else ""
    svg = _FONTS.sub("", app.export_screenshot(title="ebb"))
    if not folder:
        return svg
    blank = "\N{NO-BREAK SPACE}" * (len(folder) - len(_DISPLAY_FOLDER))  # padding keeps the following text in place
    return re.sub(rf"{re.escape(folder)}([^<]*)", rf"{_DISPLAY_FOLDER}\g<1>{blank}", svg)


def main() -> int:
    PICTURE.write_text(asyncio.run(turn()), "utf-8")
    print(PICTURE.relative_to(ROOT))
    MOMENTS.mkdir(parents=True, exist_ok=True)
    for width, height in SIZES:
        for name, svg in asyncio.run(moments((width, height))).items():
            picture = MOMENTS / f"{name}-{width}x{height}.svg"
            picture.write_text(svg, "utf-8")
            print(picture.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
