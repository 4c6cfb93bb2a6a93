"""The user's own editor, and what is remembered."""

from pathlib import Path

import pytest

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import UsageError
from ebbtide.agent.input.memory import append_memory, list_memory_files, undo_append
from ebbtide.agent.messages import Note, User
from ebbtide.tui.app import EbbApp
from ebbtide.tui.terminal.edit_text import run_editor
from tests.kit.app_pilot import Driven, terminal
from tests.kit.files import write_file, write_program
from tests.kit.project import Project
from tests.kit.pty_terminal import ready


def program(folder: Path, body: str) -> Path:
    return write_program(folder / "my editor", f"{body}\n")


def test_a_text_comes_back_as_it_was_edited(tmp_path: Path) -> None:
    file = program(tmp_path, 'test "$1" = --wait && printf "more\\n日本\\n" >> "$2"')
    assert run_editor([str(file), "--wait"], "begun ", "a.md") == "begun more\n日本"


def test_an_editor_that_fails_leaves_the_text_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exit code 3"):
        run_editor([str(program(tmp_path, "exit 3"))], "text", "a.md")
    with pytest.raises(UsageError, match="could not be started"):
        run_editor([str(tmp_path / "gone")], "text", "a.md")


async def test_without_a_terminal_for_it_the_text_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.delenv("VISUAL", raising=False)
    async with terminal(size=(80, 24)) as t:
        t.prompt.set_text("draft")
        await t.press("ctrl+g", shows="cannot run an editor")
        assert t.prompt.text == "draft"


def test_ctrl_g_gives_the_terminal_to_the_editor_and_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = program(tmp_path, 'printf edited; read key; printf "rest of it" >> "$1"')
    monkeypatch.setenv("VISUAL", f"'{file}'")
    with ready(tmp_path, '[[reply]]\ntext = "Seen."\n') as screen:
        screen.send("the \x07", until="edited")
        screen.send("\r", until="the rest of it")
        screen.send("\r", until="Seen.")


def test_ctrl_c_in_an_editor_is_the_editors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = program(tmp_path, 'kill -INT "$PPID"; kill -QUIT "$PPID"; printf "rest of it" >> "$1"')
    monkeypatch.setenv("VISUAL", f"'{file}'")
    with ready(tmp_path, '[[reply]]\ntext = "Seen."\n') as screen:
        screen.send("the \x07", until="the rest of it")
        screen.send("\r", until="Seen.")


def test_the_editor_gets_what_was_pasted_and_it_folds_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = program(tmp_path, f'cp "$1" {tmp_path}/seen; printf " and think" >> "$1"')
    monkeypatch.setenv("VISUAL", f"'{file}'")
    pasted = "".join(f"line {number}\n" for number in range(30))
    with ready(tmp_path, '[[reply]]\ntext = "Seen."\n') as screen:
        screen.send(f"look at \x1b[200~{pasted}\x1b[201~", until="look at [pasted 30 lines #1]")
        screen.send("\x07", until="look at [pasted 30 lines #1] and think")
        assert (tmp_path / "seen").read_text() == f"look at {pasted}"


def test_entries_are_added_as_whole_lines(tmp_path: Path) -> None:
    file = write_file(tmp_path / "deep" / "AGENT.md", "# Rules\nno line end")
    assert append_memory("tests run\n with  tox", file).entry == "- tests run with tox"
    append_memory("second", file)
    assert file.read_text() == "# Rules\nno line end\n- tests run with tox\n- second\n"
    with pytest.raises(UsageError, match="too long to remember"):
        append_memory("x" * 3_000, file)
    with pytest.raises(UsageError, match="cannot write to"):
        append_memory("x", file / "below")


@pytest.mark.parametrize("before", [None, b"", b"# Rules\nno line end", b"# Rules\n- one\n"])
def test_an_entry_is_taken_back_as_long_as_nobody_else_wrote(tmp_path: Path, before: bytes | None) -> None:
    file = tmp_path / "notes.md"
    if before is not None:
        file.write_bytes(before)
    undo_append(append_memory("never mind", file))
    assert (file.read_bytes() if file.exists() else None) == before
    remembered = append_memory("mine", file)
    with file.open("a") as other:
        other.write("- theirs\n")
    with pytest.raises(UsageError, match="has changed since; remove the line by hand"):
        undo_append(remembered)
    assert file.read_text().endswith("- mine\n- theirs\n")
    file.unlink()
    with pytest.raises(UsageError, match="cannot write to"):
        undo_append(remembered)
    assert not file.exists()


async def test_what_is_remembered_is_told_now_and_known_to_later_sessions(project: Project) -> None:
    sessions = project.sessions({"text": "Yes."}, interactive=True)
    config = sessions.config
    app = EbbApp(sessions, guard_s=0.0, settings=lambda: Settings(config, lambda: config, lambda _: None, {}))
    async with app.run_test(size=(80, 24)) as pilot:
        t = Driven(app, pilot)
        await t.rests()
        assert app.controller.session is not None
        for place in list_memory_files(config):
            await t.type("# tests run with tox", lists="remember")
            await pilot.press(
                *([] if place == list_memory_files(config)[0] else ["down"] * list_memory_files(config).index(place)),
                "enter",
            )
            await t.rests()
            assert place.path.read_text() == "- tests run with tox\n"
        message = app.controller.session.history.messages[0]
        assert message == User((Note("[The user wants you to remember from now on:\n- tests run with tox]"),))
        await t.type("# no, with nox", lists="remember")
        await pilot.press("enter")
        await t.rests()
        await t.says("/undo", shows="removed from")
        assert list_memory_files(config)[0].path.read_text() == "- tests run with tox\n"
        message = app.controller.session.history.messages[-1]
        assert message == User((Note("[The user no longer wants you to remember:\n- no, with nox]"),))
        await t.type("/undo", shows="nothing to undo")
        await t.type("# never mind", lists="remember")
        await pilot.press("escape")
        await t.rests()
        assert t.prompt.text == "# never mind"
