"""A local model that converts texts to vectors. It uses no network, and its libraries are imported on first use."""

import hashlib
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.archive.semantic_search import EmbeddingFailed
from ebbtide.tools.process.install_command import install_command

if TYPE_CHECKING:  # imported for types only, because few runs search by meaning
    import numpy as np
    from numpy.typing import NDArray

SETTING_KEY = "recall.embedding_model"
MODEL_FILES = (
    "config.json",
    "config_sentence_transformers.json",
    "model.safetensors",
    "tokenizer.json",
    "0_StaticEmbedding/model.safetensors",
    "0_StaticEmbedding/tokenizer.json",
)
"""The files of a static model."""
TYPICAL_TEXTS = (
    "please fix the bug",
    "the tests fail with an error in the parser",
    "I changed the function and ran it again",
    "what does this file do",
    "it works now, thank you",
    "add an option to the command line",
    "def main():\n    return 0",
    "import os\nimport sys",
    "total 12\ndrwxr-xr-x 2 user user 4096",
    "error: cannot find module",
    "the user asked for a list of files and what they hold",
    "update the documentation and the changelog",
    "we should not do this because it is slow",
    "git commit and push to the branch",
    "create a new class with a method that returns the value",
)
"""Texts that are typical of sessions. Their mean vector is subtracted from other vectors, because all texts resemble it
regardless of topic."""
WORDS_ONLY_NOTICE = "searches use words only"


def resolve_model_folder(model_path: str) -> Path:
    """Return the model's folder as an absolute path, so that the library does not treat it as a model name to
    download."""
    return Path(os.path.abspath(os.path.expanduser(model_path)))


def find_model_problem(model_path: str) -> str:
    """Return why the model cannot be loaded; empty if no problem is found. Checks only files and packages, without
    loading the model."""
    folder = resolve_model_folder(model_path)
    if not folder.is_dir():
        return f"`{SETTING_KEY}`: folder `{folder}` not found (models are not downloaded); {WORDS_ONLY_NOTICE}"
    if not any((folder / name).is_file() for name in MODEL_FILES if name.endswith("safetensors")):
        return f"`{SETTING_KEY}`: `{folder}` contains no static model (`model.safetensors`); {WORDS_ONLY_NOTICE}"
    if find_spec("model2vec") is None:
        return (
            f"`{SETTING_KEY}` needs the package model2vec: run `{install_command('semantic')}`; until then "
            f"{WORDS_ONLY_NOTICE}"
        )
    return ""


class Embedder:
    """A loaded static model. Raises `EmbeddingFailed` if it cannot be loaded."""

    def __init__(self, model_path: str) -> None:
        """`model_path` is the model's folder."""
        problem = find_model_problem(model_path)
        if problem:
            raise EmbeddingFailed(problem)
        folder = resolve_model_folder(model_path)
        try:
            from model2vec import StaticModel  # noqa: PLC0415  # deferred: it is slow to import, and few runs need it

            self._model = StaticModel.from_pretrained(folder, force_download=False)
            self._model.embedding = self._model.embedding.astype("float32")
            self._mean_vector = self._unit_vectors(TYPICAL_TEXTS).mean(axis=0)
            self.fingerprint = _fingerprint(folder)
            self.dimension_count = len(self._mean_vector)
        except Exception as error:  # the libraries raise bare exceptions for damaged files
            raise EmbeddingFailed(
                f"`{SETTING_KEY}`: `{folder}` cannot be loaded: {error}; {WORDS_ONLY_NOTICE}"
            ) from error

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return a unit vector for each text, relative to the typical texts; zeros if the model knows none of its
        words."""
        rows = self._unit_vectors(texts)
        return _unit_rows(rows - self._mean_vector * rows.any(axis=1, keepdims=True))

    def _unit_vectors(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        return _unit_rows(self._model.encode(list(texts), use_multiprocessing=False))


def _unit_rows(rows: "NDArray[np.floating]") -> "NDArray[np.float32]":
    """Return the rows scaled to length 1; zero rows stay zero."""
    import numpy as np  # noqa: PLC0415  # deferred: few runs search by meaning

    rows = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: NDArray[np.float32] = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return units


def _fingerprint(folder: Path) -> str:
    """Return a digest of the model's files, independent of their location."""
    hasher = hashlib.sha256(repr(TYPICAL_TEXTS).encode())
    for name in MODEL_FILES:
        if (folder / name).is_file():
            hasher.update(f"{name}\0".encode())
            with (folder / name).open("rb") as file:
                hasher.update(hashlib.file_digest(file, "sha256").digest())
    return hasher.hexdigest()[:32]
