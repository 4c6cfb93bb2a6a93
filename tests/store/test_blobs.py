"""Bytes stored and read back, as real files."""

import os
import random
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebbtide.store.blobfile import FRAME_BYTES, Blob
from ebbtide.store.blobs import BlobStore
from ebbtide.store.errors import StoreError

LOG = b"".join(b"%d: line of a log that goes on and on\n" % number for number in range(40_000))


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def stored(blobs: BlobStore, data: bytes) -> Blob:
    blob = blobs.put([data], "s1")
    blobs.commit(blob.digest, "s1")
    return blob


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", 0),
        (b"one", 1),
        (b"one\n", 1),
        (b"one\ntwo", 2),
        (b"\0\xff\xfe\n\0" * 7, 8),
        (b"x" * (FRAME_BYTES * 3 + 5), 1),
        (LOG, 40_000),
        (random.Random(1).randbytes(FRAME_BYTES + 1), None),
    ],
)
def test_any_bytes_come_back_as_they_were(data: bytes, lines: int | None, blobs: BlobStore) -> None:
    blob = stored(blobs, data)
    assert (blob.size, lines if lines is None else blob.lines) == (len(data), lines)
    reader = blobs.open(blob.digest)
    assert (reader.size, reader.lines) == (blob.size, blob.lines)
    assert b"".join(reader.chunks()) == data
    reader.close()


TEXTS = (LOG, b"\n" * 1000, b"a\n\n\nb", LOG[:FRAME_BYTES] + b"y" * FRAME_BYTES * 2 + LOG)


@pytest.fixture
def stored_blobs(blobs: BlobStore) -> Mapping[bytes, tuple[Blob, Sequence[bytes], Sequence[int]]]:
    """Each text's blob, its lines, and where each of them begins."""
    lines = {text: text.split(b"\n") for text in TEXTS}
    return {
        text: (stored(blobs, text), split, [0, *accumulate(len(line) + 1 for line in split)])
        for text, split in lines.items()
    }


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_part_is_found_by_bytes_and_by_lines(
    blobs: BlobStore, stored_blobs: Mapping[bytes, tuple[Blob, Sequence[bytes], Sequence[int]]], data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    start, limit = data.draw(st.integers(0, len(text) + 5)), data.draw(st.integers(0, 2 * FRAME_BYTES))
    blob, lines, starts = stored_blobs[text]
    number = data.draw(st.integers(1, blob.lines))
    at = starts[number - 1]
    reader = blobs.open(blob.digest)
    assert reader.read(start, limit) == text[start : start + limit]
    assert reader.line_start(number) == at
    assert reader.line_end(at) == at + len(lines[number - 1])
    assert reader.line_start(blob.lines + 1) == len(text)
    reader.close()


def test_the_same_bytes_are_stored_once(blobs: BlobStore) -> None:
    assert stored(blobs, LOG) == stored(blobs, LOG)
    assert len(blobs.sizes()) == 1
    assert os.listdir(blobs.folder / "incoming") == []


def test_only_the_user_may_read_what_is_stored(blobs: BlobStore) -> None:
    stored(blobs, b"secret")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [blobs.folder, *blobs.folder.rglob("*")] if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in blobs.folder.rglob("*") if path.is_file()} == {0o600}


def test_what_is_put_can_be_read_before_it_is_settled(blobs: BlobStore) -> None:
    blob = blobs.put([b"early"], "s1")
    reader = blobs.open(blob.digest)
    assert reader.read(0, 10) == b"early"
    reader.close()
    assert blobs.sizes() == {}


def test_what_is_gone_or_damaged_is_said(blobs: BlobStore) -> None:
    blob = stored(blobs, LOG)
    path = blobs.folder / blob.digest[:2] / blob.digest
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(StoreError, match="is damaged") as cut:
        blobs.open(blob.digest)
    path.write_bytes(whole[:200] + b"????" + whole[204:])
    broken = blobs.open(blob.digest)
    with pytest.raises(StoreError, match="is damaged") as changed:
        broken.read(0, 10)
    broken.close()
    assert blobs.remove(blob.digest) == len(whole)
    assert blobs.remove(blob.digest) == 0
    with pytest.raises(StoreError, match="no longer exists") as gone:
        blobs.open(blob.digest)
    assert (cut.value.reason, changed.value.reason, gone.value.reason) == ("corrupt", "corrupt", "missing")


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """The bytes of a file after one of the things that happen to files."""
    data = bytearray(whole)
    at = chance.choice([chance.randrange(len(data)), chance.randrange(max(len(data) - 300, 0), len(data))])
    match chance.randrange(5):
        case 0:
            return whole[:at]
        case 1:
            data[at] ^= 1 << chance.randrange(8)
        case 2:
            data[at : at + chance.randrange(1, 5000)] = bytes(chance.randrange(1, 5000))
        case 3:
            data[at:] = chance.randbytes(len(data) - at)
        case _:
            data[-44:] = chance.randbytes(44)
    return bytes(data)


