from pathlib import Path

import pytest

from tools.base import ToolError, Workspace
from tools.paths import display, is_inside, resolve


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
    assert resolve(written, workspace) == workspace.root / meant


def test_an_at_sign_stays_when_a_file_is_called_so(workspace: Workspace) -> None:
    (workspace.root / "@types").write_text("")
    assert resolve("@types", workspace) == workspace.root / "@types"


def test_home_urls_and_links_lead_where_they_lead(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    (workspace.root / "out").symlink_to("/etc")
    found = [resolve(written, workspace) for written in ("~/x", "file:///etc/a%20b", "out/new.txt", "/proc/../etc")]
    assert found == [Path("/somewhere/x"), Path("/etc/a b"), Path("/etc/new.txt"), Path("/etc")]


@pytest.mark.parametrize("written", ["", "a\0b", "file://elsewhere/x", "\ud800"])
def test_what_cannot_be_a_path_is_an_error(written: str, workspace: Workspace) -> None:
    with pytest.raises(ToolError):
        resolve(written, workspace)


def test_inside_is_decided_by_component() -> None:
    assert is_inside(Path("/a/b/c"), Path("/a/b"))
    assert not is_inside(Path("/a/bc"), Path("/a/b"))


def test_a_shown_path_is_one_printable_line(workspace: Workspace) -> None:
    assert display(workspace.root / "a\nb\x1b", workspace.root) == "a\\nb\\x1b"
    assert display(Path("/etc/x"), workspace.root) == "/etc/x"
