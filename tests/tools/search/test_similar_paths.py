"""Which files may be meant by a path at which nothing is."""

import pytest

from ebbtide.tools.base import Arguments, Tool, ToolError, Workspace
from ebbtide.tools.edit import Edit
from ebbtide.tools.read import Read
from ebbtide.tools.search.similar_paths import MAX_SCANNED_NAMES, path_suggestion
from tests.kit.files import write_files

IS_IT = {
    "src/app.py": "; did you mean `app.py` or `src/core/app.py`?",
    "core/app.py": "; did you mean `src/core/app.py` or `app.py`?",
    "src/core/apps.py": "; did you mean `src/core/app.py`?",
    "src/core/APP.py": "; did you mean `src/core/app.py` or `app.py`?",
    "lib/App.py": "; did you mean `app.py` or `src/core/app.py`?",
    "lib/apps.py": "; did you mean `app.py` or `src/core/app.py`?",
    "lib/apps.js": "",
    "nothing.txt": "",
    "no/such.txt": "",
    "core": "",
    "app.txt": "; did you mean `app.py`?",
    "old.py": "",
    "out.o": "",
}


@pytest.fixture
def project(workspace: Workspace) -> Workspace:
    root = workspace.root
    (root / "src/core").mkdir(parents=True)
    (root / "build").mkdir()
    write_files(root, ("app.py", "src/core/app.py", "build/out.o"), "x = 1\n")
    (root / ".gitignore").write_text("build\n")
    return workspace


def test_it_is_a_file_of_that_name_or_one_like_it(project: Workspace) -> None:
    assert {name: path_suggestion(project.root / name, project.root) for name in IS_IT} == IS_IT


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Read(), {"path": "/src/core/app.py"}),
        (Edit(), {"path": "/src/core/app.py", "old": "x = 1", "new": "x = 2"}),
    ],
    ids=lambda value: value.name if not isinstance(value, dict) else "",
)
async def test_a_path_that_begins_at_the_wrong_folder_is_answered_with_the_right_one(
    project: Workspace, tool: Tool, arguments: Arguments
) -> None:
    with pytest.raises(ToolError) as caught:
        await tool.run(arguments, project)
    sentence = "`/src/core/app.py` does not exist; did you mean `src/core/app.py` or `app.py`?"
    assert str(caught.value) == sentence


def test_a_workspace_of_any_size_is_looked_at_no_further_than_that(project: Workspace) -> None:
    folder = project.root / "aa"
    folder.mkdir()
    for number in range(MAX_SCANNED_NAMES):
        (folder / f"{number}").touch()
    assert path_suggestion(project.root / "no/app.py", project.root) == "; did you mean `app.py`?"
