"""Checks the model for semantic search, for `ebb doctor`."""

from collections.abc import Iterator, Mapping

from ebbtide.agent.archive.semantic_search import EmbeddingFailed
from ebbtide.agent.config.values import Config
from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.integrations.semantic_search.embeddings import Embedder, resolve_model_folder


def check_embedding_model(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    model_path = config.recall_embedding_model
    if model_path is None:
        return
    try:
        embedder = Embedder(model_path)
    except EmbeddingFailed as error:
        yield CheckResult("meanings", "broken", str(error))
    else:
        yield CheckResult(
            "meanings",
            "well",
            f"`{resolve_model_folder(model_path)}` returns vectors of {embedder.dimension_count:,} numbers",
        )
