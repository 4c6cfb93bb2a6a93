"""A session full of texts that want to steer the terminal, played to its end on a real one: `python -m`. It writes what
it has shown to the file that it is given, since only those who saw it can tell."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from textual.events import AppBlur, AppFocus, Paste
from textual.pilot import Pilot

from ebbtide.agent.events.permissions import PermissionAnswered, PermissionAsked, QuestionAnswered, QuestionAsked
from ebbtide.agent.events.session import (
    ContextMeasured,
    Event,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from ebbtide.tui.widgets.history_search import HistorySearchBar
from tests.kit.app_pilot import Driven, find_idle_soon
from tests.kit.every_screen import SCREENS, asked_about_diff, closed, opened, played, stocked
from tests.kit.fake_sessions import Hold
from tests.kit.hostile_text import HOSTILE, LINES, filled

TOOLS = (
    "bash", "read", "write", "edit", "apply_patch", "grep", "glob", "todo", "ask_user", "recall", HOSTILE, "mcp__x__y",
)  # fmt: skip
NAMES = ("command", "path", "pattern", "content", "old", "new", "patch", "question", "query", "ref_id", "lines", "job")
MARKDOWN = f"""# {HOSTILE}

{LINES}

- {HOSTILE}
  1. {HOSTILE}

> {HOSTILE}

| {HOSTILE} | b |
|---|---|
| `{HOSTILE}` | c |

[{HOSTILE}](http://owned/{HOSTILE} '{HOSTILE}') ![{HOSTILE}](x) <http://owned/\x07> **{HOSTILE}**

```{HOSTILE}
{LINES}
```

```python
'{HOSTILE}'
{LINES}
```

```diff
-{HOSTILE}
+{LINES}
```

<b>{HOSTILE}</b>

end"""
ENDINGS = (TurnFinished, TurnFailed, TurnStarted, PermissionAnswered, QuestionAnswered)


def calls() -> list[Event]:
    """Every tool with hostile arguments, and what it printed."""
    events: list[Event] = []
    for number, name in enumerate(TOOLS):
        items = [{"text": HOSTILE, "status": "doing"}]
        arguments = {**dict.fromkeys(NAMES, LINES), "path": HOSTILE, HOSTILE: HOSTILE, "items": items}
        events += [ToolStarted(f"c{number}", name, arguments), ToolProgress(f"c{number}", LINES)]
        done = ToolFinished(f"c{number}", name, "done", f"{LINES}\n{HOSTILE}", (HOSTILE,), 90)
        events.append(replace(done, status="failed") if number % 2 else done)
    return events


def everything() -> list[Event]:
    """Every kind of event with hostile texts; questions are put by themselves."""
    kinds = [kind for kind in get_args(Event) if kind not in (*ENDINGS, PermissionAsked, QuestionAsked)]
    return [filled(kind, HOSTILE) for kind in kinds]


async def play(t: Driven, names: list[str]) -> None:
    app, pilot, session = t.app, t.pilot, played(t)
    for screen in SCREENS:
        await opened(t, screen)
        await pilot.press("down", "pagedown", "x")
        names.append(screen.name)
        await closed(t)

    hold = Hold()
    question = filled(QuestionAsked, HOSTILE)
    begun = (StepStarted(1), ReasoningDelta(LINES), TextDelta(MARKDOWN))
    over = (ContextMeasured(1, 2, 2), TurnFinished("answered", HOSTILE))
    session.turns[:] = [
        [*begun, *calls(), asked_about_diff(HOSTILE), question, hold, *everything(), *over],
        [TurnFailed(HOSTILE, HOSTILE, 1)],
    ]
    app.post_message(AppBlur())
    await t.type("go")
    await t.asks(PermissionAsked)
    app.post_message(AppBlur())
    await pilot.press("y")
    await t.asks(QuestionAsked)
    await pilot.press("enter")
    await t.until(lambda: len(app.screen_stack) == 1)
    app.post_message(AppFocus())
    for text in (HOSTILE, f"/later {HOSTILE}", f"/{HOSTILE}"):
        await t.type(text)
    app.post_message(Paste(HOSTILE))
    await t.until(lambda: "owned" in t.prompt.text)
    await pilot.press("ctrl+o")
    hold.event.set()
    await t.rests()
    names.append("turn")

    t.prompt.set_text("")
    await pilot.press("ctrl+t", "up", "enter", "up", "up", "enter", "home", "pagedown", "escape")
    await pilot.press("ctrl+f", *"owned", "enter", "enter", "escape")
    t.prompt.set_text("")
    t.prompt.focus()
    await t.until(lambda: t.prompt.has_focus)
    await pilot.press("ctrl+r")
    await t.until(lambda: app.query(HistorySearchBar))
    await pilot.press("o", "w", "escape")
    await t.until(lambda: not app.query(HistorySearchBar))
    app.copy_to_clipboard(HOSTILE)
    await pilot.pause()
    for text in (f"/mode {HOSTILE}", f"/theme {HOSTILE}"):
        await t.type(text)
        await t.rests()
    came_back = asyncio.Event()
    app.app_resume_signal.subscribe(app, lambda _: came_back.set())
    await t.type("/print")
    await came_back.wait()
    await pilot.pause()
    names.append("end")


def main() -> None:
    app = stocked(HOSTILE, Path("stocked"), notify="osc", history_file=Path("history"))
    names: list[str] = []

    async def call_runner(pilot: Pilot[Any]) -> None:
        t = Driven(app, pilot)
        async with asyncio.timeout(90):
            await t.rests()
            await play(t, names)
        app.exit()

    find_idle_soon()
    app.run(auto_pilot=call_runner)
    Path(sys.argv[-1]).write_text(json.dumps(names))
