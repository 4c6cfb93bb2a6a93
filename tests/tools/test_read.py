import asyncio
import gc
import io
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebbtide.tools.base import ImageData, ReadLimits, Result, ToolError, Workspace
from ebbtide.tools.files.large import read_numbered_page
from ebbtide.tools.files.read_write import run_exclusive
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.read import Read, number_page

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


GUESSED = "(not in UTF-8; shown as {}, a guess: give its `encoding` before you add non-ASCII text)"


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
    assert workspace.seen_files.is_current(path, path.read_bytes())


async def test_a_long_file_comes_in_pages(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 5001)))
    first = await read(workspace, "a.txt")
    assert first.text.endswith("2000\t2000\n(lines 1-2000 of 5000; go on with offset=2001)")
    assert (await read(workspace, "a.txt", offset=4999)).text == "4999\t4999\n5000\t5000\n(lines 4999-5000 of 5000)"
    assert await said(workspace, "a.txt", offset=9000) == "`a.txt` has 5,000 lines: offset=9000 is beyond its end"


async def test_what_is_shown_of_a_file_is_told_in_figures(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 301)))
    (workspace.root / "empty.txt").touch()
    (workspace.root / "long.txt").write_text("x" * 3000 + "\nend\n")
    assert (await read(workspace, "a.txt", limit=50)).extent == Extent("lines", 50, 300)
    assert (await read(workspace, "a.txt", offset=251)).extent == Extent("lines", 50, 300, 251)
    assert (await read(workspace, "empty.txt")).extent == Extent("lines", 0, 0)
    page = await read(workspace, "long.txt", limit=1)
    assert page.extent == Extent("lines", 1, 2)
    assert page.full_text == f"1\t{'x' * 3000}\n(lines 1-1 of 2; go on with offset=2)"


async def test_a_page_ends_before_it_is_too_large(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("\n".join("x" * 5000 for _ in range(100)))
    page = (await read(workspace, "a.txt")).text
    assert len(page) < 52_000
    assert page.startswith("1\t" + "x" * 2000 + "… [cut: 5000 characters]\n")
    assert page.endswith("(lines 1-25 of 100; go on with offset=26)")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "`f` is empty"),
        ("käse".encode("utf-16"), "1\tkäse"),
        ("käse\nbrot".encode("utf-32"), "1\tkäse\n2\tbrot"),
        (b"caf\xe9", f"1\tcafé\n{GUESSED.format('cp1252')}"),
        ("gr\u00fc\u00df dich, sch\u00f6n".encode() + b" \xff", "1\tgrüß dich, schön \ufffd"),
        (b"a\rb\r", "1\ta\n2\tb"),
        (
            "日本語のテキストファイルです。これは試験です。".encode("cp932"),
            f"1\t日本語のテキストファイルです。これは試験です。\n{GUESSED.format('cp932')}",
        ),
    ],
)
async def test_every_encoding_is_shown(raw: bytes, text: str, workspace: Workspace) -> None:
    (workspace.root / "f").write_bytes(raw)
    assert (await read(workspace, "f")).text == text


async def test_a_picture_is_a_picture(workspace: Workspace) -> None:
    (workspace.root / "p.dat").write_bytes(PNG)
    expected = Result("image `p.dat`, image/png, 28 bytes", images=(ImageData("image/png", PNG),))
    assert await read(workspace, "p.dat") == expected


