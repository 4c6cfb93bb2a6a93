"""write, edit and apply_patch on real files."""

import asyncio
import os
import resource
import struct
from pathlib import Path

import pytest

from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.base import AppliedChange, Arguments, Result, Tool, ToolError, Workspace
from ebbtide.tools.edit import Edit
from ebbtide.tools.read import Read
from ebbtide.tools.write import Write
from tests.kit.files import write_files


async def said(tool: Tool, arguments: Arguments, workspace: Workspace) -> str:
    with pytest.raises(ToolError) as caught:
        await tool.run(arguments, workspace)
    return str(caught.value)


async def seen(workspace: Workspace, name: str, content: bytes) -> Path:
    path = workspace.root / name
    path.write_bytes(content)
    await Read().run({"path": name}, workspace)
    return path


async def test_write_creates_a_file_with_its_folders(workspace: Workspace) -> None:
    result = await Write().run({"path": "a/b/c.txt", "content": "one\ntwo"}, workspace)
    path = workspace.root / "a/b/c.txt"
    made = (AppliedChange(path, None, b"one\ntwo"),)
    expected = Result("created `a/b/c.txt`: 2 lines", changed_files=(path,), file_changes=made)
    assert (result, path.read_text()) == (expected, "one\ntwo")
    assert workspace.seen_files.is_current(path, b"one\ntwo")


async def test_write_keeps_mode_and_manner_of_an_existing_file(workspace: Workspace) -> None:
    path = await seen(workspace, "a.sh", b"\xef\xbb\xbfone\r\ntwo\r\n")
    path.chmod(0o755)
    result = await Write().run({"path": "a.sh", "content": "three\nfour\n"}, workspace)
    assert path.read_bytes() == b"\xef\xbb\xbfthree\r\nfour\r\n"
    assert path.stat().st_mode & 0o777 == 0o755
    assert result.text == "overwrote `a.sh`: 2 lines, with CRLF line endings as before"


async def test_a_link_is_followed_and_stays_a_link(workspace: Workspace) -> None:
    path = await seen(workspace, "real.txt", b"old")
    (workspace.root / "link.txt").symlink_to("real.txt")
    await Write().run({"path": "link.txt", "content": "new"}, workspace)
    assert (path.read_text(), (workspace.root / "link.txt").is_symlink()) == ("new", True)


async def test_a_file_must_be_known_before_it_is_changed(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("one")
    edit = {"path": "a.txt", "old": "one", "new": "two"}
    unread = '`a.txt` was not read in this session: first call `read` with path="a.txt"'
    assert await said(Write(), {"path": "a.txt", "content": "x"}, workspace) == unread
    await seen(workspace, "a.txt", b"one")
    (workspace.root / "a.txt").write_text("one more")
    changed = '`a.txt` changed since you read it: call `read` with path="a.txt" again before you change it'
    assert await said(Edit(), edit, workspace) == changed
    assert (workspace.root / "a.txt").read_text() == "one more"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc", "a\nb", "x\ny", b"x\r\ny\r\nc"),
        (b"a\nb\r\nc\n", "c", "d\ne", b"a\nb\r\nd\ne\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"caf\xe9 \xfc\n", "café", "thé", b"th\xe9 \xfc\n"),
        (b"gr\xc3\xbc\xc3\x9fe \xff x", "x", "ü", b"gr\xc3\xbc\xc3\x9fe \xff \xc3\xbc"),
        ("\ufeffäb".encode("utf-16-le"), "b", "ö", "\ufeffäö".encode("utf-16-le")),
        ("\ufeffäb\r\nc".encode("utf-32-le"), "b\nc", "ö\n\U0001f600", "\ufeffäö\r\n\U0001f600".encode("utf-32-le")),
        ("\ufeffäb".encode("utf-32-be"), "b", "", "\ufeffä".encode("utf-32-be")),
        (b"a\\d+$1", "\\d+$1", "\\1$&\\n", b"a\\1$&\\n"),
        (b"a\rb\r", "b", "c", b"a\rc\r"),
        (b"if a:\n\tb()\nc()\n", "\tb()\n", "", b"if a:\nc()\n"),
        (
            b"def f():\n    x = 1\n    \n    y = 2\n",
            "    x = 1\n    \n",
            "    x = 1\n",
            b"def f():\n    x = 1\n    y = 2\n",
        ),
        (b"a:\r\n  - b\r\n  \r\n  - c\r\n", "  - b\n  \n", "  - b\n", b"a:\r\n  - b\r\n  - c\r\n"),
        (b"a\n\tb\n\t\n\tc\n", "\tb\n\t\n", "\tb\n", b"a\n\tb\n\tc\n"),
        (b"if a:\n\tb()\n\nc()\n", "2\tb()\n3\t", "", b"if a:\nc()\n"),
        (b"\na()\n", "1\t\n2\ta()", "1\t", b"\n"),
    ],
)
async def test_an_edit_changes_nothing_else(
    before: bytes, old: str, new: str, after: bytes, workspace: Workspace
) -> None:
    path = await seen(workspace, "f", before)
    await Edit().run({"path": "f", "old": old, "new": new}, workspace)
    assert path.read_bytes() == after


