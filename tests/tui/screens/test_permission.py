"""The question about a call: what it says, and what each key answers."""

from dataclasses import replace

import pytest

from agent.events import Decision, Noticed, PermissionAsked, Tried, TurnFinished
from tests.tui.doubles import FakeSession
from tests.tui.inked import plain
from tests.tui.piloting import terminal
from tui.screens.permission import CommandField, PermissionScreen
from tui.view.permission import AnswerKeys, answers_in, changeable, decision_for, dry_run_of, headline_of, lines_taken
from tui.widgets.diffview import DiffView
from tui.widgets.told_lines import ToldLines

TRIED = (Tried("bash(=pytest -x)", 0, 31), Tried("bash(pytest)", 7, 31, ("pytest -q", "pytest tests\n--x\x1b[2J")))
QUESTION = PermissionAsked(
    "q", "1", "bash", {"command": "pytest -x", "timeout": 5}, "ask mode asks before a command runs", "",
    ("bash(=pytest -x)", "bash(pytest)"), TRIED, "/home/me/.config/ebbtide/rules.json",
)  # fmt: skip
DONE = TurnFinished("answered", "ok")


def words(answers: AnswerKeys) -> list[str]:
    return [plain(line).rstrip() for line in answers.lines]


def test_each_rule_says_what_it_would_have_allowed() -> None:
    assert words(answers_in(QUESTION, for_project=False, width=90, height=7)) == [
        " y once    n no    d no, and say why    e edit first    Esc stop",
        " 1 in this session: exactly this",
        "   would have allowed none of 31 earlier calls",
        " 2 in this session: bash(pytest)",
        "   would have allowed 7 of 31 earlier calls, e.g. `pytest -q`, `pytest tests --x␛[2J`",
        " p those rules in this project, from now on",
    ]
    assert words(answers_in(QUESTION, for_project=True, width=80, height=4))[1:] == [
        " 1 in this project, from now on: exactly this",
        " 2 in this project, from now on: bash(pytest)",
        " p those rules only in this session",
    ]
    assert dry_run_of(Tried("x", 0, 0)) == "nothing like this was asked about so far"
    assert dry_run_of(Tried("x", 1, 1)) == "would have allowed 1 of 1 earlier call, all like this"


@pytest.mark.parametrize(
    ("width", "height", "keys", "has_rules"),
    [
        (80, 3, " y once    n no    d no, and say why    e edit first    Esc stop", False),
        (64, 0, " y once    n no    d no, and say why    e edit first    Esc stop", False),
        (63, 9, " y once  n no  d why not  e edit  Esc stop", True),
        (41, 9, " y once  n no  d why not  e edit", True),
        (20, 3, "y n d e", False),
        (7, 9, "y n d e", False),
        (1, 1, "y n d e", False),
    ],
)
def test_where_there_is_no_room_the_rules_are_neither_shown_nor_offered(
    width: int, height: int, keys: str, has_rules: bool
) -> None:
    answers = answers_in(QUESTION, for_project=False, width=width, height=height)
    assert (words(answers)[0], answers.has_rules, len(answers.lines) > 1) == (keys, has_rules, has_rules)
    assert answers.height == sum(lines_taken(line, width) for line in words(answers))


@pytest.mark.parametrize(
    ("key", "decision"),
    [
        ("y", Decision("allow")),
        ("n", Decision("deny")),
        ("a", None),
        ("1", Decision("allow", rule="bash(=pytest -x)")),
        ("2", Decision("allow", rule="bash(pytest)")),
        ("3", None),
        ("0", None),
        ("²", None),
        ("x", None),
    ],
)
def test_keys_answer(key: str, decision: Decision | None) -> None:
    assert decision_for(key, QUESTION, for_project=False) == decision


def test_the_first_number_is_for_exactly_this_or_for_nothing() -> None:
    question = replace(QUESTION, offers=("bash(pytest)",), offers_exact=False)
    answers = {key: decision_for(key, question, for_project=False) for key in ("1", "a", "2")}
    assert answers == {"1": None, "a": None, "2": Decision("allow", rule="bash(pytest)")}
    assert words(answers_in(question, for_project=False, width=80, height=9))[1] == " 2 in this session: bash(pytest)"