def answers(blobs: BlobStore, digest: str) -> Iterator[object]:
    """What a reader says, or that it refuses."""
    try:
        reader = blobs.open(digest)
    except StoreError as error:
        yield error.reason
        return
    for ask in (
        lambda: b"".join(reader.chunks()),
        lambda: reader.read(FRAME_BYTES - 10, 20),
        lambda: reader.line_start(30_000),
        lambda: reader.line_end(FRAME_BYTES + 7),
        lambda: (reader.size, reader.lines),
    ):
        try:
            yield ask()
        except StoreError as error:
            yield error.reason
    reader.close()


@pytest.mark.parametrize("text", [LOG, b"small\n" * 100, random.Random(2).randbytes(3 * FRAME_BYTES)], ids=len)
def test_a_damaged_blob_gives_what_was_stored_or_says_that_it_is_damaged(text: bytes, blobs: BlobStore) -> None:
    blob = stored(blobs, text)
    path = blobs.folder / blob.digest[:2] / blob.digest
    whole, true = path.read_bytes(), list(answers(blobs, blob.digest))
    for seed in range(300):
        path.write_bytes(damaged(whole, random.Random(seed)))
        found = list(answers(blobs, blob.digest))
        wrong = [got for got, right in zip(found, true, strict=False) if got not in (right, "corrupt")]
        assert wrong == [], f"seed {seed}"


def in_the_old_form(data: bytes) -> bytes:
    """A blob as earlier versions wrote it: without checksums."""
    frames = [data[at : at + FRAME_BYTES] for at in range(0, len(data), FRAME_BYTES)]
    index = b"".join(struct.pack("<II", len(frame) | 1 << 31, frame.count(b"\n")) for frame in frames)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    end = struct.pack("<QQQI4s", 4 + len(data), len(data), lines, FRAME_BYTES, b"EBB1")
    return b"EBB1" + data + index + end


@pytest.mark.parametrize("text", [LOG, b"small\n" * 100], ids=len)
def test_blobs_of_earlier_versions_are_read_and_never_end_in_another_error(text: bytes, blobs: BlobStore) -> None:
    blob = stored(blobs, text)
    path, true = blobs.folder / blob.digest[:2] / blob.digest, list(answers(blobs, blob.digest))
    whole = in_the_old_form(text)
    path.write_bytes(whole)
    assert list(answers(blobs, blob.digest)) == true
    for seed in range(300):
        path.write_bytes(damaged(whole, random.Random(seed)))
        for found in answers(blobs, blob.digest):
            assert isinstance(found, bytes | int | tuple) or found == "corrupt", f"seed {seed}"


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "nothing", "empty"])
def test_what_stands_in_a_blobs_place_is_said_and_gives_way(kind: str, blobs: BlobStore) -> None:
    blob = stored(blobs, LOG)
    path = blobs.folder / blob.digest[:2] / blob.digest
    path.unlink()
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path)
        case "empty":
            path.touch()
        case _:
            pass
    reasons = {"loop": "unreadable", "nothing": "missing"}
    assert list(answers(blobs, blob.digest)) == [reasons.get(kind, "corrupt")]
    assert set(blobs.sizes()) == ({blob.digest} if kind != "nothing" else set())
    stored(blobs, LOG)
    assert next(iter(answers(blobs, blob.digest))) == LOG
    blobs.remove_uncommitted(2**40)


def test_a_source_that_fails_leaves_nothing(blobs: BlobStore) -> None:
    def chunks() -> Iterator[bytes]:
        yield LOG
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        blobs.put(chunks(), "s1")
    assert [path for path in blobs.folder.rglob("*") if path.is_file()] == []


def test_what_a_dead_process_left_is_removed_after_a_while(blobs: BlobStore) -> None:
    blob = blobs.put([b"left"], "s1")
    path = blobs.folder / "incoming" / f"{blob.digest}.s1"
    blobs.remove_uncommitted(path.stat().st_mtime)
    assert path.exists()
    blobs.remove_uncommitted(path.stat().st_mtime + 1)
    assert not path.exists()


FULL = """
import resource, signal, sys
from pathlib import Path
from random import Random
from ebbtide.store.blobs import BlobStore
from ebbtide.store.errors import StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    BlobStore(Path(sys.argv[1])).put([Random(1).randbytes(1_000_000)], "s1")
except StoreError as error:
    print(error.reason, [path.name for path in Path(sys.argv[1]).rglob("*") if path.is_file()])
"""


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "b")], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("full []\n", "")


LARGE = """
import resource, sys
from pathlib import Path
from ebbtide.store.blobs import BlobStore
blobs = BlobStore(Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
line = b"x" * (1 << 20)
blob = blobs.put((line for _ in range(200)), "s1")
reader = blobs.open(blob.digest)
middle = reader.read(100 << 20, 10)
print(blob.size, blob.lines, middle, reader.line_end(0), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_line_of_200_mb_takes_little_memory(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", LARGE, str(tmp_path / "b")], capture_output=True, text=True, check=True)
    *found, kilobytes = ran.stdout.split()
    assert found == [str(200 << 20), "1", "b'xxxxxxxxxx'", str(200 << 20)]
    unit = 1 if sys.platform == "linux" else 1024
    assert int(kilobytes) // unit < 40_000
