"""Checks the model for search by meaning, for `ebb doctor`."""

from collections.abc import Iterator, Mapping

from ebbtide.agent.archive.meaning_search import EmbeddingFailed
from ebbtide.agent.config.values import Config
from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.integrations.semantic_search.embeddings import Embedder, model_folder


def check_embedding_model(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    setting = config.recall_embedding_model
    if setting is None:
        return
    try:
        embedder = Embedder(setting)
    except EmbeddingFailed as error:
        yield CheckResult("meanings", "broken", str(error))
    else:
        yield CheckResult(
            "meanings", "well", f"`{model_folder(setting)}` returns vectors of {embedder.dimension_count:,} numbers"
        )
