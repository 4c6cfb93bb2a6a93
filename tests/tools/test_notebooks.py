"""Notebooks: shown as cells, and changed a cell at a time with every other byte kept."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.tools.base import ReadLimits, ToolError, Workspace
from ebbtide.tools.edit_notebook import EditNotebook
from ebbtide.tools.files.notebook import delete_cell, insert_cell, parse_notebook, replace_cell
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.read import Read

STREAM = {"output_type": "stream", "name": "stdout", "text": [f"line {n}\n" for n in range(40)]}
PICTURE = {
    "output_type": "display_data",
    "metadata": {},
    "data": {"image/png": "iVBORw0KGgo=" * 99, "text/plain": ["<Figure>"]},
}
ERROR = {"output_type": "error", "ename": "E", "evalue": "no", "traceback": ["\x1b[31mE\x1b[0m: no"]}
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "aa", "metadata": {}, "source": ["# Title\n", "Grüße"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "id": "bb",
            "metadata": {"tags": ["x"], "ours": {"b": 1, "a": 1.50}},
            "outputs": [STREAM, PICTURE, ERROR],
            "source": ["import os\n", "os.getcwd()"],
        },
        {"cell_type": "code", "execution_count": None, "id": "cc", "metadata": {}, "outputs": [], "source": []},
    ],
    "metadata": {"language_info": {"name": "python"}, "zzz": {"unknown": True}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def as_written(value: object) -> str:
    """As nbformat writes it."""
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True, separators=(",", ": ")) + "\n"


async def test_a_notebook_is_shown_as_cells_with_long_outputs_by_their_ends(workspace: Workspace) -> None:
    (workspace.root / "a.ipynb").write_text(as_written(NOTEBOOK))
    result = await Read().run({"path": "a.ipynb"}, workspace)
    lines = [f"line {n}" for n in range(40)]
    head = "notebook `a.ipynb`, python, 3 cells\n[cell 1: markdown]\n# Title\nGrüße\n[cell 2: code, ran as [3]]\n"
    head += "import os\nos.getcwd()\n[output]\n"
    rest = "[output]\n<Figure>\n[image image/png, 1 kB]\n[output]\nE: no\n[cell 3: code]"
    cell_output = "\n".join([*lines[:12], "[… 22 lines left out …]", *lines[-6:]])
    assert result.text == f"{head}{cell_output}\n{rest}"
    assert result.full_text == "{}{}\n{}".format(head, "\n".join(lines), rest)
    assert result.extent == Extent("cells", 3, 3)
    part = await Read().run({"path": "a.ipynb", "offset": 3}, workspace)
    assert part.text == "notebook `a.ipynb`, python, 3 cells\n[cell 3: code]\n(cells 3-3 of 3)"
    small = Workspace(workspace.root, workspace.outputs_folder, read_limits=ReadLimits(max_bytes=29))
    part = await Read().run({"path": "a.ipynb"}, small)
    assert part.text.endswith("\n[cell 1: markdown]\n# Title\nGr… [cut]\n(cells 1-1 of 3; go on with offset=2)")
    assert part.full_text is not None
    assert part.full_text.endswith("\n[cell 1: markdown]\n# Title\nGrüße\n(cells 1-1 of 3; go on with offset=2)")
    with pytest.raises(ToolError, match=r"`a.ipynb` has 3 cells: offset=4 is beyond its end"):
        await Read().run({"path": "a.ipynb", "offset": 4}, workspace)


@pytest.mark.parametrize(
    "text", ['{"cells": [', '{"cells": 1}', "[" * 100_000, '{"nbformat": 3, "worksheets": []}', ""]
)
async def test_what_is_no_notebook_is_shown_as_the_text_it_is(text: str, workspace: Workspace) -> None:
    (workspace.root / "a.ipynb").write_text(text)
    result = await Read().run({"path": "a.ipynb"}, workspace)
    assert result.text.startswith(f"1\t{text[:20]}" if text else "`a.ipynb` is empty")
    if text:
        with pytest.raises(ToolError, match=r"`a.ipynb` is not a notebook of format 4: change its text with edit"):
            EditNotebook().preview({"path": "a.ipynb", "action": "delete", "cell": 1}, workspace)


@pytest.mark.parametrize(("cell", "changed"), [("bb", 1), ("2", 1), ("[cell 2]", 1), ("3", 2), ("cell-2", None)])
async def test_a_cell_is_named_by_its_number_or_the_id_in_the_file(
    cell: str, changed: int | None, workspace: Workspace
) -> None:
    """`cell-2` counts from 0 elsewhere, and from 1 here."""
    path = workspace.root / "a.ipynb"
    path.write_text(as_written(NOTEBOOK))
    await Read().run({"path": "a.ipynb"}, workspace)
    wanted = {"path": "a.ipynb", "action": "replace", "cell": cell, "source": "new"}
    if changed is None:
        with pytest.raises(ToolError, match=r"no cell has the id `cell-2`: give its number as `cell`, as `read` shows"):
            await EditNotebook().run(wanted, workspace)
        return
    await EditNotebook().run(wanted, workspace)
    assert [cell["source"] == ["new"] for cell in json.loads(path.read_text())["cells"]].index(True) == changed


async def test_a_changed_cell_is_as_nbformat_would_write_it(workspace: Workspace) -> None:
    path = workspace.root / "a.ipynb"
    path.write_text(as_written(NOTEBOOK))
    await Read().run({"path": "a.ipynb"}, workspace)

    async def edit(**arguments: object) -> str:
        return (await EditNotebook().run({"path": "a.ipynb", **arguments}, workspace)).text

    assert await edit(action="replace", cell=2, source="x = 1\ny = 'é'\n") == (
        "replaced cell 2 of `a.ipynb`, which has 3 now"
    )
    assert await edit(action="insert", cell=0, source="# New", type="markdown") == (
        "inserted cell 1 into `a.ipynb`, which has 4 now"
    )
    assert await edit(action="insert", cell=4, source="end") == "inserted cell 5 into `a.ipynb`, which has 5 now"
    assert await edit(action="replace", cell=2, source="plain", type="raw") == (
        "replaced cell 2 of `a.ipynb`, which has 5 now"
    )
    assert await edit(action="delete", cell=4) == "deleted cell 4 of `a.ipynb`, which has 4 now"
    made = json.loads(path.read_text())
    first, second, third, fourth = made["cells"]
    assert first == {"cell_type": "markdown", "id": first["id"], "metadata": {}, "source": ["# New"]}
    assert second == {"cell_type": "raw", "id": "aa", "metadata": {}, "source": ["plain"]}
    before = NOTEBOOK["cells"][1]  # type: ignore[index]  # a dict of several types
    assert third == {**before, "execution_count": None, "outputs": [], "source": ["x = 1\n", "y = 'é'\n"]}
    code: dict[str, object] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    assert fourth == {**code, "id": fourth["id"], "source": ["end"]}
    assert path.read_text() == as_written(made)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action": "delete", "cell": 9}, "`a.ipynb`: there is no cell 9: it has 3 cells"),
        ({"action": "replace", "cell": 0, "source": ""}, "`a.ipynb`: there is no cell 0: it has 3 cells"),
        ({"action": "insert", "cell": 1}, "`a.ipynb`: `source` is missing: give the whole text of the cell"),
        (
            {"action": "replace", "cell": 1, "source": "# Title\nGrüße"},
            "cell 1 of `a.ipynb` already has exactly this content: nothing would change",
        ),
        (
            {"action": "replace", "cell": 1, "source": "\ud800"},
            "`a.ipynb`: the source contains half a surrogate pair: write the whole character",
        ),
    ],
)
async def test_a_change_that_cannot_be_made_is_explained(
    arguments: dict[str, object], message: str, workspace: Workspace
) -> None:
    (workspace.root / "a.ipynb").write_text(as_written(NOTEBOOK))
    call = {"path": "a.ipynb", **arguments}
    with pytest.raises(ToolError, match=r"`a.ipynb` was not read in this session: first call `read` with"):
        await EditNotebook().run(call, workspace)
    await Read().run({"path": "a.ipynb"}, workspace)
    with pytest.raises(ToolError) as caught:
        await EditNotebook().run(call, workspace)
    assert str(caught.value) == message


async def test_what_a_change_would_do_is_shown_before_and_is_what_it_does(workspace: Workspace) -> None:
    path = workspace.root / "a.ipynb"
    path.write_text(as_written(NOTEBOOK))
    await Read().run({"path": "a.ipynb"}, workspace)
    call = {"path": "a.ipynb", "action": "insert", "cell": 3, "source": "x"}
    preview = EditNotebook().preview(call, workspace)
    await EditNotebook().run(call, workspace)
    new_id = json.loads(path.read_text())["cells"][3]["id"]
    assert f'+   "id": "{new_id}",' in preview.split("\n")
    assert [line for line in preview.split("\n")[2:] if line[0] == "-"] == []


LAYOUTS = st.sampled_from([{"indent": 1}, {"indent": 4}, {"indent": "\t"}, {}, {"separators": (",", ":")}])
SOURCES = st.text(st.sampled_from('ab\n"\\é☃\u2028{}[],:'), max_size=12)


@settings(max_examples=60)
@given(LAYOUTS, st.booleans(), st.sampled_from(["\n", "\r\n"]), st.lists(SOURCES, max_size=4), SOURCES, st.data())
def test_a_change_keeps_every_byte_outside_its_cell(
    layout: dict[str, object], is_ascii: bool, newline: str, sources: list[str], new: str, data: st.DataObject
) -> None:
    cells = [{"metadata": {"n": 1.50, "é": "☃"}, "source": each, "cell_type": "markdown"} for each in sources]
    value = {"nbformat_minor": 4, "z": 1e2, "cells": cells, "nbformat": 4, "metadata": {"a": []}}
    text = json.dumps(value, ensure_ascii=is_ascii, **layout).replace("\n", newline) + newline  # type: ignore[arg-type]  # any layout
    notebook = parse_notebook(text.encode())
    assert notebook is not None
    place = data.draw(st.integers(0, len(cells)))
    made = insert_cell(notebook, place, new, "raw")
    assert [cell.source for cell in made.cells] == [*sources[:place], new, *sources[place:]]
    assert {**json.loads(made.text), "cells": 0} == {**value, "cells": 0}
    before, after = notebook.text[: notebook.cells_span.start], notebook.text[notebook.cells_span.end :]
    assert made.text.startswith(before)
    assert made.text.endswith(after)
    back = delete_cell(made, place + 1)
    assert back.text == notebook.text or not cells
    if cells:
        number = max(place, 1)
        span = notebook.cells[number - 1].span
        changed = replace_cell(notebook, number, new, None)
        assert [cell.source for cell in changed.cells] == [*sources[: number - 1], new, *sources[number:]]
        assert changed.text.startswith(notebook.text[: span.start])
        assert changed.text.endswith(notebook.text[span.end :])
        assert replace_cell(changed, number, sources[number - 1], None).text == notebook.text
