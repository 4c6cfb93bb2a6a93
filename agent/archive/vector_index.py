"""An in-memory index of quantised vectors: one sign bit per number, plus the fields that a search filters by. The
nearest are found by counting differing bits, which reads a sixteenth of the vectors' size."""

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ebbtide.store.queries import SearchQuery
from ebbtide.store.vectors import QuantizedVector


@lru_cache(maxsize=1)
def _rotation(size: int) -> NDArray[np.float32]:
    """A fixed random rotation. It spreads the information over all numbers, so that each sign is equally
    informative; most models concentrate it in the first ones."""
    turned, upper = np.linalg.qr(np.random.default_rng(0).standard_normal((size, size)))
    return np.asarray(turned * np.sign(np.diag(upper)), dtype=np.float32)


def quantized(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """The sign bits of each row after a rotation, packed into 64-bit words."""
    bits = np.packbits(vectors @ _rotation(vectors.shape[1]) > 0, axis=1)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


class InternTable:
    """Maps texts to numbers."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text, assigned on first use."""
        return self.known.setdefault(text, len(self.known))

    def of(self, texts: Iterable[str]) -> list[int]:
        """The numbers of those texts that have one."""
        return [self.known[text] for text in texts if text in self.known]


class QuantizedVectors:
    """The newest vectors, up to a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.last = 0
        """The id of the newest vector."""
        self._sessions, self._kinds, self._tools, self._paths = (
            InternTable(),
            InternTable(),
            InternTable(),
            InternTable(),
        )
        self._projects: dict[str, list[int]] = {}
        """Session numbers of each project."""
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._created: NDArray[np.float64] = np.zeros(0, np.float64)
        self._numbers: NDArray[np.int32] = np.zeros((0, 4), np.int32)
        """Numbers of session, kind, tool and path."""
        self._bits: NDArray[np.uint64] = np.zeros((0, 0), np.uint64)

    def __len__(self) -> int:
        return len(self._bits)

    def add(self, sketches: Iterable[QuantizedVector]) -> None:
        """Add newer vectors, dropping the oldest beyond the limit."""
        new = list(sketches)
        if not new:
            return
        for one in new:
            if one.session not in self._sessions.known:
                self._projects.setdefault(one.project, []).append(self._sessions.number(one.session))
        numbers = [
            (
                self._sessions.number(one.session),
                self._kinds.number(one.kind),
                self._tools.number(one.tool),
                self._paths.number(one.path),
            )
            for one in new
        ]
        bits = np.frombuffer(b"".join(one.sketch for one in new), np.uint64).reshape(len(new), -1)
        self._bits = np.concatenate((self._bits, bits))[-self._most :] if len(self) else bits[-self._most :]
        self._ids = np.append(self._ids, [one.id for one in new])[-self._most :]
        self._created = np.append(self._created, [one.created for one in new])[-self._most :]
        self._numbers = np.concatenate((self._numbers, np.array(numbers, np.int32)))[-self._most :]
        self.last = new[-1].id

    def nearest(
        self,
        query: NDArray[np.uint64],
        wanted: SearchQuery,
        paths_like: Callable[[list[str]], Iterable[str]],
        count: int,
    ) -> list[int]:
        """The ids of the vectors that pass the filters and differ from the query in the fewest bits, unordered."""
        if not len(self):
            return []
        chosen = self._passing(wanted, paths_like)
        bits, ids = self._bits, self._ids
        if chosen is not None:
            bits, ids = bits[chosen], ids[chosen]
        if len(ids) > count:
            distances = np.bitwise_count(bits ^ query).sum(axis=1, dtype=np.uint16)
            ids = ids[np.argpartition(distances, count)[:count]]
        return [int(id) for id in ids]

    def _passing(
        self, wanted: SearchQuery, paths_like: Callable[[list[str]], Iterable[str]]
    ) -> NDArray[np.bool_] | None:
        """A mask of the vectors that pass the filters; None if there are no filters."""
        sessions, kinds, tools, paths = self._numbers.T
        masks: list[NDArray[np.bool_]] = []
        if wanted.sessions:
            masks.append(np.isin(sessions, self._sessions.of(wanted.sessions)))
        if wanted.project is not None:
            masks.append(np.isin(sessions, self._projects.get(wanted.project, [])))
        if wanted.kinds:
            masks.append(np.isin(kinds, self._kinds.of(wanted.kinds)))
        if wanted.tool:
            masks.append(np.isin(tools, self._tools.of([wanted.tool])))
        if wanted.path:
            masks.append(np.isin(paths, self._paths.of(paths_like(list(self._paths.known)))))
        if wanted.since is not None:
            masks.append(self._created >= wanted.since)
        if wanted.until is not None:
            masks.append(self._created < wanted.until)
        return np.logical_and.reduce(masks) if masks else None