async def test_an_edit_that_cannot_be_made_says_why(workspace: Workspace) -> None:
    await seen(workspace, "f", b"one\ntwo(a)\none\n")
    await seen(workspace, "l", b"caf\xe9")

    async def why(path: str, old: str, new: str) -> str:
        return await said(Edit(), {"path": path, "old": old, "new": new}, workspace)

    assert [
        await why("f", "one", "two"),
        await why("f", "two(b)", "x"),
        await why("f", "one", "one"),
        await why("f", "", "x"),
        await why("no", "a", "b"),
        await why("l", "café", "日本"),
    ] == [
        "`old` is in `f` 2 times, at lines 1, 3: add lines around it until it is unique, or set `replace_all`",
        "`old` is not in `f`; the closest lines are 2-2:\n2\ttwo(a)",
        "`old` and `new` are identical: nothing would change; write the new text into `new`",
        "`old` is empty: say which text to replace, or use write for the whole file",
        "`no` does not exist: find it with glob, or create it with write",
        "`l` is not in UTF-8, and cp1252 is only a guess: to add '日本', first call `read` with path=\"l\" and "
        'encoding="cp1252", or its actual encoding',
    ]


async def test_a_file_that_is_written_as_it_was_is_told_so(workspace: Workspace) -> None:
    await seen(workspace, "f", b"a\r\nb\r\n")
    written = [await Write().run({"path": "f", "content": text}, workspace) for text in ("a\nb\n", "a\nb", "a\nb\n\n")]
    assert [result.text for result in written] == [
        "`f` already has exactly this content",
        "overwrote `f`: 2 lines, with CRLF line endings as before; only its final newline differs",
        "overwrote `f`: 3 lines, with CRLF line endings as before; only its final newline differs",
    ]


ONE_TO_TWO = "*** Begin Patch\n*** Update File: f\n@@\n-one\n+two\n*** End Patch"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Write(), {"path": "f", "content": "two\n"}),
        (Edit(), {"path": "f", "old": "one", "new": "two"}),
        (ApplyPatch(), {"patch": ONE_TO_TWO}),
        (ApplyPatch(), {"patch": "*** Begin Patch\n*** Delete File: f\n*** End Patch"}),
    ],
    ids=["write", "edit", "apply_patch", "delete"],
)
async def test_a_file_that_is_write_protected_is_not_changed(
    tool: Tool, arguments: Arguments, workspace: Workspace
) -> None:
    path = await seen(workspace, "f", b"one\n")
    path.chmod(0o444)
    refused = await said(tool, arguments, workspace)
    assert refused.endswith(
        "is write-protected (mode 0444): ask the user, or make it writable with chmod in bash first"
    )
    assert path.read_bytes() == b"one\n"


async def test_replace_all_replaces_all(workspace: Workspace) -> None:
    path = await seen(workspace, "f", b"a b a")
    result = await Edit().run({"path": "f", "old": "a", "new": "c", "replace_all": True}, workspace)
    assert (path.read_bytes(), result.text) == (b"c b c", "edited `f` in 2 places")


