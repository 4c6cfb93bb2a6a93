"""The question about a call: what it says, and what each key answers."""

from dataclasses import replace

import pytest

from ebbtide.agent.events.permissions import Decision, PermissionAsked, RuleTrial
from ebbtide.agent.events.session import Noticed, TextDelta, TurnFinished
from ebbtide.tools.commands.dangers import find_dangers
from ebbtide.tui.view.change_choices import change_labels
from ebbtide.tui.view.permission import (
    build_call_question,
    describe_rule,
    editable_argument,
    permission_headline,
    rule_trial_text,
)
from ebbtide.tui.view.question import AnswerState
from ebbtide.tui.view.question_lines import choice_rows
from ebbtide.tui.widgets.choices import ChoiceList
from ebbtide.tui.widgets.diff_view import DiffView
from ebbtide.tui.widgets.field import CommandField
from tests.kit.app_pilot import asks_on, terminal
from tests.kit.fake_sessions import FakeSession
from tests.kit.plain_lines import plain

TRIED = (
    RuleTrial("bash(=pytest -x)", 0, 31),
    RuleTrial("bash(pytest)", 7, 31, ("pytest -q", "pytest tests\n--x\x1b[2J")),
)
QUESTION = PermissionAsked(
    "q", "1", "bash", {"command": "pytest -x", "timeout": 5}, "ask mode: commands need your OK", "",
    ("bash(=pytest -x)", "bash(pytest)"), TRIED, "/home/me/.config/ebbtide/rules.json",
)  # fmt: skip
DONE = TurnFinished("answered", "ok")


def listed(question: PermissionAsked, width: int, at: int = 0, *, for_project: bool = False) -> list[str]:
    """The list with the choice `at` marked."""
    rows = choice_rows(build_call_question(question), AnswerState(at, is_for_project=for_project), width)
    return [plain(line).rstrip() for _, line in rows]


def test_the_answers_are_four_and_further_rules_come_with_a_key() -> None:
    assert listed(QUESTION, 100) == [
        "❯ 1 y Yes",
        '  2 a Yes, and don\'t ask again for "pytest …" commands this session   bash(pytest)',
        "  3 e Edit it first",
        "  4 n No, tell it what to do instead",
    ]
    rows = choice_rows(build_call_question(QUESTION), AnswerState(4, lists_extras=True), 100)
    assert [plain(line).rstrip() for _, line in rows][4:] == [
        "❯ 5   Yes, and don't ask again for this command this session",
        "      would have allowed none of 31 earlier calls",
    ]


def test_rules_stand_in_words_beside_their_text_and_say_what_they_would_have_allowed() -> None:
    assert listed(QUESTION, 80, 1)[1:4] == [
        '❯ 2 a Yes, and don\'t ask again for "pytest …" commands this session',
        '      bash(pytest). would have allowed 7 of 31 earlier calls, e.g. "pytest -q",',
        '      "pytest tests --x␛[2J"',
    ]
    assert listed(QUESTION, 40)[1] == '  2 a Yes, always "pytest …" commands'
    assert listed(QUESTION, 100, 1, for_project=True)[1] == (
        '❯ 2 a Yes, and don\'t ask again for "pytest …" commands in future sessions   bash(pytest)'
    )
    assert rule_trial_text(RuleTrial("x", 0, 0)) == "no earlier call is like this"
    assert rule_trial_text(RuleTrial("x", 1, 1)) == "would have allowed 1 of 1 earlier call, all like this"


@pytest.mark.parametrize(
    ("rule", "is_exact", "words"),
    [
        ("bash(=make)", True, "this command"),
        ("bash(git status)", False, '"git status …" commands'),
        ("bash", False, "all commands"),
        ("edit(src/a.py)", True, "edits of src/a.py"),
        ("edit(src)", False, "edits in src/"),
        ("write(src/a.py)", True, "rewrites of src/a.py"),
        ("apply_patch(.)", False, "patches in this project"),
        ("read(/etc)", False, "calls to read in /etc/"),
        ("web_fetch(*.example.org)", False, "pages from *.example.org"),
        ("mcp__forge__open", False, "calls to open on forge"),
        ("outside(=make)", True, "this command outside the sandbox"),
        ("outside(docker)", False, '"docker …" commands outside the sandbox'),
        ("network(example.com)", False, "connections to example.com"),
        ("mcp__forge", False, "all tools of forge"),
        ("odd((\x1b", False, "odd((␛"),
    ],
)
def test_a_rule_in_words(rule: str, is_exact: bool, words: str) -> None:
    assert describe_rule(rule, is_exact=is_exact) == words


