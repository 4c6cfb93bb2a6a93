"""A local model that converts texts to vectors. It uses no network, and its libraries are imported on first use."""

import hashlib
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.agent.errors import AgentError
from ebbtide.agent.extras import install_command

if TYPE_CHECKING:  # types only: few runs search by meaning
    import numpy as np
    from numpy.typing import NDArray

KEY = "recall.embedding_model"
FILES = (
    "config.json",
    "config_sentence_transformers.json",
    "model.safetensors",
    "tokenizer.json",
    "0_StaticEmbedding/model.safetensors",
    "0_StaticEmbedding/tokenizer.json",
)
"""The files of a static model."""
ORDINARY = (
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
"""Typical texts of sessions. All texts resemble these, whatever their topic, so their mean is subtracted."""
BY_WORDS = "searches use words only"


class EmbeddingFailed(AgentError):
    """The model cannot be used."""


def folder_of(setting: str) -> Path:
    """The model's folder as an absolute path, so that it cannot be taken for a name to download."""
    return Path(os.path.abspath(os.path.expanduser(setting)))


def missing_model_reason(setting: str) -> str:
    """Why the model cannot be loaded, as far as that is visible without loading it; empty if it may work."""
    folder = folder_of(setting)
    if not folder.is_dir():
        return f"`{KEY}`: folder `{folder}` not found (models are not downloaded); {BY_WORDS}"
    if not any((folder / name).is_file() for name in FILES if name.endswith("safetensors")):
        return f"`{KEY}`: `{folder}` contains no static model (`model.safetensors`); {BY_WORDS}"
    if find_spec("model2vec") is None:
        return f"`{KEY}` needs the package model2vec: run `{install_command('semantic')}`; until then {BY_WORDS}"
    return ""


class Embedder:
    """A loaded static model. Raises `EmbeddingFailed` if it cannot be loaded."""

    def __init__(self, setting: str) -> None:
        """`setting`: its folder."""
        missing = missing_model_reason(setting)
        if missing:
            raise EmbeddingFailed(missing)
        folder = folder_of(setting)
        try:
            from model2vec import StaticModel  # noqa: PLC0415  # deferred: it is slow to import, and few runs need it

            self._model = StaticModel.from_pretrained(folder, force_download=False)
            self._model.embedding = self._model.embedding.astype("float32")
            self._ordinary = self._units(ORDINARY).mean(axis=0)
            self.fingerprint = _fingerprint(folder)
            self.size = len(self._ordinary)
        except Exception as error:  # the libraries raise bare exceptions for damaged files
            raise EmbeddingFailed(f"`{KEY}`: `{folder}` cannot be loaded: {error}; {BY_WORDS}") from error

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """A unit vector for each text, relative to the typical texts; zeros if the model knows none of its words."""
        rows = self._units(texts)
        return _units(rows - self._ordinary * rows.any(axis=1, keepdims=True))

    def _units(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        return _units(self._model.encode(list(texts), use_multiprocessing=False))


def _units(rows: "NDArray[np.floating]") -> "NDArray[np.float32]":
    """The rows scaled to length 1, except zero rows."""
    import numpy as np  # noqa: PLC0415  # deferred: few runs search by meaning

    rows = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: NDArray[np.float32] = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return units


def _fingerprint(folder: Path) -> str:
    """A digest of the model's files, independent of their location."""
    digest = hashlib.sha256(repr(ORDINARY).encode())
    for name in FILES:
        if (folder / name).is_file():
            digest.update(f"{name}\0".encode())
            with (folder / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]