async def test_what_was_replaced_everywhere_is_replaced_again_with_a_warning(workspace: Workspace) -> None:
    path = await seen(workspace, "f", b"log(a)\nlog(b)\n")
    call = {"path": "f", "old": "log", "new": "logger", "replace_all": True}
    first, again = [(await Edit().run(call, workspace)).text for _ in range(2)]
    assert (first, again, path.read_bytes()) == (
        "edited `f` in 2 places",
        "edited `f` in 2 places; the file already had `new` there, so what it adds is now duplicated",
        b"loggerger(a)\nloggerger(b)\n",
    )


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"{\n  {\n  }\nend\n", "end", "}\nend", b"{\n  {\n  }\n}\nend\n"),
        (b"a\n\nb\n\nc", "\nb", "\n\nb", b"a\n\n\nb\n\nc"),
    ],
    ids=["a bracket", "an empty line"],
)
async def test_what_may_stand_there_twice_is_added_twice(
    before: bytes, old: str, new: str, after: bytes, workspace: Workspace
) -> None:
    path = await seen(workspace, "f", before)
    await Edit().run({"path": "f", "old": old, "new": new}, workspace)
    assert path.read_bytes() == after


async def test_a_loose_match_shows_what_came_of_it(workspace: Workspace) -> None:
    await seen(workspace, "f", b"if x:\n\tone()\n")
    result = await Edit().run({"path": "f", "old": "    one()\n", "new": "    two()\n"}, workspace)
    assert result.text == "edited `f`, line 2; `old` differed from the file in whitespace. It now reads:\n2\t\ttwo()"


async def test_two_edits_at_once_are_both_made(workspace: Workspace) -> None:
    path = await seen(workspace, "f", b"top = 0\nmiddle\nbottom = 0\n")
    edits = [("top = 0", "top = 1"), ("bottom = 0", "bottom = 2")]
    await asyncio.gather(*(Edit().run({"path": "f", "old": old, "new": new}, workspace) for old, new in edits))
    assert path.read_bytes() == b"top = 1\nmiddle\nbottom = 2\n"


async def test_a_preview_shows_the_change_and_makes_none(workspace: Workspace) -> None:
    path = await seen(workspace, "f", b"one\ntwo\n")
    diff = Edit().preview({"path": "f", "old": "two", "new": "three"}, workspace)
    assert diff == "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+three"
    assert path.read_bytes() == b"one\ntwo\n"
    long = Write().preview({"path": "new", "content": "x\n" * 300_000}, workspace)
    assert long.split("\n")[-1] == "… 100,003 more lines of this diff are not shown"


async def test_nothing_is_left_behind_when_a_file_cannot_be_written(workspace: Workspace) -> None:
    (workspace.root / "sub").mkdir()
    assert "is a folder" in await said(Write(), {"path": "sub", "content": "x"}, workspace)
    assert "is a device" in await said(Write(), {"path": "/dev/null", "content": "x"}, workspace)
    name = "n" * 250
    await Write().run({"path": name, "content": "x"}, workspace)
    assert sorted(os.listdir(workspace.root)) == [name, "sub"]


PATCH = """*** Begin Patch
*** Update File: a.txt
*** Move to: moved/a.txt
 one
-two
+zwei
*** Add File: new.txt
+hello
*** Delete File: old.txt
*** End Patch"""


