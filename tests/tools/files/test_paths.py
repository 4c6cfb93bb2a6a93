import os
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.base import Arguments, Tool, ToolError, Workspace
from ebbtide.tools.files.paths import display_path, is_inside, resolve_path
from ebbtide.tools.files.read_write import write_bytes
from ebbtide.tools.glob import Glob
from ebbtide.tools.grep import Grep
from ebbtide.tools.read import Read
from ebbtide.tools.write import Write
from tests.kit.files import write_file, write_files


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a/./../a//b.txt", "a/b.txt"),
        ("@a.txt", "a.txt"),
        ("-e", "-e"),
        ("．．/．．/etc/passwd", "．．/．．/etc/passwd"),
        (".", "."),
    ],
)
def test_a_written_path_is_taken_from_the_working_folder(written: str, meant: str, workspace: Workspace) -> None:
    assert resolve_path(written, workspace) == workspace.root / meant


def test_an_at_sign_stays_when_a_file_is_called_so(workspace: Workspace) -> None:
    (workspace.root / "@types").write_text("")
    assert resolve_path("@types", workspace) == workspace.root / "@types"


def test_home_urls_and_links_lead_where_they_lead(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    (workspace.root / "out").symlink_to("/etc")
    found = [
        resolve_path(written, workspace) for written in ("~/x", "file:///etc/a%20b", "out/new.txt", "/proc/../etc")
    ]
    assert found == [Path("/somewhere/x"), Path("/etc/a b"), Path("/etc/new.txt"), Path("/etc")]


@pytest.mark.parametrize("written", ["", "a\0b", "file://elsewhere/x", "\ud800"])
def test_what_cannot_be_a_path_is_an_error(written: str, workspace: Workspace) -> None:
    with pytest.raises(ToolError):
        resolve_path(written, workspace)


def test_inside_is_decided_by_component() -> None:
    assert is_inside(Path("/a/b/c"), Path("/a/b"))
    assert not is_inside(Path("/a/bc"), Path("/a/b"))


def test_a_shown_path_is_one_printable_line(workspace: Workspace) -> None:
    assert display_path(workspace.root / "a\nb\x1b", workspace.root) == "a\\nb\\x1b"
    assert display_path(Path("/etc/x"), workspace.root) == "/etc/x"


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/1/mem", "/proc/self", "/proc", "/dev/fd/0", "/dev/mem"])
def test_what_belongs_to_a_process_is_nobodys_to_use(path: str, workspace: Workspace) -> None:
    for written in (path, f"file://{path}", f"../../../../../../../..{path}"):
        with pytest.raises(ToolError, match=r"belongs to a running process|is not where"):
            resolve_path(written, replace(workspace, granted_paths=frozenset()))


def test_links_of_a_process_lead_where_they_lead(workspace: Workspace) -> None:
    assert resolve_path("/proc/self/root/etc", workspace) == Path("/etc")


CALLS: list[tuple[Tool, Arguments]] = [
    (Write(), {"path": "d/new", "content": "x"}),
    (Write(), {"path": "d/deeper/new", "content": "x"}),
    (ApplyPatch(), {"patch": "*** Begin Patch\n*** Add File: d/new\n+x\n*** End Patch"}),
    (ApplyPatch(), {"patch": "*** Begin Patch\n*** Update File: a\n*** Move to: d/new\n@@\n-a\n+b\n*** End Patch"}),
    (ApplyPatch(), {"patch": "*** Begin Patch\n*** Delete File: d/old\n*** End Patch"}),
    (Read(), {"path": "d/old"}),
    (Grep(), {"path": "d", "pattern": "secret"}),
    (Glob(), {"path": "d", "pattern": "*"}),
    (Glob(), {"pattern": "d/*"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_link_put_in_the_way_after_the_decision_leads_nowhere(
    tool: Tool, arguments: Arguments, workspace: Workspace
) -> None:
    outside = workspace.root.parent / "outside"
    for folder in (outside, workspace.root / "d"):
        write_file(folder / "old", "secret\n")
    (workspace.root / "a").write_text("a\n")
    allowed = replace(workspace, granted_paths=frozenset(tool.subjects(arguments, workspace)))
    os.rename(workspace.root / "d", workspace.root / "before")
    (workspace.root / "d").symlink_to(outside)
    with pytest.raises(ToolError, match="is not where the path led"):
        await tool.run(arguments, allowed)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("old", "secret\n")]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_what_was_allowed_can_be_done(tool: Tool, arguments: Arguments, workspace: Workspace) -> None:
    write_files(workspace.root, {"d/old": "secret\n", "a": "a\n"})
    allowed = replace(workspace, granted_paths=frozenset(tool.subjects(arguments, workspace)))
    assert not (await tool.run(arguments, allowed)).has_failed


async def test_writing_to_one_name_of_a_file_keeps_its_other_name_the_same_file(workspace: Workspace) -> None:
    other = workspace.root.parent / "other"
    other.write_text("")
    os.link(other, workspace.root / "inside")
    await Write().run({"path": "inside", "content": "x"}, workspace)
    assert (other.read_text(), other.samefile(workspace.root / "inside")) == ("x", True)


@pytest.mark.parametrize("name", ["src/.git/../../x", "link/../x", "a\nb", "d/", "./d//new"])
def test_what_is_decided_is_what_is_opened(name: str, workspace: Workspace) -> None:
    (workspace.root / "d").mkdir()
    (workspace.root / "link").symlink_to("/usr/lib")
    decided = resolve_path(name, workspace)
    assert decided == resolve_path(str(decided), workspace)
    assert decided == Path(os.path.realpath(workspace.root / name))


async def test_a_file_that_is_gone_at_once_was_written_all_the_same(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_lose(path: Path, content: bytes, mode: int | None = None) -> None:
        write_bytes(path, content, mode)
        path.unlink()

    monkeypatch.setattr("ebbtide.tools.files.change.write_bytes", write_and_lose)
    assert not (await Write().run({"path": "a", "content": "x"}, workspace)).has_failed
