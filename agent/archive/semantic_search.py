"""Search by meaning, merged with search by words. Vectors are computed at search time by a local model; the
similarity threshold is set here."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.agent.archive.embeddings import Embedder
from ebbtide.agent.archive.indexer import Indexer
from ebbtide.agent.archive.vector_index import QuantizedVectors, quantized
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.queries import SearchQuery, path_pattern
from ebbtide.store.search import SearchHit, SearchIndex, SearchMatch
from ebbtide.store.sessions import SessionStore
from ebbtide.store.vectors import UnembeddedDocument, Vector, VectorStore
from ebbtide.tools.outputs.recalled import OnProgress, no_progress

PART = 1000
"""Longest text of one vector, in characters."""

FIRST, LAST = 6, 2
"""Parts at the beginning and end of a long text that get vectors."""

BATCH = 50
"""Documents read at once; in between, others can use the database."""

MAX_VECTORS = 500_000
"""Newest vectors that are searched: about 35 MB of memory at 256 dimensions."""

MAX_COMPARED_VECTORS = 1000
"""Vectors that are compared exactly: those whose sign bits differ least from the query's."""

CANDIDATES = 50
"""Ranks of each ranking that are merged."""

NEAR = 0.2
"""Cosine similarity above which a text is found by meaning alone."""


class EmbeddingIndex:
    """Searches by words and by meaning. Raises `StoreFailed`."""

    def __init__(self, thread: StoreThread, store: SessionStore, embedder: Embedder) -> None:
        self._thread = thread
        self._embedder = embedder
        self._vectors = VectorStore(store, f"{embedder.fingerprint}:{PART}:{FIRST}:{LAST}")
        self._sketches = QuantizedVectors(MAX_VECTORS)
        self._state = (0, 0)

    async def find(
        self, indexer: Indexer, wanted: SearchQuery, told: OnProgress = no_progress
    ) -> tuple[SearchMatch, ...]:
        """The documents that contain the words or are similar in meaning, best first; those with all words come
        first."""
        return await indexer.retry_after_repair(lambda: self._find(indexer.index, wanted, told), told)

    async def _find(self, index: SearchIndex, wanted: SearchQuery, told: OnProgress) -> tuple[SearchMatch, ...]:
        total, done = await self._thread.run(self._waiting), 0
        while done < total:
            read = await self._thread.run(self._read_more)
            done = min(done + read, total) if read else total
            told(done, total)
        return await self._thread.run(self._ranked_matches, index, wanted)

    def _ranked_matches(self, index: SearchIndex, wanted: SearchQuery) -> tuple[SearchMatch, ...]:
        count = max(CANDIDATES, wanted.limit)
        return index.read(merge_rankings(index.ranked_hits(wanted, count), self._near(wanted, count))[: wanted.limit])

    def _waiting(self) -> int:
        self._vectors.prepare()
        return self._vectors.unembedded_count()

    def _read_more(self) -> int:
        """Compute vectors for the next documents. Return how many."""
        unread = self._vectors.unembedded_documents(BATCH)
        if unread:
            self._vectors.add(self._vectors_of(unread))
        return len(unread)

    def _vectors_of(self, unread: Sequence[UnembeddedDocument]) -> list[Vector]:
        parts = [(one, start, end) for one in unread for start, end in parts_of(one.text)]
        rows = self._embedder.embed([f"{one.title}\n{one.text[start:end]}" for one, start, end in parts])
        bodies, sketches = pack_int8(rows), quantized(rows)
        return [
            Vector(one.id, start, end, sketch.tobytes(), body.tobytes())
            for (one, start, end), sketch, body in zip(parts, sketches, bodies, strict=True)
        ]

    def _near(self, wanted: SearchQuery, count: int) -> list[SearchHit]:
        """The most similar documents, each by its most similar part."""
        query = self._embedder.embed([wanted.words])
        self._refresh()

        def paths_like(paths: list[str]) -> frozenset[str]:
            return self._vectors.paths_like(paths, path_pattern(wanted.path))

        ids = self._sketches.nearest(quantized(query), wanted, paths_like, MAX_COMPARED_VECTORS)
        rows = self._vectors.bodies(ids)
        if not rows:
            return []
        bodies = np.frombuffer(b"".join(row[3] for row in rows), np.int8).reshape(len(rows), -1)
        nearness = cosines(bodies, query[0])
        best: dict[int, SearchHit] = {}
        for at in np.argsort(-nearness, kind="stable")[: np.count_nonzero(nearness >= NEAR)].tolist():
            document, start, end, _ = rows[at]
            best.setdefault(document, SearchHit(document, "meaning", part=(start, end)))
            if len(best) == count:
                break
        return list(best.values())

    def _refresh(self) -> None:
        """Load new sketches; reload all if any were removed."""
        state = self._vectors.state()
        if state == self._state:
            return
        before = len(self._sketches)
        self._sketches.add(self._vectors.quantized_vectors(self._sketches.last, MAX_VECTORS))
        grown = state[1] - self._state[1] == len(self._sketches) - before
        if state[0] != self._state[0] or not grown:
            self._sketches = QuantizedVectors(MAX_VECTORS)
            self._sketches.add(self._vectors.quantized_vectors(0, MAX_VECTORS))
        self._state = state


def pack_int8(rows: NDArray[np.float32]) -> NDArray[np.int8]:
    """Each row in one byte per number: its length is lost, its direction is kept."""
    largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-9)
    return np.asarray(np.rint(rows / largest * 127), np.int8)


def cosines(bodies: NDArray[np.int8], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine similarity of packed rows to a unit vector; zero for zero rows."""
    rows = bodies.astype(np.float32)
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1.0)
    return np.asarray(
        np.round(rows @ query / lengths, 4), np.float32
    )  # rounded, so that equal texts are equally similar


def parts_of(text: str) -> list[tuple[int, int]]:
    """The bounds of a text's parts, split at line or word ends; for a long text only those at both ends. At least
    one."""
    parts, start = list[tuple[int, int]](), 0
    while start < len(text) or not parts:
        end = min(start + PART, len(text))
        if end < len(text):
            line = text.rfind("\n", start + PART // 2, end)
            cut = line if line >= 0 else text.rfind(" ", start + PART // 2, end)
            end = cut + 1 if cut >= 0 else end
        parts.append((start, end))
        start = max(end, 1)
    return parts if len(parts) <= FIRST + LAST else [*parts[:FIRST], *parts[-LAST:]]


def merge_rankings(words: Sequence[SearchHit], near: Sequence[SearchHit]) -> list[SearchHit]:
    """Merge both rankings. Documents with all words come first, then those with the words as parts of longer words."""
    scores = reciprocal_rank_fusion([hit.id for hit in words], [hit.id for hit in near])
    hits = {hit.id: hit for hit in (*near, *words)}
    tiers = {"words": 0, "parts": 1}
    order = [*dict.fromkeys(hit.id for hit in (*words, *near))]
    return sorted((hits[id] for id in order), key=lambda hit: (tiers.get(hit.way, 2), -scores[hit.id]))


DAMPING = 60
"""Makes first ranks count little more than second ones: the constant of reciprocal rank fusion (Cormack, Clarke and
Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009)."""


def reciprocal_rank_fusion(*rankings: Sequence[int]) -> dict[int, float]:
    """The combined score of each item over several rankings, best first each. Only ranks count, so their scores need
    not be comparable."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, one in enumerate(ranking, 1):
            scores[one] = scores.get(one, 0.0) + 1 / (DAMPING + place)
    return scores
