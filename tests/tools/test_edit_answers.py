"""What edit and apply_patch answer to a call that they do not make, and the call that the answer leads to."""

import re

import pytest

from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.edit import Edit
from tests.kit.files import write_file

LOOP = "for x in y:\n    if x:\n        return 1\n    return 1\n"


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"])


EDITS = [
    # the file, `old` and `new`; the answer; `old` and `new` of the next call; the file after it
    ("a\nb\na\n", ("a", "c"),
     "`old` is in `f` 2 times, at lines 1, 3: add lines around it until it is unique, or set `replace_all`",
     ("b\na", "b\nc"), "a\nb\nc\n"),
    (LOOP, ("for x in y:\nif x:\nreturn 1\nreturn 1", "for x in y:\nif x:\nreturn 1"),
     "`old` is at line 1 of `f` with other indentation, so it is unclear how far 'return 1' of `new` should be "
     "indented: write `old` and `new` with the file's indentation:\n1\tfor x in y:\n2\t    if x:\n"
     "3\t        return 1\n4\t    return 1",
     ("        return 1\n    return 1", "        return 1"), "for x in y:\n    if x:\n        return 1\n"),
    ("def f(a, b):\n    return a + b\n", ("return a - b", "return a + b"),
     "`old` is not in `f`, but `new` is, at line 2: this change is already made, so continue",
     ("return a + b", "return b + a"), "def f(a, b):\n    return b + a\n"),
    ("a = 1\nb = 2\n", ("1\ta = 1\n2\tb = 2", "1\ta = 1\nb = 3"),
     "`old` is at line 1 of `f` without its line numbers, but it is unclear which of those in `new` are meant: write "
     "both texts without them",
     ("b = 2", "b = 3"), "a = 1\nb = 3\n"),
    ("a = 1\n", ("1\ta = 1", "2\ta = 1"),
     "`old` and `new` are identical without their line numbers: nothing would change", ("a = 1", "a = 2"), "a = 2\n"),
    ("def f():\n    pass\n", ("def f():\n    pass", "# ... existing code ...\n\ndef g():\n    pass"),
     "`new` has '# ... existing code ...' for lines that it omits: write them out, or replace less of the file",
     ("    pass", "    return"), "def f():\n    return\n"),
    ("a = 1\n", ("a = 2", "b"), "`old` is not in `f`; the closest lines are 1-1:\n1\ta = 1", ("a = 1", "b"), "b\n"),
    ("def f():\n    a()\n    b()\n", ("def f():\n    ...\n    b()", "def g():\n    b()"),
     "`old` is not in `f`; the closest lines are 1-3:\n1\tdef f():\n2\t    a()\n3\t    b()",
     ("def f():\n    a()", "def g():"), "def g():\n    b()\n"),
    ("a\n", ("", "b"), "`old` is empty: say which text to replace, or use write for the whole file",
     ("a", "b"), "b\n"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "call", "answer", "following", "after"), EDITS)
async def test_an_edit_that_is_refused_leads_to_one_that_is_made(
    before: str, call: tuple[str, str], answer: str, following: tuple[str, str], after: str, workspace: Workspace
) -> None:
    path = workspace.root / "f"
    path.write_text(before)
    workspace.seen_files.record_content(path, path.read_bytes())
    with pytest.raises(ToolError) as caught:
        await Edit().run({"path": "f", "old": call[0], "new": call[1]}, workspace)
    assert (str(caught.value), path.read_text()) == (answer, before)
    await Edit().run({"path": "f", "old": following[0], "new": following[1]}, workspace)
    assert path.read_text() == after


