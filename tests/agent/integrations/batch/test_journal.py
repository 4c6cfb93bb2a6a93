"""What of a batch is on the disk: read back whole after any cut, and never another program's."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ebbtide.agent.errors import UsageError
from ebbtide.agent.integrations.batch.journal import BatchJournal, StartedTask, open_journal
from ebbtide.agent.integrations.batch.tasks import BatchTask, read_tasks
from tests.kit.commands import ROOT


def tasks(count: int) -> Sequence[BatchTask]:
    return read_tasks("\n".join(f'{{"id": "t{n}", "prompt": "do {n}"}}' for n in range(count)).encode())[0]


def result(task: BatchTask, code: int = 0) -> dict[str, object]:
    return {"id": task.original_id, "exit_code": code}


def written(output: Path) -> Path:
    """Three tasks: one done, one failed, one stopped in the middle."""
    first, second, third = tasks(3)
    with open_journal(output) as journal:
        for number, task in enumerate((first, second, third)):
            journal.record_start(task, f"{number:012x}")
        journal.record_result(first, result(first))
        journal.record_result(second, result(second, 1))
        journal.record_interruption("t2")
    return output


def test_what_was_begun_stopped_and_done_is_known_again(tmp_path: Path) -> None:
    first, second, third = tasks(3)
    with open_journal(written(tmp_path / "out.jsonl")) as journal:
        assert journal.results == {"t0": result(first), "t1": result(second, 1)}
        assert journal.started_tasks == {
            f"t{n}": StartedTask(t.digest, f"{n:012x}") for n, t in enumerate((first, second, third))
        }
        assert journal.interrupted_ids == {"t2"}


@pytest.mark.parametrize("suffix", ["", ".journal"])
def test_a_cut_at_any_byte_leaves_what_was_whole(suffix: str, tmp_path: Path) -> None:
    output = written(tmp_path / "out.jsonl")
    path = output.with_name(output.name + suffix)
    whole = path.read_bytes()
    first_line = whole.index(b"\n") + 1
    for end in range(first_line if suffix else 0, len(whole)):
        path.write_bytes(whole[:end])
        with open_journal(output) as journal:
            rows = len(journal.results) if not suffix else 1 + len(journal.started_tasks) + len(journal.interrupted_ids)
            assert rows == whole[:end].count(b"\n")
            journal.record_result(tasks(9)[8], result(tasks(9)[8])) if not suffix else journal.record_interruption("t8")
        last = json.loads(path.read_bytes().splitlines()[-1])
        assert last in ({"id": "t8", "exit_code": 0}, {"stopped": ["t8"]})
        if suffix:
            path.write_bytes(whole)


def test_failed_tasks_are_opened_again_with_their_sessions(tmp_path: Path) -> None:
    output = written(tmp_path / "out.jsonl")
    first, second, _ = tasks(3)
    with open_journal(output) as journal:
        journal.remove_results("t1")
        assert [*journal.results] == ["t0"]
        journal.record_result(second, result(second))
    with open_journal(output) as journal:
        assert journal.results == {"t0": result(first), "t1": result(second)}
        assert journal.started_tasks["t1"].session_id == f"{1:012x}"
        assert journal.interrupted_ids == {"t1", "t2"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "out.jsonl.journal"]


def test_one_batch_at_a_time_has_the_file(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    with open_journal(output), pytest.raises(UsageError, match="another `ebb batch` is using"):
        BatchJournal(output)
    with open_journal(output) as journal:
        assert not journal.results


@pytest.mark.parametrize(
    ("suffix", "line"),
    [
        ("", "3"), ("", "{}"), ("", '{"id": "t9", "exit_code": "0"}'), ("", '{"id": null, "exit_code": 0}'),
        (".journal", "{}"), (".journal", '{"begun": "t9"}'), (".journal", '{"stopped": 3}'),
        (".journal", '{"begun": "t9", "task": "x", "session": "../../../x"}'), (".journal", "[" * 5_000),
    ],
)  # fmt: skip
def test_a_line_that_means_nothing_is_named_and_nothing_is_changed(suffix: str, line: str, tmp_path: Path) -> None:
    output = written(tmp_path / "out.jsonl")
    path = output.with_name(output.name + suffix)
    path.write_text(f"{path.read_text()}{line}\n")
    before, number = path.read_bytes(), path.read_text().count("\n")
    with pytest.raises(UsageError, match=f"^line {number} of `{path}` is damaged; "):
        BatchJournal(output)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("out.jsonl", '{"some": "data"}\n', "exists but was not written by a batch"),
        ("out.jsonl", "words without an end", "exists but was not written by a batch"),
        ("out.jsonl.journal", '{"some": "data"}\n', "is not a batch journal"),
        ("out.jsonl.journal", "text\n", "line 1 of"),
    ],
)
def test_a_file_of_something_else_is_left_as_it_is(name: str, content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=says), open_journal(tmp_path / "out.jsonl"):
        pass
    assert (tmp_path / name).read_text() == content


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"cannot write `.*/none/out.jsonl`"),
        open_journal(tmp_path / "none/out.jsonl"),
    ):
        pass


def test_a_place_that_fails_while_it_is_opened_keeps_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(UsageError, match=r"cannot write `.*out.jsonl`: Input/output error"):
            written(tmp_path / "out.jsonl")
    assert len(os.listdir("/proc/self/fd")) == before
    with open_journal(written(tmp_path / "out.jsonl")) as journal:
        assert len(journal.started_tasks) == 3


FULL = """
import json, resource, sys
from pathlib import Path
from ebbtide.agent.integrations.batch.journal import BatchJournal
from ebbtide.agent.integrations.batch.tasks import read_tasks
(task,), _ = read_tasks(b'{"prompt": "x"}')
journal = BatchJournal(Path(sys.argv[1]))
journal.record_result(task, {"id": 1, "exit_code": 0})
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    journal.record_result(task, {"id": 1, "exit_code": 0, "result": "x" * 200})
except OSError as error:
    print(error.strerror)
"""


def test_a_result_that_has_no_room_leaves_no_half_line(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(output)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large\n"
    assert output.read_text() == '{"id": 1, "exit_code": 0}\n'
