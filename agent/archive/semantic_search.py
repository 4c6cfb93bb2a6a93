"""Interface for searching by meaning. An optional integration implements it."""

from typing import TYPE_CHECKING, Protocol, cast

from ebbtide.agent.errors import AgentError
from ebbtide.agent.integration_registry import SEMANTIC_SEARCHES, load_integration

if TYPE_CHECKING:  # imported for types only, because few runs search by meaning
    from ebbtide.agent.archive.indexer import Indexer
    from ebbtide.agent.records.store_thread import StoreThread
    from ebbtide.store.queries import SearchQuery
    from ebbtide.store.search import SearchMatch
    from ebbtide.store.sessions import SessionStore


class EmbeddingFailed(AgentError):
    """The embedding model cannot be used."""


class SemanticIndex(Protocol):
    async def find(
        self, indexer: "Indexer", query: "SearchQuery", seconds: float, /
    ) -> "tuple[tuple[SearchMatch, ...], list[str]]":
        """Return the documents that contain the words or are similar in meaning, best first, and notes about what could
        not be searched. First computes missing vectors for up to `seconds`. Raises `StoreFailed`."""

    async def index_everything(self) -> None:
        """Compute all missing vectors. Pauses as long as it works. Raises `StoreFailed`."""


class SemanticSearch(Protocol):
    def find_model_problem(self, model: str, /) -> str:
        """Return why the model cannot be loaded; empty if no problem is visible without loading it."""

    def open_index(self, thread: "StoreThread", store: "SessionStore", model: str, /) -> SemanticIndex:
        """Load the model. Raises `EmbeddingFailed`."""


class _NoSemanticSearch:
    def find_model_problem(self, model: str, /) -> str:
        return "search by meaning is not installed; searches use words only"

    def open_index(self, thread: "StoreThread", store: "SessionStore", model: str, /) -> SemanticIndex:
        raise EmbeddingFailed(self.find_model_problem(model))


def load_semantic_search() -> SemanticSearch:
    for object_path in SEMANTIC_SEARCHES.values():
        return cast(SemanticSearch, load_integration(object_path))
    return _NoSemanticSearch()