PATCHES = [
    ("a\nb\na\n", patch("@@", "-a", "+c"),
     "hunk 1 of `f` fits at lines 1, 3: add context, or `@@` with a line above the right place",
     patch("@@ b", "-a", "+c"), "a\nb\nc\n"),
    ("class A:\n    x = 1\n\nclass B:\n    x = 1\n    x = 1\n", patch("@@ class B:", "-    x = 1", "+    x = 2"),
     "hunk 1 of `f` fits at lines 5, 6: add context, or `@@` with a line above the right place",
     patch("@@ class B:", "     x = 1", "-    x = 1", "+    x = 2"),
     "class A:\n    x = 1\n\nclass B:\n    x = 1\n    x = 2\n"),
    (LOOP, patch("@@", " for x in y:", " if x:", " return 1", "+y()",
                 " return 1"),
     "hunk 1 of `f` fits at line 1 with other indentation, which does not tell how far 'y()' should be indented: write "
     "the lines as the file has them:\nfor x in y:\n    if x:\n        return 1\n    return 1",
     patch("@@", "         return 1", "+        y()"),
     "for x in y:\n    if x:\n        return 1\n        y()\n    return 1\n"),
    ("a\nb\n", patch("@@", "-a", "+c", "@@", "-a", "+d"),
     "hunk 2 of `f`: its lines are not in the file; closest is, from line 1:\na", patch("-a", "+d"), "d\nb\n"),
    ("a\n", "--- a/f\n+++ b/f\n-a\n+b\n", "the first line must be `*** Begin Patch`", patch("-a", "+b"), "b\n"),
    ("a\n", patch("-a", "+b").replace("\n", "\\n"),
     "its newlines are written as `\\n`: send the patch with real newlines", patch("-a", "+b"), "b\n"),
    ("a\n", "f\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE",
     "SEARCH/REPLACE blocks are not a patch: call `edit` with the first as `old` and the second as `new`",
     patch("-a", "+b"), "b\n"),
    ("a\n", patch("@@", "-a", "+b").replace("\n*** End Patch", ""),
     "the last line must be `*** End Patch`: the patch may have been cut off", patch("-a", "+b"), "b\n"),
    ("a\n", patch("-a", "+b").replace("f\n", "g\n"),
     "`g` does not exist: use `*** Add File:`, or correct the path", patch("-a", "+b"), "b\n"),
    ("a\n", patch("-a", "+a"), "the files already have this content", patch("-a", "+b"), "b\n"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "call", "answer", "following", "after"), PATCHES)
async def test_a_patch_that_is_refused_leads_to_one_that_is_made(
    before: str, call: str, answer: str, following: str, after: str, workspace: Workspace
) -> None:
    path = workspace.root / "f"
    path.write_text(before)
    workspace.seen_files.record_content(path, path.read_bytes())
    with pytest.raises(ToolError) as caught:
        await ApplyPatch().run({"patch": call}, workspace)
    assert (str(caught.value), path.read_text()) == (f"no file was changed: {answer}", before)
    await ApplyPatch().run({"patch": following}, workspace)
    assert path.read_text() == after


UNDERSTOOD = [
    (
        "markers and headers that are indented",
        "  *** Begin Patch\n  *** Update File: f\n  @@\n  -a\n  +b\n  *** End Patch",
    ),
    ("markers that are closed", patch("-a", "+b").replace(" Patch", " Patch ***")),
    ("an end that is indented", "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n  *** End Patch"),
    ("a header that is indented", "*** Begin Patch\n  *** Update File: f\n@@\n-a\n+b\n*** End Patch"),
    ("a fence", "```patch\n" + patch("-a", "+b") + "\n```"),
    ("a here-document", "apply_patch <<'EOF'\n" + patch("-a", "+b") + "\nEOF"),
    ("names as in a diff", patch("--- a/f", "+++ b/f", "@@ -1 +1 @@", "-a", "+b")),
    ("a unified diff", "diff --git a/f b/f\nindex 123..456 100644\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n z\n"),
    ("a unified diff in a fence", "```diff\n--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n```\n"),
    ("a remark on the last line end", patch("@@", "-a", "\\ No newline at end of file", "+b")),
    ("lone carriage returns", patch("-a", "+b").replace("\n", "\r")),
    ("line ends of Windows", patch("-a", "+b").replace("\n", "\r\n")),
    ("two sections for one file", patch("-a", "+c", "*** Update File: f", "-c", "+b")),
    ("two patches", patch("-a", "+c") + "\n" + patch("-c", "+b")),
    ("no first line", patch("-a", "+b").removeprefix("*** Begin Patch\n")),
    ("a file deleted and added", "*** Begin Patch\n*** Delete File: f\n*** Add File: f\n+b\n+z\n*** End Patch"),
]


