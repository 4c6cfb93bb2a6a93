from tui.diffs import DiffLine, counted, diff_lines, diff_of, diff_text
from tui.palette import palette_of
from tui.themes import DARK
from tui.transcript import Call

COLORS = {
    name: str(getattr(DARK, name))
    for name in ("background", "foreground", "primary", "accent", "success", "warning", "error")
}


def test_lines_are_numbered_and_files_named() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -3,3 +3,3 @@ def f():\n a\n-b\n+c\n d\n"
    assert list(diff_lines(diff)) == [
        DiffLine("file", "x.py"),
        DiffLine("hunk", "def f():"),
        DiffLine("kept", " a", 3),
        DiffLine("removed", "-b", 4),
        DiffLine("added", "+c", 4),
        DiffLine("kept", " d", 5),
    ]


def test_no_changed_line_can_pose_as_a_header() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/innocent\n+++ b/innocent\n @@ -0,0 +1 @@\n"
    assert [line.kind for line in diff_lines(diff)] == ["file", "hunk", "removed", "added", "kept"]
    assert counted(diff) == (1, 1)
    assert "+++ b/innocent" in diff_text(diff, palette_of(COLORS)).plain


def test_new_and_deleted_files_say_so() -> None:
    assert next(iter(diff_lines("--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+x"))).text == "n.py (new)"
    assert next(iter(diff_lines("--- a/o.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x"))).text == "o.py (deleted)"


def test_calls_without_a_preview_show_what_their_arguments_change() -> None:
    assert counted(diff_of(Call("1", "edit", {"path": "a", "old": "x\ny", "new": "x\nz\nw"}))) == (2, 1)
    assert counted(diff_of(Call("1", "write", {"path": "a", "content": "x\ny\n"}))) == (2, 0)
    patch = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"
    assert counted(diff_of(Call("1", "apply_patch", {"patch": patch}))) == (1, 1)
    assert diff_of(Call("1", "bash", {"command": "x"})) == ""
    assert diff_of(Call("1", "edit", {"path": 3})) == ""
