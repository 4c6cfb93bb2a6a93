"""Session bundles: zip files that contain a manifest, rows as JSON lines, and the outputs' blobs, named by digest."""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from ebbtide.agent.errors import StoreFailed, UsageError
from ebbtide.tools.files.bounded import open_regular_file

FORMAT_NAME, FORMAT_VERSION = "ebbtide session", 1

MAX_ROW_BYTES = 1 << 24
"""Maximum size of a row, in bytes. Real rows are smaller. Limits how much data a small file can expand to."""
MAX_NESTED_VALUES = 2_000_000
"""Maximum number of lists and objects in one row. They take far more space in memory than in the file."""
_MANIFEST_BASE_BYTES, _MANIFEST_BYTES_PER_FILE = 1 << 16, 256
"""Maximum size of a manifest, in bytes: a fixed part, and an allowance for each file that it lists."""
_CHUNK_BYTES = 1 << 18
_COMPRESSION_LEVEL = 1
_MANIFEST = "manifest.json"
_MEMBER_NAME = re.compile(r"manifest\.json|rows/[a-z]+\.jsonl|blobs/[0-9a-f]{64}")


class InvalidBundleError(UsageError):
    """The file is not an exported session, is damaged, or was written by a newer version."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The rows of one table."""

    count: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    session: Mapping[str, Any]
    rows: Mapping[str, TableEntry]
    blobs: Mapping[str, int]
    """Size in bytes by digest."""
    exported: float
    """Unix seconds."""