async def test_a_patch_changes_adds_moves_and_deletes(workspace: Workspace) -> None:
    root = workspace.root
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "a.txt").chmod(0o755)
    (root / "old.txt").write_text("x")
    subjects = ApplyPatch().subjects({"patch": PATCH}, workspace)
    result = await ApplyPatch().run({"patch": PATCH}, workspace)
    changed = (root / "moved/a.txt", root / "a.txt", root / "new.txt", root / "old.txt")
    assert result.text == "moved `a.txt` to `moved/a.txt`\nadded `new.txt`\ndeleted `old.txt`"
    assert result.changed_files == changed
    assert result.file_changes == (
        AppliedChange(root / "moved/a.txt", None, b"one\r\nzwei\r\n"),
        AppliedChange(root / "a.txt", b"one\r\ntwo\r\n", None),
        AppliedChange(root / "new.txt", None, b"hello\n"),
        AppliedChange(root / "old.txt", b"x", None),
    )
    assert subjects == tuple(str(root / name) for name in ("a.txt", "moved/a.txt", "new.txt", "old.txt"))
    assert sorted(os.listdir(root)) == ["moved", "new.txt"]
    assert (root / "moved/a.txt").read_bytes() == b"one\r\nzwei\r\n"
    assert (root / "moved/a.txt").stat().st_mode & 0o777 == 0o755
    assert workspace.seen_files.is_current(root / "new.txt", b"hello\n")


async def test_a_patch_that_fits_only_in_part_changes_nothing(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("one\ntwo\n")
    why = await said(ApplyPatch(), {"patch": PATCH}, workspace)
    assert why == "no file was changed: `old.txt` does not exist: use `*** Add File:`, or correct the path"
    assert os.listdir(workspace.root) == ["a.txt"]


async def test_a_patch_is_taken_back_when_a_file_cannot_be_written(workspace: Workspace) -> None:
    root = workspace.root
    write_files(root, {"a.txt": "one\n", "file": "no folder"})
    patch = "*** Begin Patch\n*** Update File: a.txt\n-one\n+two\n*** Add File: file/x\n+x\n*** End Patch"
    assert "a part of the path is a file" in await said(ApplyPatch(), {"patch": patch}, workspace)
    assert (root / "a.txt").read_text() == "one\n"


async def test_a_folder_that_becomes_a_link_is_not_followed(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.root / "d").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    real = os.path.realpath

    def swapped(path: str | Path) -> str:
        found = real(path)
        (workspace.root / "d").rmdir()
        (workspace.root / "d").symlink_to(elsewhere)
        return found

    monkeypatch.setattr(os.path, "realpath", swapped)
    assert await said(Write(), {"path": "d/f", "content": "x"}, workspace)
    assert os.listdir(elsewhere) == []


ONE_WORD = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** End Patch"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Write(), {"path": "a.txt", "content": "new\n"}),
        (Edit(), {"path": "a.txt", "old": "old", "new": "new"}),
        (ApplyPatch(), {"patch": ONE_WORD}),
    ],
    ids=["write", "edit", "apply_patch"],
)
async def test_a_file_with_two_names_stays_one_file(tool: Tool, arguments: Arguments, workspace: Workspace) -> None:
    path = await seen(workspace, "a.txt", b"old\n")
    path.chmod(0o750)
    other = workspace.root / "other.txt"
    os.link(path, other)
    before = path.stat()
    await tool.run(arguments, workspace)
    after = path.stat()
    assert (after.st_ino, after.st_nlink, after.st_mode) == (before.st_ino, 2, before.st_mode)
    assert other.read_bytes() == b"new\n"
    assert sorted(entry.name for entry in workspace.root.iterdir()) == ["a.txt", "other.txt"]


async def test_what_cannot_be_written_under_two_names_is_put_back(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await seen(workspace, "a.txt", b"old\n")
    os.link(path, workspace.root / "other.txt")
    synced, sync = list[int](), os.fsync

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr("ebbtide.tools.files.read_write.os.fsync", full)
    assert "no space left" in await said(Edit(), {"path": "a.txt", "old": "old", "new": "new and longer"}, workspace)
    assert path.read_bytes() == (workspace.root / "other.txt").read_bytes() == b"old\n"
    assert sorted(entry.name for entry in workspace.root.iterdir()) == ["a.txt", "other.txt"]


@pytest.mark.parametrize("size", [6_500, 70_000], ids=["less than a buffer", "more than a buffer"])
async def test_a_file_with_two_names_for_which_there_is_no_room_is_put_back(size: int, workspace: Workspace) -> None:
    path = await seen(workspace, "a.txt", b"old\n" * 1_000)
    os.link(path, workspace.root / "other.txt")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, limits[1]))
    try:
        message = await said(Write(), {"path": "a.txt", "content": "n" * size}, workspace)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert message.endswith("file too large")
    assert path.read_bytes() == b"old\n" * 1_000
    assert sorted(entry.name for entry in workspace.root.iterdir()) == ["a.txt", "other.txt"]