def test_only_what_can_be_changed_is_offered_to_be_changed() -> None:
    cases = {
        "bash": {"command": "x"},
        "write": {"content": "x"},
        "edit": {"new": "x"},
        "apply_patch": {"patch": "x"},
        "read": {"path": "x"},
    }
    asked = [PermissionAsked("q", "1", name, arguments, "") for name, arguments in cases.items()]
    assert [changeable(question) for question in asked] == ["command", "content", "new", "patch", ""]
    assert changeable(PermissionAsked("q", "1", "bash", {"command": 3}, "")) == ""


def test_the_headline_hides_nothing() -> None:
    question = PermissionAsked("q", "1", "write", {"path": "a\x1b]0;x\u202e.py"}, "", "diff", is_edited=True)
    text = plain(headline_of(question, 2, 1))
    assert text == "? May write change a␛]0;x\N{REPLACEMENT CHARACTER}.py?  +2 −1  as you changed it"


def test_what_a_running_command_wants_to_reach_is_named_and_the_command_cannot_be_changed() -> None:
    asked = PermissionAsked("q", "1", "bash", {"command": "npm i"}, "", offers=("network(a.org)",), host="a.org\x1b[2J")
    assert plain(headline_of(asked, 0, 0)) == "? May bash reach a.org␛[2J?"
    assert changeable(asked) == ""
    assert words(answers_in(asked, for_project=False, width=90, height=4)) == [
        " y once    n no    d no, and say why    Esc stop",
        " 1 in this session: network(a.org)",
    ]


NOT_KEPT = PermissionAsked("q", "1", "bash", {"command": "ls"}, "", "", ("bash(ls)",))
CHANGED = {"command": "pytest -x -q\nls", "timeout": 5}


