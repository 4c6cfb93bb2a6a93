"""Semantic search merged with word search. A local model computes the vectors at search time."""

import asyncio
import time
from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from ebbtide.agent.archive.indexer import Indexer
from ebbtide.agent.integrations.semantic_search.embeddings import Embedder
from ebbtide.agent.integrations.semantic_search.vector_index import QuantizedVectors, quantize
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.queries import SearchQuery, path_pattern
from ebbtide.store.search import SearchHit, SearchIndex, SearchMatch
from ebbtide.store.sessions import SessionStore
from ebbtide.store.vectors import UnembeddedDocument, Vector, VectorStore

PART_CHARS = 1000
"""Maximum length, in characters, of the text that one vector covers."""

LEADING_PART_COUNT, TRAILING_PART_COUNT = 6, 2
"""Number of parts at the beginning and at the end of a long text that get vectors."""

DOCUMENTS_PER_BATCH = 50
"""Number of documents embedded in one batch. Between batches, other tasks can use the database."""

MAX_VECTORS = 500_000
"""Maximum number of vectors that are searched, newest first: about 35 MB of memory at 256 dimensions."""

MAX_COMPARED_VECTORS = 1000
"""Number of vectors that are compared exactly: those whose sign bits differ least from the query's."""

CANDIDATES_PER_RANKING = 50
"""Number of top results taken from each ranking when merging."""

MIN_SIMILARITY = 0.2
"""Minimum cosine similarity of a match that does not contain the query's words."""


class EmbeddingIndex:
    """Searches by words and by meaning. Raises `StoreFailed`."""

    def __init__(self, store_thread: StoreThread, store: SessionStore, embedder: Embedder) -> None:
        self._store_thread = store_thread
        self._embedder = embedder
        self._vectors = VectorStore(
            store, f"{embedder.fingerprint}:{PART_CHARS}:{LEADING_PART_COUNT}:{TRAILING_PART_COUNT}"
        )
        self._quantized_vectors = QuantizedVectors(MAX_VECTORS)
        self._loaded_state = (0, 0)

    async def find(
        self, indexer: Indexer, search_query: SearchQuery, seconds: float = inf
    ) -> tuple[tuple[SearchMatch, ...], list[str]]:
        """Find documents that contain the words or are similar in meaning, best first. Documents with all of the words
        come first. First compute missing vectors for up to `seconds`; the rest are computed in the background, and a
        note says so."""
        return await indexer.retry_after_repair(lambda: self._find(indexer, search_query, seconds))

    async def _find(
        self, indexer: Indexer, search_query: SearchQuery, seconds: float
    ) -> tuple[tuple[SearchMatch, ...], list[str]]:
        await self._embed_missing(seconds)
        missing_count, notes = await self._store_thread.run(self._vectors.unembedded_count), list[str]()
        if missing_count:
            is_continuing = await indexer.index_in_background()
            rest = "they are being prepared" if is_continuing else "the next search continues with them"
            notes.append(f"{missing_count:,} texts cannot be found by meaning yet; {rest}")
        return await self._store_thread.run(self._ranked_matches, indexer.index, search_query), notes

    async def index_everything(self) -> None:
        """Compute all missing vectors. Pauses as long as it works."""
        await self._embed_missing(inf, pauses=True)

    async def _embed_missing(self, seconds: float, *, pauses: bool = False) -> None:
        deadline = time.monotonic() + seconds
        await self._store_thread.run(self._vectors.prepare)
        while True:
            start_time = time.monotonic()
            if not await self._store_thread.run(self._embed_batch):
                return
            end_time = time.monotonic()
            if end_time >= deadline:
                return
            await asyncio.sleep(end_time - start_time if pauses else 0)

    def _ranked_matches(self, index: SearchIndex, search_query: SearchQuery) -> tuple[SearchMatch, ...]:
        max_hits = max(CANDIDATES_PER_RANKING, search_query.limit)
        return index.read(
            merge_rankings(index.rank_hits(search_query, max_hits), self._similar_documents(search_query, max_hits))[
                : search_query.limit
            ]
        )

    def _embed_batch(self) -> int:
        """Compute vectors for the next batch of documents, and return the number of documents."""
        documents = self._vectors.unembedded_documents(DOCUMENTS_PER_BATCH)
        if documents:
            self._vectors.add(self._embed_documents(documents))
        return len(documents)

    def _embed_documents(self, documents: Sequence[UnembeddedDocument]) -> list[Vector]:
        parts = [(document, start, end) for document in documents for start, end in part_bounds(document.text)]
        rows = self._embedder.embed([f"{document.title}\n{document.text[start:end]}" for document, start, end in parts])
        packed_rows, quantized_rows = pack_int8(rows), quantize(rows)
        return [
            Vector(document.id, start, end, quantized_row.tobytes(), packed_row.tobytes())
            for (document, start, end), quantized_row, packed_row in zip(
                parts, quantized_rows, packed_rows, strict=True
            )
        ]

    def _similar_documents(self, search_query: SearchQuery, max_hits: int) -> list[SearchHit]:
        """Return the most similar documents, each with its most similar part."""
        query = self._embedder.embed([search_query.words])
        self._refresh()

        def paths_like(paths: list[str]) -> frozenset[str]:
            return self._vectors.paths_like(paths, path_pattern(search_query.path))

        vector_ids = self._quantized_vectors.nearest(quantize(query), search_query, paths_like, MAX_COMPARED_VECTORS)
        rows = self._vectors.vectors_by_id(vector_ids)
        if not rows:
            return []
        packed_rows = np.frombuffer(b"".join(row[3] for row in rows), np.int8).reshape(len(rows), -1)
        similarities = cosine_similarities(packed_rows, query[0])
        hits_by_document: dict[int, SearchHit] = {}
        for row_index in np.argsort(-similarities, kind="stable")[
            : np.count_nonzero(similarities >= MIN_SIMILARITY)
        ].tolist():
            document_id, start, end, _ = rows[row_index]
            hits_by_document.setdefault(document_id, SearchHit(document_id, "meaning", matched_range=(start, end)))
            if len(hits_by_document) == max_hits:
                break
        return list(hits_by_document.values())

    def _refresh(self) -> None:
        """Load new quantised vectors; reload all of them if any were removed."""
        version, count = self._vectors.version_and_count()
        loaded_version, loaded_count = self._loaded_state
        if (version, count) == (loaded_version, loaded_count):
            return
        previous_count = len(self._quantized_vectors)
        self._quantized_vectors.add(self._vectors.quantized_vectors(self._quantized_vectors.last_id, MAX_VECTORS))
        has_only_additions = count - loaded_count == len(self._quantized_vectors) - previous_count
        if version != loaded_version or not has_only_additions:
            self._quantized_vectors = QuantizedVectors(MAX_VECTORS)
            self._quantized_vectors.add(self._vectors.quantized_vectors(0, MAX_VECTORS))
        self._loaded_state = (version, count)


