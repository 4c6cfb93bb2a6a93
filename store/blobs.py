"""Stores bytes on disk under their digest.

A blob is first written under a temporary name. `commit` renames it to its digest, so a file named by a digest was
complete when it was committed. Readers detect later damage.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ebbtide.store.blobfile import Blob, BlobReader, write_blob
from ebbtide.store.errors import StoreError, translate_os_errors

_FOLDER_NAME = re.compile("[0-9a-f]{2}")


class BlobStore:
    """The blobs in a folder. Methods raise `StoreError` and may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unsettled_folder = folder / "incoming"

    def put(self, chunks: Iterable[bytes], owner: str) -> Blob:
        """Store chunks for an owner, keeping only a few frames in memory. The blob can be opened immediately, but it is
        not permanent until `commit` is called."""
        with translate_os_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._unsettled_folder.mkdir(mode=0o700, exist_ok=True)
            unfinished = self._unsettled_folder / f"{secrets.token_hex(8)}.part"
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with open(descriptor, "wb", buffering=0) as file:
                    blob = write_blob(file.write, chunks)
                    os.fsync(descriptor)
                self._blob_path(blob.digest).parent.mkdir(mode=0o700, exist_ok=True)
                os.replace(unfinished, self._unsettled_path(blob.digest, owner))
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        return blob

    def commit(self, digest: str, owner: str) -> None:
        """Make an owner's uncommitted blob permanent, replacing any damaged file of that digest. Call this in the
        transaction that records the use of the blob."""
        with translate_os_errors(self.folder):
            unsettled, blob_path = self._unsettled_path(digest, owner), self._blob_path(digest)
            blob_path.parent.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):  # the blob is already settled
                try:
                    os.replace(unsettled, blob_path)
                except IsADirectoryError:
                    blob_path.rename(self._unsettled_folder / f"{secrets.token_hex(8)}.aside")
                    os.replace(unsettled, blob_path)

    def discard(self, digest: str, owner: str) -> None:
        """Remove a blob that the owner has put but not committed."""
        with translate_os_errors(self.folder):
            self._unsettled_path(digest, owner).unlink(missing_ok=True)

    def open(self, digest: str) -> BlobReader:
        """Open a blob. Raises `StoreError` ("missing" or "corrupt")."""
        for path in (self._blob_path(digest), *self._unsettled_folder.glob(f"{digest}.*")):
            with suppress(FileNotFoundError):
                return BlobReader(path, digest)
        raise StoreError("missing", f"the stored output `{digest[:12]}` no longer exists")

    def remove(self, digest: str) -> int:
        """Remove a blob and return the disk space freed, in bytes."""
        with translate_os_errors(self.folder):
            blob_path = self._blob_path(digest)
            try:
                size = blob_path.lstat().st_size
                blob_path.unlink()
            except (FileNotFoundError, IsADirectoryError):  # there is no such blob
                return 0
            with suppress(OSError):  # the folder contains other blobs
                blob_path.parent.rmdir()
            return size

    def sizes(self) -> dict[str, int]:
        """Get the size on disk of every committed blob, by digest."""
        with translate_os_errors(self.folder):
            return {entry.name: entry.stat(follow_symlinks=False).st_size for entry in self._committed_files()}

    def digests(self) -> frozenset[str]:
        """Get the digests of all committed blobs."""
        with translate_os_errors(self.folder):
            return frozenset(entry.name for entry in self._committed_files())

    def _committed_files(self) -> Iterator["os.DirEntry[str]"]:
        # `glob` would take several times as long, and stores have tens of thousands of blobs.
        with suppress(FileNotFoundError), os.scandir(self.folder) as folders:
            for folder in folders:
                if _FOLDER_NAME.fullmatch(folder.name) and folder.is_dir():
                    with os.scandir(folder) as entries:
                        yield from (entry for entry in entries if len(entry.name) == 64)

    def remove_uncommitted(self, before: float, is_open: Callable[[str], bool] = lambda owner: False) -> None:
        """Remove blobs that were put before a time (Unix seconds) and never committed. Blobs whose owner is still open
        are kept; an owner that is not open has been killed."""
        with translate_os_errors(self.folder):
            for path in self._unsettled_folder.glob("*"):
                with suppress(FileNotFoundError, IsADirectoryError):
                    if path.lstat().st_mtime < before and not is_open(path.name.partition(".")[2]):
                        path.unlink()

    def _blob_path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest

    def _unsettled_path(self, digest: str, owner: str) -> Path:
        return self._unsettled_folder / f"{digest}.{owner}"
