"""An in-memory index of quantised vectors: one sign bit per number, plus the fields that a search filters by. The
nearest vectors are found by counting differing bits, which reads a sixteenth as much data as the full vectors."""

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ebbtide.store.queries import SearchQuery
from ebbtide.store.vectors import QuantizedVector


@lru_cache(maxsize=1)
def _rotation(size: int) -> NDArray[np.float32]:
    """Return a fixed random rotation. Most models concentrate information in the first numbers of a vector; the
    rotation spreads it, so that every sign bit is equally informative."""
    orthogonal, upper = np.linalg.qr(np.random.default_rng(0).standard_normal((size, size)))
    return np.asarray(orthogonal * np.sign(np.diag(upper)), dtype=np.float32)


def quantize(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return the sign bits of each row after a rotation, packed into 64-bit words."""
    bits = np.packbits(vectors @ _rotation(vectors.shape[1]) > 0, axis=1)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


class InternTable:
    """Maps texts to numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def intern(self, text: str) -> int:
        """Return the number of a string, assigning a new number on first use."""
        return self.numbers.setdefault(text, len(self.numbers))

    def known_numbers(self, texts: Iterable[str]) -> list[int]:
        """Return the numbers already assigned to these texts."""
        return [self.numbers[text] for text in texts if text in self.numbers]


class QuantizedVectors:
    """The newest vectors, up to a limit."""

    def __init__(self, max_vectors: int) -> None:
        self._max_vectors = max_vectors
        self.last_id = 0
        """The id of the newest vector."""
        self._session_table = InternTable()
        self._kind_table = InternTable()
        self._tool_table = InternTable()
        self._path_table = InternTable()
        self._projects: dict[str, list[int]] = {}
        """Session numbers of each project."""
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._created: NDArray[np.float64] = np.zeros(0, np.float64)
        self._filter_numbers: NDArray[np.int32] = np.zeros((0, 4), np.int32)
        """For each vector, the numbers of its session, kind, tool and path."""
        self._bits: NDArray[np.uint64] = np.zeros((0, 0), np.uint64)

    def __len__(self) -> int:
        return len(self._bits)

    def add(self, vectors: Iterable[QuantizedVector]) -> None:
        """Add newer vectors, and drop the oldest if there are too many."""
        new_vectors = list(vectors)
        if not new_vectors:
            return
        for vector in new_vectors:
            if vector.session not in self._session_table.numbers:
                self._projects.setdefault(vector.project, []).append(self._session_table.intern(vector.session))
        numbers = [
            (
                self._session_table.intern(vector.session),
                self._kind_table.intern(vector.kind),
                self._tool_table.intern(vector.tool),
                self._path_table.intern(vector.path),
            )
            for vector in new_vectors
        ]
        bits = np.frombuffer(b"".join(vector.sketch for vector in new_vectors), np.uint64).reshape(len(new_vectors), -1)
        self._bits = (
            np.concatenate((self._bits, bits))[-self._max_vectors :] if len(self) else bits[-self._max_vectors :]
        )
        self._ids = np.append(self._ids, [vector.id for vector in new_vectors])[-self._max_vectors :]
        self._created = np.append(self._created, [vector.created for vector in new_vectors])[-self._max_vectors :]
        self._filter_numbers = np.concatenate((self._filter_numbers, np.array(numbers, np.int32)))[-self._max_vectors :]
        self.last_id = new_vectors[-1].id

    def nearest(
        self,
        query: NDArray[np.uint64],
        filters: SearchQuery,
        match_paths: Callable[[list[str]], Iterable[str]],
        max_count: int,
    ) -> list[int]:
        """Find the vectors that pass the filters and differ from the query in the fewest bits. Returns their ids,
        unordered."""
        if not len(self):
            return []
        mask = self._filter_mask(filters, match_paths)
        bits, ids = self._bits, self._ids
        if mask is not None:
            bits, ids = bits[mask], ids[mask]
        if len(ids) > max_count:
            distances = np.bitwise_count(bits ^ query).sum(axis=1, dtype=np.uint16)
            ids = ids[np.argpartition(distances, max_count)[:max_count]]
        return [int(vector_id) for vector_id in ids]

    def _filter_mask(
        self, filters: SearchQuery, match_paths: Callable[[list[str]], Iterable[str]]
    ) -> NDArray[np.bool_] | None:
        """Return a mask of the vectors that pass the filters; None if there are no filters."""
        session_numbers, kind_numbers, tool_numbers, path_numbers = self._filter_numbers.T
        masks: list[NDArray[np.bool_]] = []
        if filters.sessions:
            masks.append(np.isin(session_numbers, self._session_table.known_numbers(filters.sessions)))
        if filters.project is not None:
            masks.append(np.isin(session_numbers, self._projects.get(filters.project, [])))
        if filters.kinds:
            masks.append(np.isin(kind_numbers, self._kind_table.known_numbers(filters.kinds)))
        if filters.tool:
            masks.append(np.isin(tool_numbers, self._tool_table.known_numbers([filters.tool])))
        if filters.path:
            masks.append(
                np.isin(path_numbers, self._path_table.known_numbers(match_paths(list(self._path_table.numbers))))
            )
        if filters.since is not None:
            masks.append(self._created >= filters.since)
        if filters.until is not None:
            masks.append(self._created < filters.until)
        return np.logical_and.reduce(masks) if masks else None
