"""Pictures of diffs, and of the questions that show them."""

from dataclasses import replace

import pytest
from textual.widgets import Static

from ebbtide.agent.config.options import ThemeName
from ebbtide.agent.events.permissions import CallEdited, Decision, PermissionAnswered, PermissionAsked, RuleTrial
from ebbtide.agent.events.session import Event, ToolFinished, TurnFinished
from ebbtide.agent.records.file_change import FileChange
from ebbtide.tools.files.change import diff_lines
from ebbtide.tui.app import EbbApp
from tests.kit.app_pilot import list_on
from tests.kit.fake_sessions import FakeFiles, FakeSession, FakeSessions, measured
from tests.kit.pictures import SIZES, Picture, asks

BEFORE = '''"""Prices."""

from decimal import Decimal


def total(prices):
    """The sum of all prices."""
    result = 0
    for price in prices:
        result += price
    return result


def shown(price, currency="€"):
\treturn "%s %s" % (price, currency)


NAMES = {"日本": "円", "한국": "원"}
'''
AFTER = '''"""Prices, and what they are called."""

from decimal import Decimal


def total(prices):
    """The sum of all prices, in cents."""
    result = Decimal(0)
    for price in prices:
        result += Decimal(price)
    return result.quantize(Decimal("0.01"))


def shown(price, currency="€"):
    return "%s %s" % (price, currency)


NAMES = {"日本": "円", "中国": "元", "ไทย": "บาท"}
LONG = "a line that is longer than most screens are wide, so that it has to go on below itself wherever it is shown"'''

PREVIEW = "\n".join(
    [*diff_lines("prices.py", BEFORE.encode(), AFTER.encode()), *diff_lines("logo.png", b"\0" * 900, b"\0" * 1200)]
)
EDIT = PermissionAsked(
    "q",
    "1",
    "apply_patch",
    {"patch": ""},
    "ask mode: file changes need your OK",
    PREVIEW,
    ("apply_patch(.)",),
    (RuleTrial("apply_patch(.)", 4, 4, ("src/prices.py",)),),
    "/home/me/.config/ebbtide/rules.json",
)
COMMAND = PermissionAsked(
    "q",
    "1",
    "bash",
    {"command": "pytest -q tests/test_prices.py"},
    "ask mode: commands need your OK",
    "",
    ("bash(pytest)", "bash(pytest -q tests/test_prices.py)"),
    (
        RuleTrial("bash(pytest)", 7, 31, ("pytest -q", "pytest tests/test_names.py -x", "pytest")),
        RuleTrial("bash(pytest -q tests/test_prices.py)", 2, 31),
    ),
    "/home/me/.config/ebbtide/rules.json",
)


def asking(question: PermissionAsked, theme: ThemeName = "dark") -> EbbApp:
    session = FakeSession([[measured(), question]])
    return EbbApp(FakeSessions([session]), first_message="the totals are wrong, repair them", guard_s=0.0, theme=theme)


@SIZES
def test_a_question_about_a_diff(picture: Picture) -> None:
    app = asking(EDIT)
    assert picture(app, asks(app, PermissionAsked))


@SIZES
def test_a_question_about_a_command(picture: Picture) -> None:
    app = asking(COMMAND)
    assert picture(app, asks(app, PermissionAsked))


def test_rules_for_the_project(picture: Picture) -> None:
    app = asking(COMMAND)
    assert picture(app, asks(app, PermissionAsked), "p", size=(120, 40))


@SIZES
def test_a_command_that_is_changed(picture: Picture) -> None:
    app = asking(COMMAND)
    assert picture(app, asks(app, PermissionAsked), "e", "space", "minus", "x")


@pytest.mark.parametrize("theme", ["light", "high-contrast", "ansi"])
def test_a_diff_in_other_themes(picture: Picture, theme: ThemeName) -> None:
    app = asking(EDIT, theme)
    assert picture(app, asks(app, PermissionAsked), size=(80, 40))


CHANGED = (
    FileChange("src/prices.py", BEFORE.encode(), AFTER.encode()),
    FileChange("src/names.py", None, b"NAMES = {}\n"),
    FileChange("docs/a-rather-long-name-of-a-document-that-goes.md", b"# Old\n", None),
    FileChange("data/prices.bin", incomparable_reason="what it held before was not kept"),
    FileChange("build/out.txt", b"1\n", b"2\n", is_by_tool=False),
)
NOTES = ("git compares with the last commit, which may be older than this session",)


@SIZES
def test_the_files_that_were_changed(picture: Picture) -> None:
    session = FakeSession(file_history=FakeFiles(CHANGED, NOTES))
    app = EbbApp(FakeSessions([session]), guard_s=0.0)
    assert picture(app, *"/files", "enter", lambda: list_on(app, "diff"))


@SIZES
def test_the_changes_of_one_file(picture: Picture) -> None:
    session = FakeSession(file_history=FakeFiles(CHANGED))
    app = EbbApp(FakeSessions([session]), guard_s=0.0)

    def lists_changes() -> bool:
        return list_on(app, "diff") and "Revert" in str(app.screen.query_one("#headline", Static).render())

    assert picture(app, *"/files", "enter", lambda: list_on(app, "diff"), "x", lists_changes, "down")


def test_no_file_was_changed(picture: Picture) -> None:
    app = EbbApp(FakeSessions([FakeSession(file_history=FakeFiles(told=("git is not there",)))]), guard_s=0.0)
    assert picture(app, "f4", lambda: list_on(app, "diff"))


def test_only_git_knows_of_changed_files(picture: Picture) -> None:
    others = tuple(replace(change, is_by_tool=False) for change in CHANGED)
    app = EbbApp(FakeSessions([FakeSession(file_history=FakeFiles(others, NOTES))]), guard_s=0.0)
    assert picture(app, *"/files", "enter", lambda: list_on(app, "diff"))


@SIZES
def test_a_diff_in_the_transcript(picture: Picture) -> None:
    edit = {"path": "prices.py", "old": "", "new": ""}
    turn: list[Event] = [
        measured(),
        PermissionAsked("q", "1", "edit", edit, "", PREVIEW),
        PermissionAnswered("q", "allow"),
        CallEdited("1", "edit", edit),
        ToolFinished("1", "edit", "done", "edited", ("prices.py",)),
        TurnFinished("answered", ""),
    ]
    session = FakeSession([turn], answers={"q": Decision("allow")})
    app = EbbApp(FakeSessions([session]), first_message="the totals are wrong", guard_s=0.0)
    assert picture(app, "ctrl+home", start=lambda: app.main_screen.transcript.set_detail("full"))
