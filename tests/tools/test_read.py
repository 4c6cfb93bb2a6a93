import asyncio
import gc
import os
import threading
from pathlib import Path

import pytest

from tools.base import Picture, Result, ToolError, Workspace
from tools.extent import Extent
from tools.files import undivided
from tools.read import Read

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def read(workspace: Workspace, path: str, **more: int) -> Result:
    return await Read().run({"path": path, **more}, workspace)


async def said(workspace: Workspace, path: str, **more: int) -> str:
    with pytest.raises(ToolError) as caught:
        await read(workspace, path, **more)
    return str(caught.value).replace(str(workspace.root), "ROOT")


async def test_lines_have_numbers_and_the_file_is_seen(workspace: Workspace) -> None:
    path = workspace.root / "a.txt"
    path.write_bytes("\ufeffone\r\ntwo\u2028still two\x0b\r\n".encode())
    assert await read(workspace, "a.txt") == Result("1\tone\n2\ttwo\u2028still two\x0b", extent=Extent("lines", 2, 2))
    assert workspace.seen.is_current(path, path.read_bytes())


async def test_a_long_file_comes_in_pages(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 5001)))
    first = await read(workspace, "a.txt")
    assert first.text.endswith("2000\t2000\n(lines 1-2000 of 5000; go on with offset=2001)")
    assert (await read(workspace, "a.txt", offset=4999)).text == "4999\t4999\n5000\t5000\n(lines 4999-5000 of 5000)"
    assert await said(workspace, "a.txt", offset=9000) == "`a.txt` has 5000 lines: offset=9000 is beyond its end"


async def test_what_is_shown_of_a_file_is_told_in_figures(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 301)))
    (workspace.root / "empty.txt").touch()
    (workspace.root / "long.txt").write_text("x" * 3000 + "\nend\n")
    assert (await read(workspace, "a.txt", limit=50)).extent == Extent("lines", 50, 300)
    assert (await read(workspace, "a.txt", offset=251)).extent == Extent("lines", 50, 300, 251)
    assert (await read(workspace, "empty.txt")).extent == Extent("lines", 0, 0)
    page = await read(workspace, "long.txt", limit=1)
    assert page.extent == Extent("lines", 1, 2)
    assert page.uncut == f"1\t{'x' * 3000}\n(lines 1-1 of 2; go on with offset=2)"


async def test_a_page_ends_before_it_is_too_large(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("\n".join("x" * 5000 for _ in range(100)))
    page = (await read(workspace, "a.txt")).text
    assert len(page) < 52_000
    assert page.startswith("1\t" + "x" * 2000 + "… [cut: 5000 characters]\n")
    assert page.endswith("(lines 1-25 of 100; go on with offset=26)")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"", "`f` is empty"),
        ("käse".encode("utf-16"), "1\tkäse"),
        (b"caf\xe9", "1\tcafé"),
        ("gr\u00fc\u00df dich, sch\u00f6n".encode() + b" \xff", "1\tgrüß dich, schön \ufffd"),
        (b"a\rb\r", "1\ta\n2\tb"),
        (
            "日本語のテキストファイルです。これは試験です。".encode("cp932"),
            "1\t日本語のテキストファイルです。これは試験です。",
        ),
    ],
)
async def test_every_encoding_is_shown(raw: bytes, shown: str, workspace: Workspace) -> None:
    (workspace.root / "f").write_bytes(raw)
    assert (await read(workspace, "f")).text == shown


async def test_a_picture_is_a_picture(workspace: Workspace) -> None:
    (workspace.root / "p.dat").write_bytes(PNG)
    expected = Result("picture `p.dat`, image/png, 28 bytes", pictures=(Picture("image/png", PNG),))
    assert await read(workspace, "p.dat") == expected


async def test_what_cannot_be_shown_is_explained(workspace: Workspace, tmp_path: Path) -> None:
    root = workspace.root
    (root / "prog").write_bytes(b"\x7fELF\x02\0\0")
    (root / "settings.py").write_text("x")
    (root / "sub").mkdir()
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    assert {name: await said(workspace, name) for name in ("prog", "setting.py", "sub", "pipe", "loop", "no/x")} == {
        "prog": "`prog` is an ELF program or library, not text: look at it in bash, with xxd or a program made for it",
        "setting.py": "`setting.py` does not exist: is it `settings.py`?",
        "sub": "`ROOT/sub` is a folder: list it with glob, or `ls` in bash",
        "pipe": "`ROOT/pipe` is a pipe, not a regular file: choose another path",
        "loop": "cannot read `ROOT/loop`: too many levels of symbolic links",
        "no/x": "`no/x` does not exist, nor does its folder; `ROOT` does: look there with glob",
    }
    assert await said(workspace, "/dev/null") == "`/dev/null` is a device, not a regular file: choose another path"
    assert "too long" in await said(workspace, "a" * 300 + "/" + "b/" * 2500)


async def test_a_read_that_fails_after_its_turn_was_interrupted_is_no_noise(workspace: Workspace) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()
        raise ToolError("it does not exist")

    reading = asyncio.create_task(undivided(work))
    await asyncio.to_thread(begun.wait)
    reading.cancel()
    go_on.set()
    await asyncio.wait([reading])
    assert reading.cancelled()
    del reading
    gc.collect()
    assert complaints == []