@pytest.mark.parametrize("why", ["two names", "another owner"])
async def test_a_copy_stays_where_what_a_file_held_cannot_be_put_back(
    why: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await seen(workspace, "a.txt", b"old\n")
    if why == "two names":
        os.link(path, workspace.root / "other.txt")
    else:
        monkeypatch.setattr("ebbtide.tools.files.read_write._copy_owner", lambda name, of, folder: False)
    synced, sync = list[int](), os.fsync
    before = 1 if why == "two names" else 2  # a new file was filled in vain, then the copy

    def failing(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) > before:
            raise OSError(5, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr("ebbtide.tools.files.read_write.os.fsync", failing)
    message = await said(Edit(), {"path": "a.txt", "old": "old", "new": "new"}, workspace)
    (copy,) = {entry.name for entry in workspace.root.iterdir()} - {"a.txt", "other.txt"}
    assert message == (
        f"cannot write the file or restore its content: input/output error. A copy is in `{copy}` beside it"
    )
    assert (workspace.root / copy).read_bytes() == b"old\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
async def test_a_file_of_somebody_else_stays_theirs(workspace: Workspace) -> None:
    path = await seen(workspace, "a.txt", b"old\n")
    os.chown(path, 12_345, 54_321)
    path.chmod(0o4755)
    before = path.stat()
    await Edit().run({"path": "a.txt", "old": "old", "new": "new"}, workspace)
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (12_345, 54_321, before.st_mode)
    assert (path.read_bytes(), [entry.name for entry in workspace.root.iterdir()]) == (b"new\n", ["a.txt"])


async def test_a_file_whose_owner_cannot_be_given_is_written_where_it_is(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await seen(workspace, "a.txt", b"old\n")
    before = path.stat()

    def refused(name: str, of: os.stat_result, folder: int) -> bool:
        return False

    monkeypatch.setattr("ebbtide.tools.files.read_write._copy_owner", refused)
    await Edit().run({"path": "a.txt", "old": "old", "new": "new"}, workspace)
    assert (path.stat().st_ino, path.read_bytes()) == (before.st_ino, b"new\n")
    assert [entry.name for entry in workspace.root.iterdir()] == ["a.txt"]


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="Python knows of no attributes on this system")
async def test_a_file_keeps_its_attributes(workspace: Workspace) -> None:
    path = await seen(workspace, "a.txt", b"old")
    try:
        os.setxattr(path, "user.origin", b"a place")
    except OSError:
        pytest.skip("the file system here keeps no attributes")
    path.chmod(0o640)
    before = path.stat().st_ino
    await Write().run({"path": "a.txt", "content": "new"}, workspace)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    assert os.getxattr(path, "user.origin") == b"a place"
    assert path.stat().st_ino != before  # it was put in place at once, as any other


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="Python knows of no attributes on this system")
async def test_a_file_gets_no_access_list_that_its_folder_has_for_new_ones(workspace: Workspace) -> None:
    """Version 2: owner, user 1000, group, mask and others, each with what they may."""
    entries = [(1, 6, -1), (2, 6, 1000), (4, 4, -1), (16, 6, -1), (32, 0, -1)]
    granting = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    path, owned = await seen(workspace, "a.txt", b"old"), await seen(workspace, "b.txt", b"old")
    path.chmod(0o660)
    try:
        os.setxattr(workspace.root, "system.posix_acl_default", granting)
        os.setxattr(owned, "system.posix_acl_access", granting)
    except OSError:
        pytest.skip("the file system here keeps no access lists")
    for name in ("a.txt", "b.txt"):
        await Edit().run({"path": name, "old": "old", "new": "new"}, workspace)
    assert (path.read_text(), os.listxattr(path), path.stat().st_mode & 0o777) == ("new", [], 0o660)
    assert os.getxattr(owned, "system.posix_acl_access") == granting
