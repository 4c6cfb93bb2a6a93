"""Contents of files in the database of checkpoints: what earlier versions wrote is read on."""

import hashlib
import sqlite3
import zlib
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random

import pytest

from ebbtide.store.checkpoints import SCHEMA_VERSION, CheckpointStore
from ebbtide.store.errors import StoreError

TEXT = b"def answer() -> int:\n    return 42\n" * 200


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def test_frames_of_the_version_before_are_read_beside_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "c" / "checkpoints.db"
    CheckpointStore(path).close()
    old = sqlite3.connect(path, isolation_level=None)
    packed = zlib.compress(TEXT, 1)[2:-4]  # as level 1 of deflate, without head and sum
    old.execute("insert into frames (id, packed, data) values (1, 1, ?)", (packed,))
    old.execute("insert into contents values (?, 1, 0, ?)", (digest(TEXT), len(TEXT)))
    old.execute("pragma user_version = 1")
    old.close()
    store = CheckpointStore(path)
    new = TEXT + b"# more\n"
    with store.frame_writer() as keep:
        for content in (TEXT, new):
            keep(digest(content), content)
    assert [store.content(digest(content)) for content in (TEXT, new)] == [TEXT, new]
    other = sqlite3.connect(path)
    assert other.execute("select packed, length(data) < 200 from frames order by id").fetchall() == [(1, 1), (2, 1)]
    other.close()
    store.close()


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c" / "checkpoints.db"
    CheckpointStore(path).close()
    later = sqlite3.connect(path)
    later.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
    later.close()
    with pytest.raises(StoreError) as refused:
        CheckpointStore(path)
    assert refused.value.reason == "newer"


def test_a_damaged_frame_is_told_as_damage(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "c" / "checkpoints.db")
    with store.frame_writer() as keep:
        keep(digest(TEXT), TEXT)
    other = sqlite3.connect(store.path)
    other.execute("update frames set data = zeroblob(20)")
    other.commit()
    other.close()
    with pytest.raises(StoreError) as refused:
        store.content(digest(TEXT))
    assert refused.value.reason == "corrupt"
    store.close()


@pytest.mark.parametrize("is_compressible", [True, False])
def test_bytes_behind_the_last_used_content_of_a_frame_are_freed_before_points_are(
    tmp_path: Path, is_compressible: bool
) -> None:
    store = CheckpointStore(tmp_path / "c" / "checkpoints.db")
    noise = Random(1).randbytes(3_000_000)
    used, unused = noise[:5000], noise.hex().encode() if is_compressible else noise
    with store.transaction():
        store.put([(digest(used), used), (digest(unused), unused)])
        point = store.add_point("s", 0, "turn", "done", "")
        store.add_paths(point, (), [digest(used)])
    assert store.size > 3_000_000
    assert store.collect_garbage(1_000_000, ()) == 0
    assert ([one.id for one in store.points()], store.content(digest(used))) == ([point], used)
    assert store.size < 100_000
    store.close()


def test_a_database_that_another_process_creates_meanwhile_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c" / "checkpoints.db"
    begin = CheckpointStore.transaction

    def begin_later(store: CheckpointStore) -> AbstractContextManager[None]:
        monkeypatch.undo()
        CheckpointStore(path).close()
        return begin(store)

    monkeypatch.setattr(CheckpointStore, "transaction", begin_later)
    store = CheckpointStore(path)
    assert (store.newest_point(), store.is_intact()) == (0, True)
    store.close()