class BundleWriter:
    """Writes a bundle sequentially; `finish` completes it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL)
        self._rows: dict[str, TableEntry] = {}
        self._blobs: dict[str, int] = {}

    def add_blob(self, digest: str, size: int, chunks: Iterable[bytes]) -> None:
        """Add a blob. Raises `StoreFailed` if the data does not match the digest; the bundle is then invalid."""
        hasher = hashlib.sha256()
        with self._zip.open(_zip_entry(f"blobs/{digest}"), "w", force_zip64=size >= 1 << 30) as entry:
            for chunk in chunks:
                hasher.update(chunk)
                entry.write(chunk)
        if hasher.hexdigest() != digest:
            raise StoreFailed(f"the output `{digest[:12]}` changed during the export; export again", "corrupt")
        self._blobs[digest] = size

    def add_rows(self, table: str, rows: Iterable[Mapping[str, object]]) -> None:
        count, hasher = 0, hashlib.sha256()
        with self._zip.open(_zip_entry(f"rows/{table}.jsonl"), "w", force_zip64=True) as entry:
            for line in map(encode_row, rows):
                hasher.update(line)
                entry.write(line)
                count += 1
        self._rows[table] = TableEntry(count, hasher.hexdigest())

    def finish(self, session: Mapping[str, object], now: float) -> Manifest:
        manifest = Manifest(session, self._rows, self._blobs, now)
        body = {"format": FORMAT_NAME, "version": FORMAT_VERSION, **asdict(manifest)}
        self._zip.writestr(_zip_entry(_MANIFEST), json.dumps(body, ensure_ascii=True, indent=1))
        self._zip.close()
        return manifest

    def close(self) -> None:
        """Close an unfinished bundle; its file must still be open. Does nothing after `finish`."""
        with suppress(OSError, ValueError):
            self._zip.close()


def encode_row(row: Mapping[str, object]) -> bytes:
    """Encode a row as a line of the file."""
    return json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def sha256_of(chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def is_digest(text: str) -> bool:
    """Whether text has the form of a blob digest."""
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def _zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry._compresslevel = _COMPRESSION_LEVEL  # type: ignore[attr-defined]  # zipfile has no public name for it before 3.13
    entry.external_attr = 0o600 << 16
    return entry


class Bundle:
    """A bundle opened for reading. Every method can raise `InvalidBundleError`. Nothing is ever written to a path taken
    from the bundle."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = open_regular_file(path)
        except OSError as error:
            raise InvalidBundleError(f"cannot read `{path}`: {error.strerror or error}") from error
        try:
            self.manifest = self._open_manifest()
        except BaseException:
            self._file.close()
            raise

    def _open_manifest(self) -> Manifest:
        try:
            self._zip = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise InvalidBundleError(
                f"`{self._path}` is not an exported session, or only a part of one: {error}; export it again"
            ) from error
        names = self._zip.namelist()
        for name in names:
            if name.startswith("/") or "\\" in name or ".." in name.split("/"):
                raise InvalidBundleError(
                    f"`{self._path}` was not imported: it contains `{name}`, a path outside its folder"
                )
        if _MANIFEST not in names:
            raise InvalidBundleError(f"`{self._path}` is not an exported session: it has no `{_MANIFEST}`")
        manifest = self._read_manifest(len(names))
        if any(not _MEMBER_NAME.fullmatch(name) for name in names) or len(set(names)) < len(names):
            raise self.damage_error("it contains files that do not belong to a session")
        declared_names = {_MANIFEST, *(f"rows/{table}.jsonl" for table in manifest.rows)}
        declared_names |= {f"blobs/{digest}" for digest in manifest.blobs}
        undeclared = next((name for name in names if name not in declared_names), None)
        if undeclared is not None:
            raise self.damage_error(f"its manifest does not list `{Path(undeclared).stem[:12]}`")
        return manifest

    def _read_manifest(self, file_count: int) -> Manifest:
        max_bytes = _MANIFEST_BASE_BYTES + file_count * _MANIFEST_BYTES_PER_FILE
        with self._translated_errors(), self._zip.open(_MANIFEST) as entry:
            data = entry.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise self.damage_error("its manifest is larger than its content")
        try:
            body = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.damage_error(f"its manifest cannot be read: {error}") from error
        if not isinstance(body, dict) or body.get("format") != FORMAT_NAME or not isinstance(body.get("version"), int):
            raise InvalidBundleError(f"`{self._path}` is not an exported session")
        if body["version"] > FORMAT_VERSION:
            raise InvalidBundleError(
                f"`{self._path}` has version {body['version']} of the format, but this program supports only "
                f"{FORMAT_VERSION}: update this program"
            )
        try:
            rows = {
                str(table): TableEntry(int(table_entry["count"]), str(table_entry["sha256"]))
                for table, table_entry in body["rows"].items()
            }
            blobs = {str(digest): int(size) for digest, size in body["blobs"].items()}
            manifest = Manifest(dict(body["session"]), rows, blobs, float(body["exported"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise self.damage_error("its manifest does not list its content") from error
        if not all(is_digest(digest) and size >= 0 for digest, size in blobs.items()):
            raise self.damage_error("its manifest names an output without a valid digest")
        return manifest

    def count(self, table: str) -> int:
        """Return the number of rows of a table, according to the manifest."""
        return self._part(table).count

    def rows(self, table: str) -> Iterator[object]:
        """Yield the row on each line. Some damage is detected only after the last line."""
        expected = self._part(table)
        count, hasher = 0, hashlib.sha256()
        for line in self._lines(f"rows/{table}.jsonl"):
            hasher.update(line)
            count += 1
            if line.count(b"[") + line.count(b"{") > MAX_NESTED_VALUES:
                raise self.damage_error(f"line {count} of `{table}` is not a valid row")
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self.damage_error(f"line {count} of `{table}` cannot be read: {error}") from error
            yield row
        if (count, hasher.hexdigest()) != (expected.count, expected.sha256):
            raise self.damage_error(f"`{table}` does not match its manifest")

    def _part(self, table: str) -> TableEntry:
        if table not in self.manifest.rows:
            raise self.damage_error(f"its manifest does not list `{table}`")
        return self.manifest.rows[table]

    def _lines(self, name: str) -> Iterator[bytes]:
        with self._translated_errors(), self._zip.open(name) as entry:
            while line := entry.readline(MAX_ROW_BYTES):
                if len(line) >= MAX_ROW_BYTES:
                    raise self.damage_error(f"`{name}` has a line of more than {MAX_ROW_BYTES >> 20} MiB")
                if not line.endswith(b"\n"):
                    raise self.damage_error(f"`{name}` ends in the middle of a line")
                yield line

    def blob_chunks(self, digest: str) -> Iterator[bytes]:
        """Yield the bytes of an output in chunks, up to the size in the manifest."""
        remaining = self.manifest.blobs.get(digest, -1)
        if remaining < 0:
            raise self.damage_error(f"the output `{digest[:12]}` is missing")
        with self._translated_errors(), self._zip.open(f"blobs/{digest}") as entry:
            while chunk := entry.read(_CHUNK_BYTES):
                remaining -= len(chunk)
                if remaining < 0:
                    raise self.damage_error(f"the output `{digest[:12]}` is longer than the manifest says")
                yield chunk

    def close(self) -> None:
        self._zip.close()
        self._file.close()

    def damage_error(self, problem: str) -> InvalidBundleError:
        """Return the error to raise for a damaged file."""
        return InvalidBundleError(
            f"`{self._path}` is damaged and was not imported: {problem}; export the session again"
        )

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
            raise self.damage_error(str(error)) from error
        except OSError as error:
            raise InvalidBundleError(f"cannot read `{self._path}`: {error.strerror or error}") from error
