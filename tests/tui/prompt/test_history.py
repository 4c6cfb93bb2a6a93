import json
import os
import subprocess
import sys
from pathlib import Path

from ebbtide.tui.prompt.history import History, HistorySearch, search_history
from ebbtide.tui.widgets.history_search import HistorySearchBar
from tests.kit.app_pilot import terminal


def test_messages_of_this_project_come_first_and_each_once(tmp_path: Path) -> None:
    file = tmp_path / "history"
    here, there = History(file, "/here"), History(file, "/there")
    for history, text in ((here, "a"), (there, "b"), (here, "c"), (there, "c"), (there, "d"), (here, "a")):
        history.add(text)
    assert History(file, "/here").entries() == ("a", "c", "d", "b")
    assert here.entries() == ("a", "c", "d", "b")
    assert there.entries() == ("d", "c", "b", "a")


def test_what_another_program_adds_is_there_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "history"
    one, other = History(file), History(file)
    one.add("first")
    assert other.step_older("") == "first"
    one.add("second")
    assert (other.step_older("first"), other.step_newer()) == (None, "")
    assert other.step_older("") == "second"


def test_a_message_that_begins_with_a_blank_is_not_kept(tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    history.add(" secret")
    assert history.entries() == ()


def test_a_key_that_is_typed_behind_its_command_is_not_stored(tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    for text in ("/key sk-ant-api03-secret", "/key", "/keys and locks"):
        history.add(text)
    assert history.entries() == ("/keys and locks",)
    assert "secret" not in (tmp_path / "history").read_text()


def test_a_line_that_was_cut_costs_itself_only(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text('"whole"\n"cut in the mid')
    History(file).add("next\nline")
    assert History(file).entries() == ("next\nline", "whole")


def test_several_programs_write_one_file_without_tearing(tmp_path: Path) -> None:
    file = tmp_path / "history"
    script = (
        "import sys; from pathlib import Path; from ebbtide.tui.prompt.history import History\n"
        "h = History(Path(sys.argv[1]), sys.argv[2])\n"
        "for n in range(200): h.add(f'{sys.argv[2]} {n}\\n' + 'x' * 9000)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(file), name], env=environment) for name in ("a", "b", "c")
    ]
    assert [program.wait(60) for program in running] == [0, 0, 0]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    texts = [line["text"].split("\n")[0] for line in lines]
    for name in ("a", "b", "c"):
        assert [text for text in texts if text.startswith(name)] == [f"{name} {number}" for number in range(200)]


def test_a_search_goes_older_and_newer_and_stays_where_it_is() -> None:
    entries = ("run the tests", "Fix Tests\nnow", "other", "tests")
    search = search_history("tests", entries)
    assert (search.current_match, search.match_range, search.with_older_match().current_match) == (
        "run the tests",
        (8, 13),
        "Fix Tests\nnow",
    )
    assert (
        search.with_older_match().with_older_match().with_older_match().current_match
        == search.with_older_match().with_older_match().current_match
        == "tests"
    )
    assert search.with_older_match().with_newer_match().with_newer_match().current_match == "run the tests"
    assert search_history("Tests", entries) == HistorySearch("Tests", ("Fix Tests\nnow",))
    assert search_history("test", entries, search.with_older_match()).index == 1
    assert search_history("nothing", entries).current_match == ""


async def test_ctrl_r_finds_a_message_and_enter_takes_it(tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    for text in ("make the parser faster", "look at the tests\nand fix them", "what is this"):
        history.add(text)
    async with terminal(history_file=tmp_path / "history") as t:
        t.prompt.set_text("draft")
        await t.press("ctrl+r", until=lambda: t.app.query(HistorySearchBar) and not t.prompt.has_focus)
        await t.pilot.press("t", "h", "e", "ctrl+r")
        await t.press("enter", until=lambda: t.prompt.has_focus)
        assert t.prompt.text == "make the parser faster"
        assert not t.app.query(HistorySearchBar)


async def test_esc_leaves_a_search_with_what_was_written(tmp_path: Path) -> None:
    History(tmp_path / "history").add("earlier")
    async with terminal(history_file=tmp_path / "history", size=(10, 6)) as t:
        t.prompt.set_text("draft")
        await t.press("ctrl+r", until=lambda: t.app.query(HistorySearchBar) and not t.prompt.has_focus)
        await t.press("e", "x", "escape", until=lambda: t.prompt.has_focus)
        assert t.prompt.text == "draft"


async def test_a_message_behind_a_blank_is_sent_and_forgotten(tmp_path: Path) -> None:
    async with terminal(history_file=tmp_path / "history") as t:
        await t.says(" hush")
        assert t.prompt.prompt_history.entries() == ()