@pytest.mark.parametrize(
    ("question", "keys", "decision"),
    [
        pytest.param(QUESTION, "p 2", Decision("allow", rule="bash(pytest)", kept="project"), id="for the project"),
        pytest.param(NOT_KEPT, "p 1", Decision("allow", rule="bash(ls)"), id="where nothing is kept for projects"),
        pytest.param(
            QUESTION, "e space minus q ctrl+j l s enter", Decision("allow", arguments=CHANGED), id="changed in place"
        ),
        pytest.param(QUESTION, "e y n escape y", Decision("allow"), id="a change that was not meant is taken back"),
    ],
)
async def test_a_call_is_allowed_by_keys(question: PermissionAsked, keys: str, decision: Decision) -> None:
    session = FakeSession([[question, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionScreen)
        await t.press(*keys.split())
        assert session.answers == {"q": decision}


async def test_a_command_that_was_not_changed_is_run_as_it_is_and_an_empty_one_is_not() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionScreen)
        await t.pilot.press("e")
        field = t.app.screen.query_one(CommandField)
        field.text = "  "
        await t.pilot.press("enter")
        assert session.answers == {}
        field.text = "pytest -x"
        await t.press("enter")
        assert session.answers == {"q": Decision("allow")}


async def test_without_a_terminal_that_can_be_given_away_an_editor_is_refused() -> None:
    question = PermissionAsked("q", "1", "write", {"path": "a.py", "content": "x"}, "asks", "diff")
    session = FakeSession([[question, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionScreen)
        await t.pilot.press("e")
        assert "cannot be given to an editor" in t.reads("reason")
        await t.press("n")
        assert session.answers == {"q": Decision("deny")}


async def test_what_is_told_meanwhile_stands_in_the_question() -> None:
    session = FakeSession([[Noticed("told before"), QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionScreen)
        told = t.app.screen.query_one(ToldLines)
        await t.until(lambda: str(told.render()) == "· told before")
        t.app.controller.notice("told\x1b[2J meanwhile")
        await t.until(lambda: "meanwhile" in str(told.render()))
        assert str(told.render()) == "· told before\n· told␛[2J meanwhile"
        await t.press("y")
        assert session.answers == {"q": Decision("allow")}


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ((10, 5), ["? May bas…", "pytest -x", "y n d e"]),
        ((20, 6), ["May bash run this?", "pytest -x", "y n d e"]),
        ((40, 3), ["May bash run this?", "pytest -x", "y once  n no  d why not  e edit"]),
        ((80, 3), ["May bash run this?", "pytest -x", "y once    n no    d no, and say why    e edit first"]),
        ((80, 11), ["pytest -x", "1 in this session: exactly this", "2 in this session: bash(pytest)"]),
    ],
)
async def test_where_there_is_hardly_any_room_a_question_shows_what_it_is_about_and_the_keys(
    size: tuple[int, int], shown: list[str]
) -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, size=size) as t:
        await t.type("go", asks=PermissionScreen)
        await t.pilot.pause()
        lines = [strip.text for strip in t.app.screen._compositor.render_strips()]
        assert len(lines) == size[1]
        for words in shown:
            assert words in "\n".join(lines)
        await t.pilot.press("2")
        has_rules = "bash(pytest)" in "\n".join(lines)
        assert session.answers == ({"q": Decision("allow", rule="bash(pytest)")} if has_rules else {})
        await t.press("n")


async def test_where_there_is_hardly_any_room_a_command_is_changed_all_the_same() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, size=(20, 6)) as t:
        await t.type("go", asks=PermissionScreen)
        await t.pilot.press("e", "l")
        await t.pilot.pause()
        lines = [strip.text.strip() for strip in t.app.screen._compositor.render_strips()]
        assert lines == ["? May bash run this?", "pytest -xl", "", "", "", "Enter runs  Esc back"]
        await t.press("enter")
        assert session.answers == {"q": Decision("allow", arguments={"command": "pytest -xl", "timeout": 5})}


@pytest.mark.parametrize("size", [(10, 6), (3, 3), (1, 1), (30, 10)])
async def test_questions_survive_small_screens(size: tuple[int, int]) -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, size=size) as t:
        await t.type("go", asks=PermissionScreen)
        await t.pilot.press("p", "e", "x", "escape", "d", "x", "escape")
        await t.pilot.resize_terminal(80, 24)
        await t.press("y")
        assert session.answers == {"q": Decision("allow")}


async def test_a_huge_diff_is_scrolled_through_and_shown_in_part_first() -> None:
    diff = "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,10500 @@\n" + "\n".join(f"+line {n}" for n in range(10_500))
    question = PermissionAsked("q", "1", "write", {"path": "a.txt", "content": ""}, "asks", diff)
    async with terminal(FakeSession([[question, DONE]])) as t:
        await t.type("go", asks=PermissionScreen)
        view = t.app.screen.query_one(DiffView)
        await t.until(lambda: view.virtual_size.height == 5_001)
        await t.press("end", "m", until=lambda: view.virtual_size.height == 10_001)
        await t.press("m", "m", "end", until=lambda: view.virtual_size.height == 10_501)
        await t.until(lambda: view.scroll_offset.y == view.max_scroll_y)
        assert "line 10499" in view.render_line(view.size.height - 1).text
        await t.press("n")


@pytest.mark.parametrize("size", [(80, 24), (60, 17), (60, 16), (60, 12), (60, 11), (30, 12), (20, 6), (10, 5)])
async def test_the_keys_that_answer_are_on_the_screen_whatever_was_told(size: tuple[int, int]) -> None:
    told = Noticed("`forge` was lost: it ended with exit code 1; `/mcp` starts it again, `/mcp` shows what it printed")
    async with terminal(FakeSession([[told, QUESTION]]), size=size) as t:
        await t.type("go", asks=PermissionScreen)
        await t.until(lambda: t.app.screen.query_one("#answers").region.height > 0)
        await t.pilot.pause()
        assert t.app.screen.query_one("#answers").region.bottom <= size[1]