@pytest.mark.parametrize("written", [text for _, text in UNDERSTOOD], ids=[name for name, _ in UNDERSTOOD])
async def test_a_patch_is_understood_however_it_is_wrapped(written: str, workspace: Workspace) -> None:
    path = workspace.root / "f"
    path.write_text("a\nz\n")
    await ApplyPatch().run({"patch": written}, workspace)
    assert path.read_text() == "b\nz\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after", "remark"),
    [
        ("a = 1\nb = 2\n", "2\tb = 2", "2\tb = 3", "a = 1\nb = 3\n", "`old` had line numbers that the file lacks"),
        ("a = 1\nb = 2\n", "     1→a = 1\n     2→b = 2", "a = 1\nb = 3", "a = 1\nb = 3\n",
         "`old` had line numbers that the file lacks"),
        ('say("a")\n', 'say(\\"a\\")', 'say(\\"b\\")', 'say("b")\n', "`old` had escapes that the file lacks"),
        ('a\nb("it\'s")\n', 'a\\nb("it\'s")', 'b("it\'s")\\na', 'b("it\'s")\na\n',
         "`old` had escapes that the file lacks"),
        ("f(\n    a)\n", "f(\n", "g(", "g(    a)\n",
         "`old` ends with a newline and `new` does not, so two lines were joined"),
        ("if a:\n    b()\nc()\n", "b()\n", "", "if a:\n    c()\n",
         "`old` ends with a newline and `new` does not, so two lines were joined"),
        ("def f(:\n    print('up')\n", "def f(:", "def f():\n    print('up')",
         "def f():\n    print('up')\n    print('up')\n",
         "`new` ends with \"print('up')\", which already followed `old`, so it is now duplicated"),
        ("y = log(x, 1)\n", "log(x", "log(x, 1", "y = log(x, 1, 1)\n",
         "the file already had `new` there, so what it adds is now duplicated"),
        ("a\nb\n", "a\\nb", "a\\nc", "a\nc\n", "`old` had escapes that the file lacks"),
        (LOOP, "if x:\n    return 1\nreturn 1", "if x:\n    return 1\nreturn 2", LOOP[:-2] + "2\n",
         "`old` differed from the file in whitespace"),
        ("“a” – b\n", '"a" - b', '"a" - c', "“a” – c\n", "`old` differed from the file in typographic punctuation"),
    ],
)  # fmt: skip
async def test_an_edit_says_what_it_let_go(
    before: str, old: str, new: str, after: str, remark: str, workspace: Workspace
) -> None:
    path = workspace.root / "f"
    path.write_text(before)
    workspace.seen_files.record_content(path, path.read_bytes())
    result = await Edit().run({"path": "f", "old": old, "new": new}, workspace)
    assert path.read_text() == after
    assert f"; {remark}. It now reads:\n" in result.text


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("def f():\n    import x\n    y = 1\n    return y\n",
         "def f():\n    import x\n    y = 1", "import x\ndef f():\n    y = 1",
         "import x\ndef f():\n    y = 1\n    return y\n"),
        ("  if (a) {\n    return b;\n  }\n", "if (a) {\nreturn b;\n}", "if (c) {\nreturn d;\n}",
         "  if (c) {\n    return d;\n  }\n"),
    ],
    ids=["a line that leaves its block", "lines without indentation, changed one by one"],
)  # fmt: skip
async def test_an_edit_that_moves_or_levels_lines_is_made(
    before: str, old: str, new: str, after: str, workspace: Workspace
) -> None:
    path = workspace.root / "f"
    path.write_text(before)
    workspace.seen_files.record_content(path, path.read_bytes())
    await Edit().run({"path": "f", "old": old, "new": new}, workspace)
    assert path.read_text() == after


FLAT = "with a:\n  with a:\n    b()\n  b()\n"
UNCLEAR = [
    (FLAT, "with a:\nb()\nb()", "with a:\nb()"),
    ("def f():\n  a()\n  b()\n", "def f():\n\t  a()\n\t  b()", "b()"),
]