def test_only_what_can_be_changed_is_offered_to_be_changed() -> None:
    cases = {
        "bash": {"command": "x"},
        "write": {"content": "x"},
        "edit": {"new": "x"},
        "apply_patch": {"patch": "x"},
        "read": {"path": "x"},
    }
    asked = [PermissionAsked("q", "1", name, arguments, "") for name, arguments in cases.items()]
    assert [editable_argument(question) for question in asked] == ["command", "content", "new", "patch", ""]
    assert editable_argument(PermissionAsked("q", "1", "bash", {"command": 3}, "")) == ""


def test_the_headline_hides_nothing() -> None:
    question = PermissionAsked("q", "1", "write", {"path": "a\x1b]0;x\u202e.py"}, "", "diff", is_edited=True)
    text = plain(permission_headline(question))
    assert text == "? Change a␛]0;x\N{REPLACEMENT CHARACTER}.py?  +0 −0  edited by you"


def test_what_a_running_command_wants_to_reach_is_named_and_the_command_cannot_be_changed() -> None:
    asked = PermissionAsked("q", "1", "bash", {"command": "npm i"}, "", offers=("network(a.org)",), host="a.org\x1b[2J")
    assert plain(permission_headline(asked)) == "? Allow bash to connect to a.org␛[2J?"
    assert editable_argument(asked) == ""
    assert listed(asked, 90) == [
        "❯ 1 y Yes, while this command runs",
        "  2 a Yes, and don't ask again for connections to a.org this session",
        "  4 n No, tell it what to do instead",
    ]


UNSAVED = PermissionAsked("q", "1", "bash", {"command": "ls"}, "", "", ("bash(ls)",))
CHANGED = {"command": "pytest -x -q\nls", "timeout": 5}


