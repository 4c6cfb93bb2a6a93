"""Semantic search with a static model on this machine."""

from ebbtide.agent.integrations import semantic_search
from ebbtide.agent.integrations.semantic_search.embeddings import Embedder, find_model_problem
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.sessions import SessionStore


class SemanticSearchBackend:
    def find_model_problem(self, model: str) -> str:
        return find_model_problem(model)

    def open_index(
        self, store_thread: StoreThread, store: SessionStore, model: str
    ) -> "semantic_search.embedding_index.EmbeddingIndex":
        return semantic_search.embedding_index.EmbeddingIndex(store_thread, store, Embedder(model))


SEMANTIC_SEARCH = SemanticSearchBackend()
