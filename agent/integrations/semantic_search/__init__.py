"""Semantic search: a local model, its vectors, and their ranking. Loaded on first use."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.integrations.semantic_search import embedding_index as embedding_index
else:
    __getattr__ = lazy_submodules(__name__)
