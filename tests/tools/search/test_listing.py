"""Folders as `read` lists them."""

import os

import pytest

import ebbtide.tools.search.listing
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.read import Read
from tests.kit.files import write_files


async def test_a_folder_is_listed_without_what_git_ignores(workspace: Workspace) -> None:
    root = workspace.root
    for name in ("src", "build", ".git"):
        (root / name).mkdir()
    (root / ".gitignore").write_text("build/\n*.log\n")
    write_files(root, ("b.py", "a.log", "odd\nname", os.fsdecode(b"\xff")))
    (root / "link").symlink_to("src")
    result = await Read().run({"path": "."}, workspace)
    assert result.text == ".gitignore\nb.py\nlink -> src\nodd\\nname\nsrc/\n\\xff"
    assert result.extent == Extent("entries", 6, 6)
    part = await Read().run({"path": ".", "offset": 2, "limit": 2}, workspace)
    assert part.text == "b.py\nlink -> src\n(entries 2-3 of 6; go on with offset=4)"
    (root / "src" / "x.log").touch()
    (root / "build" / "out.o").touch()
    assert (await Read().run({"path": "build"}, workspace)).text == "out.o"
    assert (await Read().run({"path": "src"}, workspace)).text == "`src` contains only what git ignores"
    (root / "src" / "x.log").unlink()
    assert (await Read().run({"path": "src"}, workspace)).text == "`src` is an empty folder"


async def test_a_folder_with_many_names_is_listed_in_parts(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(350):
        (workspace.root / f"{number:03}").touch()
    text = (await Read().run({"path": "."}, workspace)).text
    assert text.endswith("299\n(entries 1-300 of 350; go on with offset=301)")
    text = (await Read().run({"path": ".", "offset": 301}, workspace)).text
    assert text.endswith("349\n(entries 301-350 of 350)")
    with pytest.raises(ToolError, match=r"`.` has 350 entries: offset=351 is beyond its end"):
        await Read().run({"path": ".", "offset": 351}, workspace)
    monkeypatch.setattr(ebbtide.tools.search.listing, "MAX_SORTED_NAMES", 349)
    with pytest.raises(ToolError, match=r"`.` has more than 349 entries: find names in it with glob"):
        await Read().run({"path": "."}, workspace)
