"""Names that look the same and are written in other characters."""

from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

import pytest

from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.edit import Edit
from ebbtide.tools.files.paths import resolve_existing
from ebbtide.tools.read import Read
from ebbtide.tools.write import Write
from tests.kit.files import write_file, write_files

SCREENSHOT = "Screenshot 2025-01-02 at 3.04.05\u202fPM.txt"


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        (SCREENSHOT, SCREENSHOT.replace("\u202f", " ")),
        ("a\u00a0b.txt", "a b.txt"),
        ("it\u2019s.txt", "it's.txt"),
        ("it's.txt", "it\u2019s.txt"),
        (normalize("NFD", "résumé.txt"), normalize("NFC", "résumé.txt")),
        (normalize("NFC", "résumé.txt"), normalize("NFD", "résumé.txt")),
        ("caf\u00e9/a\u2013b.txt", "cafe\u0301/a-b.txt"),
    ],
)
async def test_a_file_is_found_under_a_name_that_looks_the_same(there: str, asked: str, workspace: Workspace) -> None:
    path = write_file(workspace.root / there, "one\n")
    note = f"(there is no `{asked}`: this is `{there}`, whose name looks the same)"
    assert Read().subjects({"path": asked}, workspace) == (str(path),)  # rules are asked about the file that is opened
    assert (await Read().run({"path": asked}, workspace)).text == f"1\tone\n{note}"
    result = await Edit().run({"path": asked, "old": "one", "new": "two"}, workspace)
    assert (path.read_text(), result.text) == ("two\n", f"edited `{there}`, line 1\n{note}")
    await Write().run({"path": asked, "content": "new\n"}, workspace)  # a new file has the name that is asked for
    assert (path.read_text(), (workspace.root / asked).read_text()) == ("two\n", "new\n")
    assert (await Read().run({"path": asked}, workspace)).text == "1\tnew"


@pytest.mark.parametrize("there", [("a\u00a0b", "a\u202fb"), (), ("A b",)], ids=["several", "none", "in other letters"])
async def test_where_it_is_not_clear_which_is_meant_none_is_opened(there: Sequence[str], workspace: Workspace) -> None:
    write_files(workspace.root, there, "x")
    assert resolve_existing("a b", workspace) == (Path(workspace.root / "a b"), "")
    with pytest.raises(ToolError, match="`a b` does not exist"):
        await Read().run({"path": "a b"}, workspace)