@pytest.mark.parametrize(
    ("question", "keys", "decision"),
    [
        pytest.param(
            QUESTION, "p 2 enter", Decision("allow", rule="bash(pytest)", scope="project"), id="for the project"
        ),
        pytest.param(QUESTION, "r enter", Decision("allow", rule="bash(=pytest -x)"), id="by a narrower rule"),
        pytest.param(QUESTION, "r r y", Decision("allow"), id="after a look at the rules"),
        pytest.param(QUESTION, "n enter", Decision("deny"), id="not at all"),
        pytest.param(QUESTION, "4 u v enter", Decision("deny", note="uv"), id="but something else"),
        pytest.param(UNSAVED, "2 enter", Decision("allow", rule="bash(ls)"), id="for the session"),
        pytest.param(
            QUESTION, "e space minus q ctrl+j l s enter", Decision("allow", arguments=CHANGED), id="changed in place"
        ),
        pytest.param(QUESTION, "e y n escape y", Decision("allow"), id="a change that was not meant is taken back"),
    ],
)
async def test_a_call_is_decided_by_keys(question: PermissionAsked, keys: str, decision: Decision) -> None:
    session = FakeSession([[question, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press(*keys.split())
        assert session.answers == {"q": decision}


async def test_a_command_that_was_not_changed_is_run_as_it_is_and_an_empty_one_is_not() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
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
        await t.type("go", asks=PermissionAsked)
        await t.pilot.press("e")
        assert "cannot run an editor" in t.reads("answers")
        await t.press("n", "enter")
        assert session.answers == {"q": Decision("deny")}


async def test_the_transcript_goes_on_and_is_scrolled_while_a_question_is_open() -> None:
    session = FakeSession([[TextDelta("\n\n".join(f"line {n}" for n in range(60))), QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        t.app.controller.show_notice("told\x1b[2J meanwhile")
        await t.shows("told␛[2J meanwhile")
        assert t.transcript.region.bottom <= t.asked.region.y < t.asked.region.bottom <= t.prompt.region.y
        before = t.transcript.scroll_offset.y
        await t.press("pageup", until=lambda: t.transcript.scroll_offset.y < before)
        await t.press("y")
        assert session.answers == {"q": Decision("allow")}


@pytest.mark.parametrize("size", [(80, 24), (80, 60), (10, 3)])
async def test_a_click_marks_and_a_second_one_chooses(size: tuple[int, int]) -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, size=size) as t:
        await t.type("go", asks=PermissionAsked)
        listed = t.app.screen.query_one(ChoiceList)
        await t.pilot.click(listed, offset=(5, 0))
        assert (session.answers, t.asked.marked_choice) == ({}, build_call_question(QUESTION).choices[0])
        await t.pilot.click(listed, offset=(5, 0))
        await t.until(lambda: session.answers == {"q": Decision("allow")})


async def test_text_beside_a_question_answers_nothing_however_slowly_it_is_typed() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        await t.pilot.press("w", "h", "y", "n", "1", "a", "enter")
        await t.until(lambda: t.app.controller.queue.items and asks_on(t.app, PermissionAsked))
        assert ([item.text for item in t.app.controller.queue.items], session.answers) == (["whyn1a"], {})
        await t.pilot.press("w", "backspace", "n", "enter")
        await t.until(lambda: session.answers == {"q": Decision("deny")})


@pytest.mark.parametrize(
    ("size", "lines"),
    [
        ((10, 3), ["? Run this", "pytest -x", "❯ 2 a Yes"]),
        ((20, 6), ["? Run this command?", "pytest -x", "❯ 2 a Yes, and"]),
        ((40, 3), ["? Run this command?", "pytest -x", "❯ 2 a Yes, and don't ask again for"]),
        (
            (80, 11),
            [
                "pytest -x",
                '2 a Yes, and don\'t ask again for "pytest …" commands this session',
                "bash(pytest). would have",
            ],
        ),
    ],
)
async def test_where_there_is_hardly_any_room_what_it_is_about_and_the_marked_choice_are_seen(
    size: tuple[int, int], lines: list[str]
) -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, size=size) as t:
        await t.type("go", asks=PermissionAsked)
        await t.pilot.press("2")
        await t.pilot.pause()
        seen = [strip.text for strip in t.app.screen._compositor.render_strips()]
        assert len(seen) == size[1]
        for words in lines:
            assert words in "\n".join(seen)
        assert session.answers == {}
        await t.press("enter")
        assert session.answers == {"q": Decision("allow", rule="bash(pytest)")}


async def test_where_there_is_hardly_any_room_a_command_is_changed_all_the_same() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, size=(20, 6)) as t:
        await t.type("go", asks=PermissionAsked)
        await t.pilot.press("e", "l")
        await t.pilot.pause()
        lines = [strip.text.strip() for strip in t.app.screen._compositor.render_strips()]
        assert (lines[0], "pytest -xl" in lines, "Enter run" in lines) == ("? Run this command?", True, True)
        await t.press("enter")
        assert session.answers == {"q": Decision("allow", arguments={"command": "pytest -xl", "timeout": 5})}


@pytest.mark.parametrize("size", [(10, 6), (3, 3), (1, 1), (30, 10)])
async def test_questions_survive_small_screens(size: tuple[int, int]) -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session, size=size) as t:
        await t.type("go", asks=PermissionAsked)
        await t.pilot.press("p", "e", "x", "escape", "n", "x", "escape", "r", "r")
        await t.pilot.resize_terminal(80, 24)
        await t.press("y")
        assert session.answers == {"q": Decision("allow")}


async def test_the_mode_is_changed_by_its_key_while_a_question_is_open() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press("shift+tab", until=lambda: session.mode == "accept-edits")
        await t.press("y")
        assert session.answers == {"q": Decision("allow")}


async def test_arguments_are_told_in_words_and_no_line_of_a_value_passes_for_one() -> None:
    arguments = {"to": "ops", "body": "all is well\nforce: yes", "also": ["a", 1]}
    question = PermissionAsked("q", "1", "mcp__chat__post", arguments, "asks")
    async with terminal(FakeSession([[question, DONE]]), size=(80, 40)) as t:
        await t.type("go", asks=PermissionAsked)
        view = t.app.screen.query_one(DiffView)
        lines = [view.render_line(y).text.rstrip() for y in range(view.virtual_size.height)]
        assert lines == ["to: ops", "body:", "  all is well", "  force: yes", "also:", "  - a", "  - 1"]
        await t.press("n", "enter")


async def test_a_huge_diff_is_scrolled_through_and_shown_in_part_first() -> None:
    diff = "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,10500 @@\n" + "\n".join(f"+line {n}" for n in range(10_500))
    question = PermissionAsked("q", "1", "write", {"path": "a.txt", "content": ""}, "asks", diff)
    async with terminal(FakeSession([[question, DONE]])) as t:
        await t.type("go", asks=PermissionAsked)
        view = t.app.screen.query_one(DiffView)
        await t.until(lambda: view.virtual_size.height == 5_000)
        await t.pilot.press("ctrl+o")
        await t.press("end", "m", until=lambda: view.virtual_size.height == 10_000)
        await t.press("m", "m", "end", until=lambda: view.virtual_size.height == 10_500)
        await t.until(lambda: view.scroll_offset.y == view.max_scroll_y)
        assert "line 10499" in view.render_line(view.size.height - 1).text
        await t.press("n", "enter")


@pytest.mark.parametrize("size", [(80, 24), (60, 18), (60, 17), (60, 11), (30, 12), (20, 6), (10, 5)])
async def test_the_marked_choice_is_on_the_screen_whatever_stands_beside_it(size: tuple[int, int]) -> None:
    notice = Noticed(
        "`forge` was lost: it ended with exit code 1; `/mcp` starts it again, `/mcp` shows what it printed"
    )
    async with terminal(FakeSession([[notice, QUESTION]]), size=size) as t:
        t.prompt.set_text("a draft\n\n\nof many lines\n\n")
        t.app.jobs.send("go")
        await t.asks(PermissionAsked)
        await t.pilot.press("up", "up", "down")
        await t.pilot.pause()
        listed = t.app.screen.query_one(ChoiceList)
        assert listed.region.height > 0
        assert listed.region.bottom <= size[1]
        assert any("❯" in listed.render_line(y).text for y in range(listed.size.height))


def test_a_call_to_a_server_or_a_page_offers_its_narrowest_rule_first() -> None:
    offers = ("mcp__forge__open", "mcp__forge")
    asked = PermissionAsked("q", "1", "mcp__forge__open", {"id": 3}, "asks", offers=offers, offers_exact=False)
    assert listed(asked, 100) == [
        "❯ 1 y Yes",
        "  2 a Yes, and don't ask again for calls to open on forge this session   mcp__forge__open",
        "  4 n No, tell it what to do instead",
    ]


TWO_CHANGES = (
    "--- a/a.py\n+++ b/a.py\n@@ -1,4 +1,5 @@\n-one\n+ONE\n two\n three\n+more\n four\n"
    "--- /dev/null\n+++ b/b.py\n@@ -0,0 +1,1 @@\n+new\n"
)
EDIT = PermissionAsked(
    *("q", "1", "apply_patch", {"patch": "x"}, "asks", TWO_CHANGES, ("apply_patch(a.py)", "apply_patch(.)")),
    rules_file="/home/me/rules.json",
    mode_offer="accept-edits",
    change_count=3,
)


def test_an_edit_offers_all_further_edits_and_single_changes() -> None:
    assert listed(EDIT, 100) == [
        "❯ 1 y Yes",
        "  2 a Yes, and allow all edits this session   accept-edits mode",
        "  3 e Edit it first",
        "  4 n No, tell it what to do instead",
        "  5 c Choose among the 3 changes",
    ]
    assert listed(EDIT, 100, for_project=True)[1] == (
        "  2 a Yes, and don't ask again for patches in this project in future sessions   apply_patch(.)"
    )
    assert change_labels(TWO_CHANGES) == ("a.py:1  +1 −1  ONE", "a.py:4  +1 −0  more", "b.py:1  +1 −0  new")


@pytest.mark.parametrize(
    ("keys", "decision"),
    [
        ("2 enter", Decision("allow", mode="accept-edits")),
        ("c space down down 3 enter", Decision("allow", refused_changes=(0, 2))),
        ("c enter", Decision("allow")),
        ("c 1 2 3 enter", Decision("deny")),
        ("c escape y", Decision("allow")),
        ("r down enter", Decision("allow", rule="apply_patch(.)")),
    ],
)
async def test_an_edit_is_decided_as_a_whole_or_change_by_change(keys: str, decision: Decision) -> None:
    session = FakeSession([[EDIT, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press(*keys.split())
        assert session.answers == {"q": decision}
        assert t.app.controller.view.mode == (decision.mode or "ask")


def test_single_changes_are_not_offered_if_the_diff_does_not_show_them() -> None:
    assert len(listed(replace(EDIT, change_count=2), 100)) == 4
    assert len(listed(replace(EDIT, change_count=0), 100)) == 4


def test_a_command_says_where_it_would_run() -> None:
    danger = find_dangers("rm -rf x", "/p")
    asked = PermissionAsked(
        "q", "1", "bash", {"command": "rm -rf x", "workdir": "lib"}, "asks", dangers=danger, is_sandboxed=False
    )
    spec = build_call_question(asked)
    assert plain(spec.headline) == "? Run this command in lib?"
    assert [plain(line) for line in spec.reason] == [
        "Dangerous: rm -rf x deletes folders and everything in them",
        "not in the sandbox · asks",
    ]
    assert [spec.subject.text[start:end] for start, end in spec.subject.marks] == ["rm -rf x"]
    confined = build_call_question(replace(asked, is_sandboxed=True))
    assert plain(confined.reason[-1]) == "in the sandbox · asks"


async def test_tab_goes_to_the_prompt_and_back() -> None:
    session = FakeSession([[QUESTION, DONE]])
    async with terminal(session) as t:
        await t.type("go", asks=PermissionAsked)
        assert "Enter select   Esc stop the turn   Tab write a message" in t.reads("answers").replace("  ", "   ")
        await t.pilot.press("tab", "y")
        assert (t.prompt.text, session.answers) == ("y", {})
        await t.press("tab", "y")
        assert session.answers == {"q": Decision("allow")}
