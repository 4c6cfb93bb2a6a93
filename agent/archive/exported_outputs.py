"""Writes the outputs of a session to a bundle, each once, with its secrets masked if requested."""

import hashlib
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from ebbtide.agent.archive.bundle import BundleWriter, UnreadableContent
from ebbtide.agent.archive.content import LogFile
from ebbtide.agent.archive.export_mask import ExportMask
from ebbtide.store.blobs import Blobs
from ebbtide.store.errors import StoreError
from ebbtide.store.transfer import TransferRow


class ExportedOutputs:
    """Writes the blobs of outputs to a bundle, each once."""

    def __init__(
        self,
        blobs: Blobs | None,
        writer: BundleWriter,
        files: Mapping[tuple[int, str], str],
        mask: ExportMask | None = None,
    ) -> None:
        """`files`: plain files with outputs of earlier versions, by message and call. It may be filled later."""
        self._blobs = blobs
        self._writer = writer
        self._files = files
        self._mask = mask
        self._done: dict[str, bool] = {}
        self.left_out: list[str] = []

    def look_ahead(self, rows: Iterable[TransferRow]) -> None:
        """Find which outputs masking will change: messages refer to them by digest."""
        if self._mask is None or self._blobs is None:
            return
        for digest in dict.fromkeys(str(row["digest"]) for row in rows if row["digest"] is not None):
            with suppress(UnreadableContent, StoreError), closing(self._blobs.open(digest)) as reader:
                masked = _digest_of(self._mask.chunks(reader.chunks()))
                if masked != digest:
                    self._mask.digests[digest] = masked
        self._mask.count = 0  # counted again when written

    def exported_row(self, row: TransferRow) -> TransferRow:
        """The row as exported, after writing its bytes to the bundle. Unreadable content counts as removed."""
        digest = row["digest"]
        if digest is None:
            return self._from_file(row)
        if self._has(str(digest)):
            return {**row, "digest": self._masked_digest(str(digest))}
        self.left_out.append(f"r{row['number']}")
        return {**row, "digest": None, "removed": time.time()}

    def _has(self, digest: str) -> bool:
        if digest not in self._done:
            self._done[digest] = self._write_blob(digest)
        return self._done[digest]

    def _write_blob(self, digest: str) -> bool:
        if self._blobs is None:
            return False
        try:
            with closing(self._blobs.open(digest)) as reader:
                self._writer.blob(self._masked_digest(digest), reader.size, self._masked_chunks(reader.chunks()))
        except UnreadableContent:
            return False
        except StoreError as error:
            if error.reason not in ("missing", "corrupt", "unreadable"):
                raise
            return False
        return True

    def _from_file(self, row: TransferRow) -> TransferRow:
        """Convert an output in a plain file to a blob, since its path means nothing elsewhere."""
        path = self._files.get((int(row["position"] or 0), str(row["call"])))
        log = LogFile.open_if_exists(Path(path)) if path and row["part"] == 0 and row["removed"] is None else None
        if log is None:
            return row
        try:
            name = _digest_of(self._masked_chunks(log.chunks()))
            if name not in self._done:
                self._writer.blob(name, log.size, self._masked_chunks(log.chunks()))
                self._done[name] = True
            return {**row, "digest": name, "size": log.size, "lines": log.lines}
        except UnreadableContent:  # it grew in the meantime
            return row
        finally:
            log.close()

    def _masked_digest(self, digest: str) -> str:
        return self._mask.digests.get(digest, digest) if self._mask is not None else digest

    def _masked_chunks(self, chunks: Iterable[bytes]) -> Iterable[bytes]:
        return self._mask.chunks(chunks) if self._mask is not None else chunks


def _digest_of(chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