@pytest.mark.parametrize(("before", "old", "new"), UNCLEAR)
async def test_what_leaves_open_how_lines_are_indented_is_refused(
    before: str, old: str, new: str, workspace: Workspace
) -> None:
    path = workspace.root / "f"
    path.write_text(before)
    workspace.seen_files.record_content(path, path.read_bytes())
    with pytest.raises(ToolError):
        await Edit().run({"path": "f", "old": old, "new": new}, workspace)
    assert path.read_text() == before


async def test_a_patch_that_does_not_tell_alike_lines_apart_is_refused(workspace: Workspace) -> None:
    path = workspace.root / "f"
    path.write_text(FLAT)
    workspace.seen_files.record_content(path, path.read_bytes())
    with pytest.raises(ToolError, match="does not tell how far 'b\\(\\)' should be indented"):
        await ApplyPatch().run({"patch": patch("@@", " with a:", " b()", "-b()")}, workspace)
    assert path.read_text() == FLAT


async def test_a_patch_is_indented_as_the_file_is_and_says_so(workspace: Workspace) -> None:
    path = workspace.root / "f"
    path.write_text("class A:\n    def f(self):\n        a()\n        b()\n")
    workspace.seen_files.record_content(path, path.read_bytes())
    result = await ApplyPatch().run({"patch": patch("@@", " a()", "-b()", "+if x:", "+    c()")}, workspace)
    assert path.read_text() == "class A:\n    def f(self):\n        a()\n        if x:\n            c()\n"
    assert result.text == (
        "updated `f`; 1 hunk differed from the file in whitespace. It now reads:\n"
        "3\t        a()\n4\t        if x:\n5\t            c()"
    )


async def test_what_is_exact_and_unique_needs_no_look_before(workspace: Workspace) -> None:
    path = workspace.root / "f"
    path.write_text("if a:\n    b()\n")
    loose = {"path": "f", "old": "if a:\n  b()", "new": "if a:\n  c()"}
    with pytest.raises(ToolError) as caught:
        await Edit().run(loose, workspace)
    call = 'first call `read` with path="f"'
    assert str(caught.value) == f"`old` is not exactly in `f`, which was not read in this session: {call}"
    with pytest.raises(ToolError) as caught:
        await Edit().run({**loose, "old": "secret"}, workspace)
    assert str(caught.value) == f"`old` is not in `f`, which was not read in this session: {call}"
    with pytest.raises(ToolError) as caught:
        await ApplyPatch().run({"patch": patch("@@", "-b()", "+c()")}, workspace)
    assert str(caught.value) == (
        f"no file was changed: hunk 1 of `f` is not exactly in the file, which was not read in this session: {call}"
    )
    await Edit().run({"path": "f", "old": "b()", "new": "c()"}, workspace)
    path.write_text("if a:\n    c()\nd()\n")
    changed = re.escape('`f` changed since you read it: call `read` with path="f" again before you change it')
    with pytest.raises(ToolError, match=changed):
        await Edit().run({"path": "f", "old": "c()", "new": "e()"}, workspace)
    with pytest.raises(ToolError, match=changed):
        await ApplyPatch().run({"patch": patch("@@", "-    c()", "+    e()")}, workspace)
    await Bash().run({"command": "cat f | head -3"}, workspace)
    await ApplyPatch().run({"patch": patch("@@", "-c()", "+e()")}, workspace)
    assert path.read_text() == "if a:\n    e()\nd()\n"


@pytest.mark.parametrize("before", [None, ""])
async def test_an_empty_old_text_fills_a_file_that_holds_nothing(before: str | None, workspace: Workspace) -> None:
    path = workspace.root / "sub/f"
    if before is not None:
        write_file(path, before)
    await Edit().run({"path": "sub/f", "old": "", "new": "a\n"}, workspace)
    assert path.read_text() == "a\n"


async def test_lines_that_stay_keep_their_own_line_ends(workspace: Workspace) -> None:
    path = workspace.root / "f"
    path.write_bytes(b"a\r\nb\nc\r\nd\r\n")
    await Edit().run({"path": "f", "old": "a\nb\nc", "new": "x\nb\ny\nc"}, workspace)
    assert path.read_bytes() == b"x\r\nb\ny\r\nc\r\nd\r\n"
