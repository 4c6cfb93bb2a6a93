"""Bytes on disk, named by what they are. It knows files, not what refers to them.

A blob is written under another name and gets its own when it is settled, so a file that carries a digest was whole when
it got it. What has become of it since is checked by whoever reads it.
"""

import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ebbtide.store.blobfile import Blob, BlobReader, write_blob
from ebbtide.store.errors import StoreError, translate_os_errors


class Blobs:
    """Blobs in a folder. Its methods raise `StoreError`; they may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._incoming = folder / "incoming"

    def put(self, chunks: Iterable[bytes], owner: str) -> Blob:
        """Stores the bytes for an owner, without ever holding more than a few frames. The blob can be opened at once;
        it stays only if it is settled."""
        with translate_os_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._incoming.mkdir(mode=0o700, exist_ok=True)
            unfinished = self._incoming / f"{secrets.token_hex(8)}.part"
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with open(descriptor, "wb", buffering=0) as file:
                    blob = write_blob(file.write, chunks)
                    os.fsync(descriptor)
                self._place(blob.digest).parent.mkdir(mode=0o700, exist_ok=True)
                os.replace(unfinished, self._unsettled_path(blob.digest, owner))
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        return blob

    def settle(self, digest: str, owner: str) -> None:
        """Gives what the owner has put its place, also where a damaged file stands there. To be called in the
        transaction that writes down who needs it."""
        with translate_os_errors(self.folder):
            unsettled, place = self._unsettled_path(digest, owner), self._place(digest)
            place.parent.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):  # was settled before
                try:
                    os.replace(unsettled, place)
                except IsADirectoryError:
                    place.rename(self._incoming / f"{secrets.token_hex(8)}.aside")
                    os.replace(unsettled, place)

    def discard(self, digest: str, owner: str) -> None:
        """Removes what the owner has put and not settled."""
        with translate_os_errors(self.folder):
            self._unsettled_path(digest, owner).unlink(missing_ok=True)

    def open(self, digest: str) -> BlobReader:
        """Raises `StoreError`: "missing" when there is no such blob, "corrupt" when it is damaged."""
        for path in (self._place(digest), *self._incoming.glob(f"{digest}.*")):
            with suppress(FileNotFoundError):
                return BlobReader(path, digest)
        raise StoreError("missing", f"the stored output `{digest[:12]}` is not there any more")

    def remove(self, digest: str) -> int:
        """Bytes on disk that this made free."""
        with translate_os_errors(self.folder):
            place = self._place(digest)
            try:
                size = place.lstat().st_size
                place.unlink()
            except (FileNotFoundError, IsADirectoryError):  # what is no file is none of ours
                return 0
            with suppress(OSError):  # other blobs are in it
                place.parent.rmdir()
            return size

    def sizes(self) -> dict[str, int]:
        """The digests of all settled blobs, and what each takes on disk."""
        with translate_os_errors(self.folder):
            return {
                path.name: path.lstat().st_size
                for path in self.folder.glob("[0-9a-f][0-9a-f]/*")
                if len(path.name) == 64
            }

    def forget_unsettled(self, before: float, is_open: Callable[[str], bool] = lambda owner: False) -> None:
        """Removes what was put before that time, in Unix seconds, and never settled, when its owner is not open any
        more: its process was killed."""
        with translate_os_errors(self.folder):
            for path in self._incoming.glob("*"):
                with suppress(FileNotFoundError, IsADirectoryError):
                    if path.lstat().st_mtime < before and not is_open(path.name.partition(".")[2]):
                        path.unlink()

    def _place(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest

    def _unsettled_path(self, digest: str, owner: str) -> Path:
        return self._incoming / f"{digest}.{owner}"
