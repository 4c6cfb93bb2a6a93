"""Several changes of a file in one `edit` call: all of them are made, in order, or none."""

import pytest

from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.edit import Edit
from ebbtide.tools.read import Read


async def test_several_changes_are_made_together(workspace: Workspace) -> None:
    path = workspace.root / "a.py"
    path.write_bytes(b"one = 1\r\ntwo = 2\r\nthree = 3\r\nfour = 1\r\n")
    await Read().run({"path": "a.py"}, workspace)
    edits = [
        {"old": "one = 1", "new": "uno = 1"},
        {"old": "uno = 1\ntwo", "new": "uno = 1\n# second\ntwo"},  # of what the first has left
        {"old": "= 1", "new": "= 10", "replace_all": True},
    ]
    preview = Edit().preview({"path": "a.py", "edits": edits}, workspace)
    result = await Edit().run({"path": "a.py", "edits": edits}, workspace)
    assert path.read_bytes() == b"uno = 10\r\n# second\r\ntwo = 2\r\nthree = 3\r\nfour = 10\r\n"
    assert result.text == "edited `a.py` in 4 places"
    assert (result.changed_files, len(result.file_changes)) == ((path,), 1)
    assert [line for line in preview.split("\n")[3:] if line[0] in "+-"] == [
        *("-one = 1", "+uno = 10", "+# second", "-four = 1", "+four = 10")
    ]


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            [{"old": "one", "new": "uno"}, {"old": "nowhere", "new": "x"}],
            "no change was made: change 2 of 2: `old` is not in `a`, and no lines are similar: read the file again",
        ),
        (
            [{"old": "one", "new": "uno"}, {"old": "two", "new": "two"}],
            "no change was made: change 2 of 2: `old` and `new` are identical: nothing would change; write the new "
            "text into `new`",
        ),
        (
            [{"old": "one", "new": "uno"}, {"old": "", "new": "x"}],
            "no change was made: change 2 of 2: `old` is empty: say which text to replace, or use write for the "
            "whole file",
        ),
        (
            [{"old": "one", "new": "uno"}, {"old": "uno", "new": "one"}],
            "the file already has this content: nothing would change",
        ),
        ([{"old": "one", "new": "uno"}, {"old": "two"}], "`new` is missing"),
        (["one"], "each of `edits` must be an object with `old` and `new`"),
    ],
)
async def test_where_one_cannot_be_made_none_is(edits: list[object], message: str, workspace: Workspace) -> None:
    path = workspace.root / "a"
    path.write_text("one\ntwo\n")
    await Read().run({"path": "a"}, workspace)
    with pytest.raises(ToolError) as caught:
        await Edit().run({"path": "a", "edits": edits}, workspace)
    assert (str(caught.value), path.read_text()) == (message, "one\ntwo\n")


async def test_a_new_file_is_made_by_the_first_of_several(workspace: Workspace) -> None:
    edits = [{"old": "", "new": "one\ntwo\n"}, {"old": "two", "new": "three"}]
    await Edit().run({"path": "new.txt", "edits": edits}, workspace)
    assert (workspace.root / "new.txt").read_text() == "one\nthree\n"


async def test_it_says_which_of_several_differed_from_the_file(workspace: Workspace) -> None:
    (workspace.root / "a.py").write_text("if x:\n\tone()\n\ttwo()\n")
    await Read().run({"path": "a.py"}, workspace)
    edits = [{"old": "if x:", "new": "if y:"}, {"old": "    two()\n", "new": "    three()\n"}]
    result = await Edit().run({"path": "a.py", "edits": edits}, workspace)
    assert result.text == (
        "edited `a.py`, lines 1-3; change 2: `old` differed from the file in whitespace. It now reads:\n"
        "1\tif y:\n2\t\tone()\n3\t\tthree()"
    )


async def test_one_change_and_several_are_not_mixed(workspace: Workspace) -> None:
    (workspace.root / "a").write_text("one\n")
    call = {"path": "a", "old": "one", "new": "two", "edits": [{"old": "one", "new": "two"}]}
    with pytest.raises(ToolError, match="give either `edits` or `old` and `new`, not both"):
        await Edit().run(call, workspace)


async def test_a_whole_number_may_be_written_with_a_point(workspace: Workspace) -> None:
    (workspace.root / "a").write_text("one\ntwo\nthree\n")
    page = await Read().run({"path": "a", "offset": 2.0, "limit": 1.0}, workspace)
    assert page.text == "2\ttwo\n(lines 2-2 of 3; go on with offset=3)"
