"""`/undo`, `/redo` and `/rewind` on the real session, with real files."""

from pathlib import Path

from ebbtide.agent.checkpoints.undo_points import UndoPoint, points_of_lineage, turns_since
from ebbtide.agent.events.permissions import PermissionAsked
from ebbtide.agent.messages import Note, User
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.view.blocks import Call, Notice, TurnTotal
from ebbtide.tui.view.outcomes import call_outcome
from ebbtide.tui.view.turn_total import total_text
from ebbtide.tui.widgets.key_line import KeyLine
from tests.kit.app_pilot import Driven, list_on
from tests.kit.files import write_file
from tests.tui.test_real_session import Reply, calls, working

BEFORE = "def add(a, b):\n    return a - b\n"
COMMAND = "echo '# more' >> calc.py && mkdir made && echo new > made/new.txt"


def told(t: Driven) -> str:
    return next(block.text for block in reversed(t.app.controller.view.blocks) if isinstance(block, Notice))


def shows_diffs(t: Driven, name: str) -> bool:
    return (
        list_on(t.app, name) and isinstance(t.app.screen, PanelScreen) and t.app.screen.panel.min_side_by_side_width > 0
    )


async def changes_files(t: Driven, *answers: Reply) -> None:
    await t.type("go", asks=PermissionAsked)
    await t.press("y", shows="Done.")
    await t.rests()
    total = t.app.controller.view.blocks[-1]
    assert isinstance(total, TurnTotal)
    assert total_text(total).endswith("  2 files +2 −0, `/undo` to revert")


async def agrees(t: Driven, key: str = "enter") -> None:
    """Agrees to what is shown, and waits until it is told that it was done."""
    count = notices(t)
    await t.press(key, until=lambda: notices(t) > count)
    await t.rests()


def notices(t: Driven) -> int:
    return sum(isinstance(block, Notice) for block in t.app.controller.view.blocks)


async def test_a_turn_is_taken_back_and_brought_back(tmp_path: Path) -> None:
    project = tmp_path / "project"
    async with working(tmp_path, calls("bash", command=COMMAND), {"text": "Done."}) as t:
        await changes_files(t)
        await t.type("/undo", lists="undo")
        await t.press("escape")
        await t.rests()
        assert (project / "made" / "new.txt").exists()
        await t.type("/undo", lists="undo")
        await agrees(t)
        assert ((project / "calc.py").read_text(), (project / "made").exists()) == (BEFORE, False)
        assert told(t) == "2 files restored · `/redo` reapplies the changes"
        note = "[The user restored earlier versions of these files; read them again: calc.py, made/new.txt]"
        assert t.session.history.messages[-1] == User((Note(note),))
        await t.type("/undo", shows="all changes are reverted")
        await t.type("/redo", lists="redo")
        await agrees(t)
        assert (project / "made" / "new.txt").read_text() == "new\n"
        assert told(t) == "2 files changed again · `/undo` to revert"
        await t.type("/redo", shows="nothing to redo")


async def test_an_undone_change_is_not_reported_as_one_from_outside(tmp_path: Path) -> None:
    edit = calls("edit", path="calc.py", old="a - b", new="a + b")
    async with working(tmp_path, calls("read", path="calc.py"), edit, {"text": "Done."}) as t:
        await t.type("go", asks=PermissionAsked)
        await t.press("y", shows="Done.")
        await t.rests()
        session = t.session.id
        await t.type("/undo", lists="undo")
        await agrees(t)
        assert (tmp_path / "project" / "calc.py").read_text() == BEFORE
    async with working(tmp_path, resume=session) as t:
        assert [block for block in t.app.controller.view.blocks if "on disk" in getattr(block, "text", "")] == []


async def test_what_somebody_else_changed_is_asked_about(tmp_path: Path) -> None:
    project = tmp_path / "project"
    async with working(tmp_path, calls("bash", command=COMMAND), {"text": "Done."}) as t:
        await changes_files(t)
        (project / "calc.py").write_text("mine")
        await t.type("/undo", lists="undo")
        await agrees(t)
        assert ((project / "calc.py").read_text(), (project / "made").exists()) == ("mine", False)
        assert told(t) == "1 file restored · `/redo` reapplies the change · left unchanged: calc.py"
        await t.type("/redo", lists="redo")
        await agrees(t)
        await t.type("/undo", lists="undo")
        await agrees(t, "a")
        assert (project / "calc.py").read_text() == BEFORE


