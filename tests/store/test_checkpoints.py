"""Contents of files in the database of checkpoints: what earlier versions wrote is read on."""

import hashlib
import sqlite3
import zlib
from pathlib import Path

import pytest

from ebbtide.store.checkpoints import VERSION, CheckpointStore
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
    later.execute(f"pragma user_version = {VERSION + 1}")
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
