"""Pictures of the screens. Look at every one that changes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ebbtide.agent.archive.listing import ArchiveItem
from ebbtide.agent.events.permissions import PermissionAsked
from ebbtide.agent.events.session import (
    Event,
    ReasoningDelta,
    ReplyFinished,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from ebbtide.agent.events.view import CompactionStarted, ContextCompacted, ReceiptItem
from ebbtide.agent.messages import ToolCall, Usage
from ebbtide.agent.view.provenance import Occurrence
from ebbtide.tools.process.state import ProgramState
from ebbtide.tui.app import EbbApp
from ebbtide.tui.commands.context import archive_rows, build_archive_panel
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.slash_commands import Invocation, command_by_name
from tests.kit.app_pilot import list_on
from tests.kit.fake_sessions import FakeSession, FakeSessions, FakeShelf, Hold, measured
from tests.kit.pictures import SIZES, Picture, asks
from tests.tui.integrations.mcp.test_server_list import FakeBoard

pytestmark = pytest.mark.usefixtures("no_time_passes")

OLDER = "older steps, replaced by a summary"
DIFF = """--- a/calc.py
+++ b/calc.py
@@ -1,6 +1,9 @@ import math
 def add(a, b):
-    return a - b
+    return a + b
 
 
 def mean(values):
+    if not values:
+        raise ValueError("no values")
+
     return sum(values) / len(values)
"""
QUESTION = PermissionAsked(
    "q",
    "3",
    "edit",
    {"path": "calc.py", "old": "a - b", "new": "a + b"},
    "ask mode: file changes need your OK",
    DIFF,
    ("edit(calc.py)", "edit"),
)
FAILED = ProgramState("exit code 1", 1)
TURN: list[Event] = [
    measured(),
    ReasoningDelta("The tests fail, so I look at the code before I touch it."),
    TextDelta("I look at the **code** first.\n"),
    ToolStarted("1", "read", {"path": "calc.py", "offset": 1, "limit": 40}),
    ToolFinished("1", "read", "done", "1 def add(a, b):\n2     return a - b\n"),
    ToolStarted("2", "bash", {"command": "pytest -q"}),
    ToolProgress("2", "F.\n"),
    ToolFinished("2", "bash", "failed", "F.\n1 failed, 1 passed in 0.02s\nexit code 1", program=FAILED),
    QUESTION,
]
REST: list[Event] = [
    ToolStarted("3", "edit", QUESTION.arguments),
    ToolFinished("3", "edit", "done", "edited", ("calc.py",)),
    TextDelta(
        "`add` subtracted. It is one character:\n\n```python\ndef add(a, b):\n    return a + b  # was a minus\n```\n\n"
        "| test | before | now |\n|---|---|---|\n| add | failed | passes |\n| mean | passes | passes |\n\n"
        "1. `mean` now refuses an empty list\n2. nothing else changed\n"
    ),
    ReplyFinished("scripted/demo", "end", Usage(24_000, 0, 0, 500), 0.0123),
    TurnFinished("answered", "x"),
]


def app_with(turn: Sequence[Event | Hold]) -> EbbApp:
    session = FakeSession([turn])
    return EbbApp(FakeSessions([session]), first_message="the tests fail, fix them", guard_s=0.0)


@SIZES
def test_a_conversation_with_tool_calls(picture: Picture) -> None:
    app = app_with([event for event in TURN if event is not QUESTION] + REST)
    assert picture(app)


ANSWER = """\
## What goes wrong