async def test_what_is_changed_while_the_list_is_shown_stays(tmp_path: Path) -> None:
    project = tmp_path / "project"
    async with working(tmp_path, calls("bash", command=COMMAND), {"text": "Done."}) as t:
        await changes_files(t)
        await t.type("/undo", lists="undo")
        (project / "calc.py").write_text("mine")
        await t.press("enter", shows="calc.py was changed in the meantime")
        await t.rests()
        assert ((project / "calc.py").read_text(), (project / "made").exists()) == ("mine", True)


async def test_the_conversation_goes_back_with_files_and_files_without_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    async with working(tmp_path, calls("bash", command=COMMAND), {"text": "Done."}) as t:
        await changes_files(t)
        first = t.session.id
        await t.type("/rewind", lists="rewind")
        await t.press("f", until=lambda: shows_diffs(t, "rewind"))
        await agrees(t)
        assert ((project / "calc.py").read_text(), t.session.id) == (BEFORE, first)
        await t.type("/redo", lists="redo")
        await agrees(t)
        await t.type("/rewind", lists="rewind")
        await t.press("b", until=lambda: shows_diffs(t, "rewind"))
        await t.press("enter", until=lambda: (t.prompt.text, (project / "calc.py").read_text()) == ("go", BEFORE))
        await t.rests()
        assert ((project / "calc.py").read_text(), t.session.id != first, t.prompt.text) == (BEFORE, True, "go")


async def test_any_turn_of_the_session_can_be_taken_back(tmp_path: Path) -> None:
    project = tmp_path / "project"
    more: tuple[Reply, ...] = (calls("bash", command="echo b > b"), {"text": "Too."})
    async with working(tmp_path, calls("bash", command=COMMAND), {"text": "Done."}, *more) as t:
        await changes_files(t)
        await t.type("again", asks=PermissionAsked)
        await t.press("y", shows="Too.")
        await t.rests()
        await t.type("/undo list", lists="undo")
        await t.press("down", until=lambda: "+# more" in t.reads("said"))
        await t.press("enter", until=lambda: shows_diffs(t, "undo"))
        await agrees(t)
        assert ((project / "calc.py").read_text(), (project / "b").read_text()) == (BEFORE, "b\n")


async def test_a_fork_takes_back_what_its_parent_did_up_to_there(tmp_path: Path) -> None:
    project = tmp_path / "project"
    async with working(tmp_path, calls("bash", command=COMMAND), {"text": "Done."}) as t:
        await changes_files(t)
        parent = t.session.id
        await t.type("/fork", until=lambda: t.app.controller.session is not None and t.session.id != parent)
        await t.rests()
        await t.type("/undo", lists="undo")
        await agrees(t)
        assert ((project / "calc.py").read_text(), (project / "made").exists()) == (BEFORE, False)
        await t.type("/undo", shows="nothing to undo")
        await t.type("/redo", lists="redo")
        await agrees(t)
        assert (project / "made" / "new.txt").read_text() == "new\n"


def test_what_the_parent_did_since_then_is_not_the_forks() -> None:
    points = tuple(
        UndoPoint(number, session, position, 0.0, "turn", False, "")
        for number, (session, position) in enumerate((("a", 0), ("b", 1), ("a", 4), ("b", 4), ("c", 0), ("a", 3)))
    )
    line = {"c": 1 << 62, "b": 4, "a": 3}
    assert [point.id for point in points_of_lineage(points, line)] == [0, 1, 4]


def test_a_clock_that_was_set_back_hides_no_turn() -> None:
    points = tuple(
        UndoPoint(number, session, position, at, "turn", False, "")
        for number, (session, position, at) in enumerate((("a", 0, 9.0), ("a", 2, 5.0), ("a", 4, 6.0), ("b", 0, 4.0)))
    )
    assert [point.id for point in turns_since(points, ("a", "b"), 5.0, "a", 2)] == [1, 2, 3]
    assert [point.id for point in turns_since(points, ("a", "b"), 9.0, "a", 0)] == [0, 1, 2, 3]


