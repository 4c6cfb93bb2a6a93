"""Writes the outputs of a session to a bundle, each once, with its secrets masked if requested."""

import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from ebbtide.agent.archive.content import LogFile
from ebbtide.agent.integrations.export.bundle import BundleWriter, sha256_of
from ebbtide.agent.integrations.export.export_mask import SecretMask
from ebbtide.store.blobs import BlobStore
from ebbtide.store.errors import StoreError
from ebbtide.store.transfer import TransferRow
from ebbtide.tools.outputs.stored_content import Content


class OutputWriter:
    """Writes the bytes of outputs to a bundle, each once."""

    def __init__(
        self,
        blobs: BlobStore | None,
        writer: BundleWriter,
        path_by_call: Mapping[tuple[int, str], str],
        mask: SecretMask,
    ) -> None:
        """`path_by_call` maps messages and calls to the plain files in which earlier versions stored outputs. Entries
        may still be added after construction."""
        self._blobs = blobs
        self._writer = writer
        self._files = path_by_call
        self._mask = mask
        self._written_digests: set[str] = set()
        self.unreadable: list[str] = []

    def prepare_digests(self, rows: Iterable[TransferRow]) -> None:
        """Determine which outputs can be read completely, and their digests after masking. Messages refer to outputs by
        digest."""
        if self._blobs is None:
            return
        for digest in dict.fromkeys(str(row["digest"]) for row in rows if row["digest"] is not None):
            with suppress(StoreError), closing(self._blobs.open(digest)) as reader:
                masked_digest = sha256_of(self._mask.mask_chunks(reader.chunks()))
                if self._mask.is_on or masked_digest == digest:
                    self._mask.digests[digest] = masked_digest
        self._mask.masked_count = 0  # the masked secrets are counted when they are written

    def export_row(self, row: TransferRow) -> TransferRow:
        """Write the bytes of an output to the bundle, and return the row to export for it. Unreadable content counts as
        removed."""
        if row["digest"] is None:
            return self._export_plain_file(row)
        digest = self._mask.digests.get(str(row["digest"]))
        if digest is None or self._blobs is None:
            self.unreadable.append(f"r{row['number']}")
            return {**row, "digest": None, "removed": time.time()}
        if digest not in self._written_digests:
            with closing(self._blobs.open(str(row["digest"]))) as reader:
                self._write(digest, reader)
        return {**row, "digest": digest}

    def _export_plain_file(self, row: TransferRow) -> TransferRow:
        """Convert an output in a plain file to a blob, because its path is meaningless on another machine."""
        path = self._files.get((int(row["position"] or 0), str(row["call"])))
        log = LogFile.open_if_exists(Path(path)) if path and row["part"] == 0 and row["removed"] is None else None
        if log is None:
            return row
        with closing(log):
            digest = sha256_of(self._mask.mask_chunks(log.chunks()))
            if digest not in self._written_digests:
                self._write(digest, log)
            return {**row, "digest": digest, "size": log.size, "lines": log.lines}

    def _write(self, digest: str, content: Content) -> None:
        self._writer.add_blob(digest, content.size, self._mask.mask_chunks(content.chunks()))
        self._written_digests.add(digest)
