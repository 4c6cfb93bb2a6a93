"""The picture of the terminal in the README, made by the program itself: `make pictures`.

A scripted model repairs a small project; what is drawn then is written to `docs/terminal.svg`.
"""

import asyncio
import re
import shutil
import sys
import tempfile
from pathlib import Path

from agent.config.load import load_config
from agent.sessions import Sessions
from tui.app import EbbApp
from tui.session.demo import PROMPT
from tui.view.blocks import Call

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "terminal.svg"
SIZE = (100, 34)

_DEMO = ROOT / "tui" / "session" / "demo_project"
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


async def drawn(folder: Path) -> str:
    """The terminal as SVG, after a turn in a project that is laid out in an empty folder."""
    project = folder / "shop"
    project.mkdir()
    for name in ("prices.py", "test_prices.py"):
        shutil.copyfile(_DEMO / f"{name}.txt", project / name)
    flags = {"agent.model": f"scripted/{_DEMO / 'script.toml'}", "agent.permission_mode": "auto"}
    environment = {"EBB_HOME": str(folder / "home")}
    sessions = Sessions(load_config(project, environment, flags), project, environment, interactive=True)
    app = EbbApp(sessions, first_message=PROMPT, guard=0.0)
    try:
        async with app.run_test(size=SIZE) as pilot:
            while app.is_working or "tests pass now" not in app.main.transcript.visible_text():
                await pilot.pause()
            transcript = app.main.transcript
            transcript.focus()
            await pilot.pause()
            while not (isinstance(transcript.marked, Call) and transcript.marked.name == "edit"):
                await pilot.press("up")
            await pilot.press("enter")
            app.main.prompt.focus()
            await pilot.pause()
            svg = app.export_screenshot(title="ebb")
    finally:
        await sessions.close()
    return _FONTS.sub("", svg)  # viewers of a picture fetch nothing: the fonts would not come


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ebb-picture-") as folder:
        PICTURE.write_text(asyncio.run(drawn(Path(folder))), "utf-8")
    print(PICTURE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