def test_what_a_fork_did_counts_from_where_it_did_it_whatever_its_clock_said() -> None:
    turns = (("b", 0, 8.0), ("a", 0, 9.0), ("b", 2, 9.5), ("b", 4, 2.0), ("a", 4, 3.0), ("b", 6, 1.0), ("c", 0, 7.0))
    points = tuple(
        UndoPoint(number, session, position, at, "turn", False, "")
        for number, (session, position, at) in enumerate(turns)
    )
    assert [point.id for point in turns_since(points, ("a", "b"), 2.0, "a", 4)] == [2, 3, 4, 5]


TWO_CHANGES = calls("edit", path="calc.py", edits=[{"old": "add", "new": "plus"}, {"old": "a - b", "new": "a + b"}])
MIDDLE = "\n".join(f"# {number}" for number in range(9))
SPREAD = BEFORE.replace(":\n", f":\n{MIDDLE}\n")


async def test_a_change_that_is_refused_is_not_made_and_undo_reverts_the_other(tmp_path: Path) -> None:
    async with working(tmp_path, TWO_CHANGES, {"text": "Done."}) as t:
        file = write_file(tmp_path / "project" / "calc.py", SPREAD)
        await t.type("go", asks=PermissionAsked)
        await t.press("c", "down", "space", "enter", shows="Done.")
        await t.rests()
        assert file.read_text() == SPREAD.replace("add", "plus")
        (call,) = (block for block in t.app.controller.view.blocks if isinstance(block, Call))
        assert call_outcome(call, call.diff) == "edited by you  +1 −1"
        answered = t.session.history.messages[2]
        assert isinstance(answered, User)
        (output,) = answered.outputs
        assert "accepted 1 of 2 changes" in output.text
        assert "-    return a - b\n+    return a + b" in output.text
        await t.type("/undo", lists="undo")
        await agrees(t)
        assert file.read_text() == SPREAD


async def test_single_changes_are_reverted_in_the_list_of_files(tmp_path: Path) -> None:
    async with working(tmp_path, TWO_CHANGES, {"text": "Done."}) as t:
        file = write_file(tmp_path / "project" / "calc.py", SPREAD)
        await t.type("go", asks=PermissionAsked)
        await t.press("y", shows="Done.")
        await t.rests()
        screen = await t.opens("/diff")
        await t.press("x", until=lambda: "Revert  calc.py: 2 changes" in t.reads("headline"))
        await t.press("down", "enter", until=lambda: "calc.py: 1 change" in t.reads("headline"))
        assert "reverted, and the model is told" in screen.query_one(KeyLine).text
        assert file.read_text() == SPREAD.replace("add", "plus")
        await t.press("escape")
        await t.rests()
        (note,) = t.session.history.messages[-1].parts
        assert isinstance(note, Note)
        assert note.text.startswith("[The user reverted a change in this file; do not make it again unless asked")
        assert "-    return a + b\n+    return a - b" in note.text
        await t.type("/undo", lists="undo")
        await agrees(t)
        assert file.read_text() == SPREAD.replace("add", "plus").replace("a - b", "a + b")
        await t.type("/undo", lists="undo")
        await t.press("enter", until=lambda: file.read_text() == SPREAD)
        await t.rests()


async def test_a_file_that_changed_since_is_not_overwritten_by_a_revert(tmp_path: Path) -> None:
    async with working(tmp_path, TWO_CHANGES, {"text": "Done."}) as t:
        file = write_file(tmp_path / "project" / "calc.py", SPREAD)
        await t.type("go", asks=PermissionAsked)
        await t.press("y", shows="Done.")
        await t.rests()
        screen = await t.opens("/diff")
        await t.press("x", until=lambda: "2 changes" in t.reads("headline"))
        write_file(file, "mine\n")
        await t.press("enter", until=lambda: "changed while it was being edited" in screen.query_one(KeyLine).text)
        assert file.read_text() == "mine\n"