async def test_what_cannot_be_shown_is_explained(workspace: Workspace, tmp_path: Path) -> None:
    root = workspace.root
    (root / "prog").write_bytes(b"\x7fELF\x02\0\0")
    (root / "settings.py").write_text("x")
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    assert {name: await said(workspace, name) for name in ("prog", "setting.py", "pipe", "loop", "no/x")} == {
        "prog": "`prog` is an ELF program or library, not text: look at it in bash, with xxd or a program made for it",
        "setting.py": "`setting.py` does not exist; did you mean `settings.py`?",
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

    reading = asyncio.create_task(run_exclusive(work))
    await asyncio.to_thread(begun.wait)
    reading.cancel()
    go_on.set()
    await asyncio.wait([reading])
    assert reading.cancelled()
    del reading
    gc.collect()
    assert complaints == []


LARGE = 100
"""Bytes above which these tests hold no file."""


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.tools.read.MAX_FILE_BYTES", LARGE)
    monkeypatch.setattr("ebbtide.tools.files.large._CHUNK_BYTES", 7)  # so that lines lie across what is read at a time


@pytest.mark.usefixtures("few_bytes")
@given(
    st.lists(st.text("ab\ré日", max_size=30), min_size=1, max_size=60),
    st.booleans(),
    st.integers(1, 70),
    st.integers(1, 20),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_part_of_a_large_file_is_what_a_small_one_shows(
    workspace: Workspace, lines: list[str], ends: bool, offset: int, limit: int
) -> None:
    data = "\n".join(line.replace("\r", "") for line in lines) + ("\n" if ends else "")
    known = data.removesuffix("\n").split("\n")
    with io.BytesIO(data.encode()) as file:
        if not data or offset > len(known):
            with pytest.raises(ToolError, match="beyond its end"):
                read_numbered_page(file, "a", max(offset, 2), limit, ReadLimits(200, 20))
            return
        page = read_numbered_page(file, "a", offset, limit, ReadLimits(200, 20))
    small = number_page(known, offset, limit, ReadLimits(200, 20))
    assert (page.last_line, page.line_count) == (small.last_line, len(known))
    assert [line[:20] for line in page.text.split("\n")] == [line[:20] for line in small.text.split("\n")]


@pytest.mark.usefixtures("few_bytes")
async def test_a_large_file_is_shown_in_part_and_says_how_to_go_on(workspace: Workspace) -> None:
    (workspace.root / "a.log").write_text("".join(f"line {number}\n" for number in range(1, 3001)))
    first = await read(workspace, "a.log")
    assert first.text.startswith("1\tline 1\n2\tline 2\n")
    assert first.text.endswith(
        "2000\tline 2000\n(lines 1-2000 of 3000, 0 MB; go on with offset=2001; grep finds lines in it)"
    )
    assert first.extent == Extent("lines", 2000, 3000)
    last = await read(workspace, "a.log", offset=2999)
    assert last.text == "2999\tline 2999\n3000\tline 3000\n(lines 2999-3000 of 3000, 0 MB; grep finds lines in it)"
    assert "beyond its end" in await said(workspace, "a.log", offset=3001)
    (workspace.root / "a.bin").write_bytes(b"\0" * 200)
    assert "binary data" in await said(workspace, "a.bin")


async def test_half_a_gigabyte_is_not_held(workspace: Workspace) -> None:
    with (workspace.root / "huge.log").open("wb") as file:
        file.write(b"first\n" + b"x" * 9_000)
        file.truncate(80 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    tracemalloc.start()
    try:
        page = await read(workspace, "huge.log", offset=3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert page.text == "3\tlast\n(lines 3-3 of 3, 84 MB; grep finds lines in it)"
    assert peak < 16 << 20


async def test_the_end_of_a_file_that_never_ends_is_not_looked_for(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tools.files.large.MAX_SCANNED_BYTES", 80 << 20)
    with (workspace.root / "sparse.log").open("wb") as file:
        file.write(b"line\n" * 3_000)
        file.truncate(100 << 30)
    page = await read(workspace, "sparse.log", offset=2_000, limit=2)
    assert page.text == (
        "2000\tline\n2001\tline\n"
        "(lines 2000-2001 of a file of 107,374 MB; go on with offset=2002; grep finds lines in it)"
    )
    assert page.extent == Extent("lines", 2, None, 2_000)
    (line, where) = (await read(workspace, "sparse.log", offset=3_001)).text.split("\n")
    assert line.endswith("… [cut: 83,894,080 bytes and more]")
    assert where.startswith("(lines 3001-3001 of a file of 107,374 MB")
    assert await said(workspace, "sparse.log", offset=3_002) == (
        "line 3,002 of `sparse.log` is beyond its first 0.1 GB, which contain 3,001 lines: "
        "look at it in bash, with tail or sed"
    )
