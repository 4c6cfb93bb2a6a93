"""What an edit brought, by a server that behaves or does not, and by a real one."""

import json
import os
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ebbtide.tools.base import AppliedChange
from ebbtide.tools.integrations.lsp.spec import LanguageServerSpec
from ebbtide.tools.outputs.new_problems import NewProblems
from tests.kit.polling import until
from tests.tools.integrations.lsp.conftest import COMMAND, Starts, spec


def made(path: Path, before: str | None, after: str | None) -> AppliedChange:
    if after is not None:
        path.write_text(after)
    return AppliedChange(path, None if before is None else before.encode(), None if after is None else after.encode())


@pytest.mark.parametrize("way", ["", "pull", "no versions", "other versions", "late", "asks"])
async def test_an_edit_is_told_what_it_brought_and_nothing_else(way: str, start: Starts, root: Path) -> None:
    servers, path = start(spec(way)), root / "a.txt"
    texts = [None, "wrong\nfine\n", "\n\nwrong\nfine\n", "\nwrong\nwrong\ndoubtful\n", "doubtful\n", None, "fine\n"]
    problems = [await servers.problems_after_edit([made(path, before, after)]) for before, after in pairwise(texts)]
    assert problems == [
        NewProblems(1, ("a.txt:1:1 error: wrong here [words W1]",)),
        None,
        NewProblems(2, ("a.txt:3:1 error: wrong here [words W1]", "a.txt:4:1 warning: doubtful here [words W1]")),
        None,
        None,
        None,
    ]


async def test_what_a_server_asks_is_answered(start: Starts, root: Path, tmp_path: Path) -> None:
    servers = start(spec("asks"))
    assert await servers.problems_after_edit([made(root / "a.txt", None, "fine")]) is None
    assert json.loads((tmp_path / "words.log").read_text()) == [None, [[1, 2], None], None, False, -32601]


async def test_what_was_wrong_before_the_first_edit_is_not_told(start: Starts, root: Path) -> None:
    servers = start(spec())
    assert await servers.problems_after_edit([made(root / "a.txt", "wrong\n", "wrong\nfine\n")]) is None


async def test_an_edit_is_told_what_it_broke_elsewhere(start: Starts, root: Path) -> None:
    servers, path = start(spec()), root / "a.txt"
    assert await servers.problems_after_edit([made(path, "fine\n", "still fine\n")]) is None
    problems = await servers.problems_after_edit([made(path, "still fine\n", "wrong in b.txt\n")])
    assert problems == NewProblems(1, ("b.txt:1:1 error: wrong here [words W1]",))


