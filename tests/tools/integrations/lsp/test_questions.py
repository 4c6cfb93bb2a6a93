"""The tools that ask language servers: `symbols` and `diagnostics`."""

from pathlib import Path

import pytest

from ebbtide.tools.base import Result, ToolError, Workspace
from ebbtide.tools.integrations.lsp.diagnostics_tool import Diagnostics
from ebbtide.tools.integrations.lsp.symbols import name_column
from ebbtide.tools.integrations.lsp.symbols_tool import Symbols
from ebbtide.tools.outputs.extent import Extent
from tests.tools.integrations.lsp.conftest import Starts, spec

CODE = "def one\n𝄞 one two\ndef two\n"


@pytest.fixture
def workspace(root: Path, tmp_path: Path) -> Workspace:
    (root / "a.txt").write_text(CODE)
    return Workspace(root, tmp_path / "outputs")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"find": "definition", "line": 2, "name": "one"}, "a.txt:1: def one"),
        ({"find": "references", "line": 2, "name": "two"}, "a.txt:2: 𝄞 one two\na.txt:3: def two"),
        ({"find": "in_file"}, "1: function one\n3: function two"),
        ({"find": "in_project", "name": "tw"}, "a.txt:3: function two"),
        ({"find": "in_project", "name": "none"}, "no symbol matches `none`"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_names_are_found_where_they_stand(
    encoding: str, arguments: dict[str, object], expected: str, start: Starts, workspace: Workspace
) -> None:
    servers = start(spec(f"counts {encoding}"))
    found = await Symbols(lambda: servers).run({"path": "a.txt", **arguments}, workspace)
    count = 0 if expected.startswith("no ") else expected.count("\n") + 1
    assert found == Result(expected, extent=Extent("entries", count, count))


async def test_what_cannot_be_asked_is_said(start: Starts, workspace: Workspace) -> None:
    servers = start(spec("dies at start"))
    tool = Symbols(lambda: servers)
    asked = {"find": "references", "path": "a.txt", "line": 2, "name": "three"}
    with pytest.raises(ToolError, match=r"^`three` is not in line 2 of `a.txt`: give `name` and its `line`$"):
        await tool.run(asked, workspace)
    with pytest.raises(ToolError, match=r"^words: it ended with exit code 1: no such licence; use grep instead$"):
        await tool.run({**asked, "name": "one"}, workspace)
    (workspace.root / "b.md").write_text("one")
    with pytest.raises(
        ToolError, match=r"^no language server for this kind of file can answer this; use grep instead$"
    ):
        await tool.run({"find": "in_file", "path": "b.md"}, workspace)
    with pytest.raises(ToolError, match="has no language servers"):
        await Symbols().run(asked, workspace)


async def test_what_is_wrong_with_a_file_is_listed(start: Starts, workspace: Workspace) -> None:
    servers = start(spec(), spec("dies at start", name="dead"))
    tool = Diagnostics(lambda: servers)
    nothing = Result(
        "no problems in `a.txt`\n(dead: it ended with exit code 1: no such licence)",
        extent=Extent("entries", 0, 0),
    )
    assert await tool.run({"path": "a.txt"}, workspace) == nothing
    (workspace.root / "b.txt").write_text("doubtful\nwrong\n")
    lines = "b.txt:2:1 error: wrong here [words W1]\nb.txt:1:1 warning: doubtful here [words W1]"
    found = await tool.run({"path": "b.txt"}, workspace)
    assert found.text.startswith(f"{lines}\n(dead: ")
    assert await tool.run({}, workspace) == Result(lines, extent=Extent("entries", 2, 2))


def test_a_name_is_meant_where_it_stands_alone() -> None:
    assert [name_column(line, "a") for line in ("ba a", "ba", "(a)", "b", "")] == [3, 1, 1, None, None]