def pack_int8(rows: NDArray[np.float32]) -> NDArray[np.int8]:
    """Pack each row into one byte per number. The row keeps its direction, but not its length."""
    row_maxima = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-9)
    return np.asarray(np.rint(rows / row_maxima * 127), np.int8)


def cosine_similarities(packed_rows: NDArray[np.int8], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosine similarity of each packed row to a unit vector; zero for zero rows."""
    rows = packed_rows.astype(np.float32)
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1.0)
    return np.asarray(np.round(rows @ query / lengths, 4), np.float32)  # rounded, so that equal texts get equal scores


def part_bounds(text: str) -> list[tuple[int, int]]:
    """Split text into parts at line or word boundaries, and return the parts' bounds. For long text, only the first and
    last parts are included. Empty text has one empty part."""
    parts, start = list[tuple[int, int]](), 0
    while start < len(text) or not parts:
        end = min(start + PART_CHARS, len(text))
        if end < len(text):
            line_end = text.rfind("\n", start + PART_CHARS // 2, end)
            last_index = line_end if line_end >= 0 else text.rfind(" ", start + PART_CHARS // 2, end)
            end = last_index + 1 if last_index >= 0 else end
        parts.append((start, end))
        start = max(end, 1)
    return (
        parts
        if len(parts) <= LEADING_PART_COUNT + TRAILING_PART_COUNT
        else [*parts[:LEADING_PART_COUNT], *parts[-TRAILING_PART_COUNT:]]
    )


def merge_rankings(word_hits: Sequence[SearchHit], similar_hits: Sequence[SearchHit]) -> list[SearchHit]:
    """Merge both rankings. Documents with all words come first, then documents that contain the words only within
    longer words."""
    scores = reciprocal_rank_fusion([hit.id for hit in word_hits], [hit.id for hit in similar_hits])
    hits = {hit.id: hit for hit in (*similar_hits, *word_hits)}
    tiers = {"words": 0, "parts": 1}
    order = [*dict.fromkeys(hit.id for hit in (*word_hits, *similar_hits))]
    return sorted(
        (hits[document_id] for document_id in order), key=lambda hit: (tiers.get(hit.method, 2), -scores[hit.id])
    )


RRF_CONSTANT = 60
"""The constant of reciprocal rank fusion: the first rank counts only a little more than the second (Cormack, Clarke and
Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009)."""


def reciprocal_rank_fusion(*rankings: Sequence[int]) -> dict[int, float]:
    """Combine several rankings, each with the best item first, into one score per item. Only ranks count, so the scores
    of the rankings need not be comparable."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (RRF_CONSTANT + rank)
    return scores