async def test_errors_come_first_and_many_are_counted(start: Starts, root: Path) -> None:
    servers = start(spec("many"))
    problems = await servers.problems_after_edit([made(root / "a.txt", None, "fine\n")])
    assert problems is not None
    assert (problems.count, len(problems.lines), problems.lines[-1]) == (2000, 11, "and 1,990 errors more")
    assert problems.text.startswith("New problems since this change:\na.txt:1:1 error: wrong here [words W1]\n")
    servers = start(spec())
    problems = await servers.problems_after_edit([made(root / "a.txt", None, "doubtful\n" * 11 + "wrong\n")])
    assert problems is not None
    assert (problems.lines[0], problems.lines[-1]) == ("a.txt:12:1 error: wrong here [words W1]", "and 2 warnings more")


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("dies at start", "it ended with exit code 1: no such licence"),
        ("no messages", "it printed something that is not a message"),
        ("too long", "it printed a message of 99,999,999,999 bytes, which is too large"),
        ("no length", "it printed a header without the length of its message"),
        ("no json", "it sent a message that is not JSON"),
        ("flood", "it sent more than 2 MB without being asked"),
    ],
)
async def test_a_server_that_cannot_be_used_is_given_up_after_three_starts(
    fault: str, why: str, start: Starts, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tools.integrations.lsp.client.MAX_UNSOLICITED_BYTES", 2 * 1024**2)
    servers, path = start(spec(fault)), root / "a.txt"
    for count in range(3):
        assert await servers.problems_after_edit([made(path, f"{count}", f"{count + 1}")]) is None
    assert len(servers.states) == 1
    await until(lambda: servers.states[0] == ("words", f"failed: {why}"))
    assert await servers.problems_after_edit([made(path, "3", "wrong")]) is None


async def test_a_server_that_dies_in_the_middle_is_started_again(start: Starts, root: Path) -> None:
    servers, path = start(spec()), root / "a.txt"
    assert await servers.problems_after_edit([made(path, None, "fine\n")]) is None
    assert await servers.problems_after_edit([made(path, "fine\n", "die here\n")]) is None
    assert servers.states[0][1] == "stopped (it ended with exit code 3: a word that it cannot stand)"
    problems = await servers.problems_after_edit([made(path, "die here\n"[:0], "wrong\n")])
    assert problems == NewProblems(1, ("a.txt:1:1 error: wrong here [words W1]",))


@pytest.mark.parametrize("fault", ["never answers", "silent"])
async def test_an_edit_waits_for_nobody_longer_than_agreed(fault: str, start: Starts, root: Path) -> None:
    servers = start(spec(fault), seconds=0.05)
    assert await servers.problems_after_edit([made(root / "a.txt", None, "wrong\n")]) is None


async def test_what_comes_too_late_is_told_with_the_next_edit(start: Starts, root: Path) -> None:
    servers, path = start(spec("late"), seconds=0.01), root / "a.txt"
    assert await servers.problems_after_edit([made(path, None, "wrong\n")]) is None
    await until(lambda: bool(servers.known_problems()))
    (server,) = await servers.servers_for(path)
    await server.wait_for_diagnostics(1)
    problems = await servers.problems_after_edit([made(path, "wrong\n", "\nwrong\n")])
    assert problems == NewProblems(1, ("a.txt:1:1 error: wrong here [words W1]",))


async def test_files_that_no_server_can_read_are_told_to_none(start: Starts, root: Path, tmp_path: Path) -> None:
    servers = start(spec())
    for path, content in ((root / "a.txt", b"wrong \xff"), (root / "b.md", b"wrong"), (tmp_path / "c.txt", b"wrong")):
        assert await servers.problems_after_edit([AppliedChange(path, None, content)]) is None
    assert await servers.problems_after_edit([AppliedChange(root / "d.txt", None, b"wrong" * 300_000)]) is None
    assert all(state.startswith("stopped (") for _, state in servers.states)


async def test_several_servers_are_asked_and_none_outlives_the_session(start: Starts, root: Path) -> None:
    servers = start(spec(), spec("pull", name="pulled"), spec("dies at start", name="dead"))
    problems = await servers.problems_after_edit([made(root / "a.txt", None, "wrong\n")])
    assert problems == NewProblems(
        2, ("a.txt:1:1 error: wrong here [words W1]", "a.txt:1:1 error: wrong here [pulled W1]")
    )
    await servers.close()
    assert [state.split(":")[0] for _, state in servers.states] == ["failed", "failed", "failed"]
    assert not _running()


def _running() -> list[Path]:
    """The processes of the server above."""
    wanted = [os.fsencode(word) for word in COMMAND]
    return [each for each in Path("/proc").glob("[0-9]*/cmdline") if _words_of(each)[:2] == wanted]


def _words_of(cmdline: Path) -> list[bytes]:
    try:
        return cmdline.read_bytes().split(b"\0")
    except OSError:
        return []


async def test_ruff_finds_what_an_edit_brought(start: Starts, root: Path) -> None:
    program = Path(sys.executable).with_name("ruff")
    servers = start(LanguageServerSpec("ruff", (str(program), "server"), (".py",)))
    before, after = "import os\n\nprint(os.name)\n", "print(os.name)\nundefined()\n"
    problems = await servers.problems_after_edit([made(root / "a.py", before, after)])
    assert problems is not None
    assert [line.split(": ")[0] for line in problems.lines] == ["a.py:1:7 error", "a.py:2:1 error"]