`parse` never sees the end, see [the notes on the *lexer*](https://example.org/notes?page=2) and <https://example.org/>:

| file | lines | why |
|:---|---:|---|
| `lexer.py` | 12 | drops the last token when the line ends in a comment, so that nothing after it is read |
| `parser.py` | 4 | waits for it |

> It worked before the lexer was made lazy.

```diff
-    return tokens[:-1]
+    return tokens
```
"""


@SIZES
def test_words_that_are_looked_for(picture: Picture) -> None:
    command, output = {"command": "pytest -q tests/test_lexer.py"}, "F..\nthe lexer dropped a token\n1 failed, 2 passed"
    run: list[Event] = [ToolStarted("1", "bash", command), ToolFinished("1", "bash", "failed", output)]
    app = app_with([measured(), TextDelta("The lexer it is."), *run, TextDelta(ANSWER), *REST[-2:]])
    assert picture(app, "ctrl+f", *"lexer", *["enter"] * 4, lambda: bool(app.main_screen.transcript.expanded_blocks))


RECEIPT = ContextCompacted(
    121_000,
    38_000,
    142,
    9,
    ("mask", "summary"),
    "full",
    (
        ReceiptItem("you: the export command writes CRLF (61 messages)", "summarised", 48_200, OLDER),
        ReceiptItem("you: add a --json flag to it (52 messages)", "summarised", 26_900, OLDER),
        ReceiptItem("Ran: pytest -q – exit 1 – 2 failed, 40 passed [r31]", "masked", 5_100, "an older output"),
        ReceiptItem("you: the tests fail, fix them", "kept", 12, "your request, unchanged"),
        ReceiptItem("step: read, bash", "kept", 2_400, "among the newest steps"),
    ),
    model="anthropic/claude-haiku",
    cost=0.031,
)


@SIZES
def test_the_receipt_of_a_compaction_opened(picture: Picture) -> None:
    before: list[Event] = [ToolStarted("1", "bash", {"command": "pytest -q"}), ToolFinished("1", "bash", "done", "ok")]
    app = app_with([measured(), *before, CompactionStarted(121_000), RECEIPT, TextDelta("On it."), *REST[-2:]])

    def is_open() -> bool:
        return bool(app.main_screen.transcript.expanded_blocks)

    assert picture(app, "enter", is_open, start=lambda: app.main_screen.transcript.focus())


def test_a_compaction_that_runs(picture: Picture) -> None:
    app = app_with([measured(), CompactionStarted(121_000), Hold()])
    assert picture(app, lambda: app.controller.view.activity == "compacting")


@SIZES
def test_the_permission_question_with_a_diff(picture: Picture) -> None:
    app = app_with(TURN)
    assert picture(app, asks(app, PermissionAsked))


def test_the_permission_question_with_a_command(picture: Picture) -> None:
    command = "cd build && cmake .. -DCMAKE_BUILD_TYPE=Release\nmake -j4 && ctest --output-on-failure"
    app = app_with(
        [
            PermissionAsked(
                "q", "1", "bash", {"command": command}, "ask mode: commands need your OK", "", ("bash(make *)",)
            )
        ]
    )
    assert picture(app, asks(app, PermissionAsked))


ITEMS = (
    ArchiveItem(
        "r31", "visible", 310, 12, 9_990.0, ToolCall("9", "read", {"path": "calc.py", "offset": 1, "limit": 40})
    ),
    ArchiveItem(
        "r30", "preview", 48_231, 1_204, 9_700.0, ToolCall("8", "bash", {"command": "pytest -q --durations=5"})
    ),
    ArchiveItem("r12", "masked", 1_250_000, 31_004, 6_000.0, ToolCall("3", "bash", {"command": "git log --stat"})),
    ArchiveItem("msg-1a2b3c4d", "summarised", 402, 6, 2_000.0, None, "add a --json flag to the export command", "you"),
    ArchiveItem(
        "r2", "removed", 3_100_000_000, 91_004_210, -600_000.0, ToolCall("1", "bash", {"command": "cat big.log"})
    ),
)
REPORT = "\n".join(
    ["F.", *(f"tests/test_calc.py:{n}: AssertionError: expected {n} and got {n + 1}" for n in range(1_203))]
)


@SIZES
def test_the_archive(picture: Picture) -> None:
    listing = FakeShelf(ITEMS, {"r31": "1 def add", "r30": REPORT})
    app = EbbApp(FakeSessions([FakeSession(archive_listing=listing)]), guard_s=0.0)
    screen = PanelScreen(build_archive_panel(listing, archive_rows(ITEMS, 10_000.0)))

    def listed() -> bool:
        return list_on(app, "archive")

    assert picture(app, listed, "down", listed, "pagedown", listed, start=lambda: app.push_screen(screen))


PLACES = (
    Occurrence("msg-0f9e8d7c", "summarised", "you said", "sum-1"),
    Occurrence("r12", "summarised", "Ran: git log --stat – exit 0", "sum-1"),
    Occurrence("r28", "masked", "Viewed tests/test_calc.py – 1,204 lines"),
    Occurrence("r30", "stored", "Ran: pytest -q --durations=5 – exit 1"),
    Occurrence("r31", "visible", "Viewed calc.py – 12 lines"),
)


@SIZES
@pytest.mark.parametrize("keys", [(), ("o",)], ids=["list", "whole"])
def test_where_a_text_went(picture: Picture, keys: tuple[str, ...]) -> None:
    session = FakeSession(
        places=PLACES,
        archive_listing=FakeShelf((), {"r30": REPORT}),
        unsearched=("only the first 262,144 bytes of r2 are searched here; `/archive` shows all of one",),
    )
    app = EbbApp(FakeSessions([session]), guard_s=0.0)
    why = Invocation(command_by_name("why"), "test_calc.py:40")

    def listed() -> bool:
        return list_on(app, "why")

    assert picture(app, listed, *keys, listed, start=lambda: app.jobs.invoke(why))


@SIZES
def test_the_commands_that_a_slash_offers(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession(working_folder=Path("/home/me/project"))]), guard_s=0.0)
    assert picture(app, "slash")


@SIZES
def test_the_servers(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession(servers=FakeBoard())]), guard_s=0.0)

    def stands_there() -> bool:
        return any("Forge" in str(widget.render()) for widget in app.screen.query("#said"))

    assert picture(app, stands_there, start=lambda: app.action_command("mcp"))
