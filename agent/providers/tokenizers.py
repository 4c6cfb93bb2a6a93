"""Tokenizers by name, loaded from local vocabularies.

Vocabularies are downloaded only in interactive sessions, by a daemon thread that nothing waits for.
"""

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from ebbtide.agent.tokens.estimate import estimate_by_chars
from ebbtide.tools.files.private_folder import create_private_folder

TextCounter: TypeAlias = Callable[[str], float]

VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
VOCABULARY_DIGESTS = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
}
"""SHA-256 of each known vocabulary."""
VOCABULARY_ALIASES = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base"}

DOWNLOAD_TIMEOUT_S = 10.0
MAX_VOCABULARY_BYTES = 16 * 1024 * 1024
_PIECE_CHARS = 100_000
"""Number of characters encoded at once. On some long text, a tokenizer takes far longer than linear time."""

_load_lock = threading.Lock()


def load_tokenizer(name: str, folder: Path, model: str = "") -> TextCounter | None:
    """Load the token counter for a configured name. None for `bytes`, which means that tokens are estimated from the
    kinds of bytes. Without the vocabulary, tokens are estimated from the number of bytes. Never uses the network."""
    family, _, variant = name.partition(":")
    if name == "bytes":
        return None
    if family == "approximate":
        chars_per_token = float(variant) if variant else 4.0
        return lambda text: estimate_by_chars(text, chars_per_token)
    if family == "tiktoken":
        return _with_minimum_count(load_token_counter(variant, folder), 1.0, 1 / 3)
    factor, tokens_per_byte = _family_factors(family, variant or model)
    return _with_minimum_count(load_token_counter("o200k_base", folder), factor, tokens_per_byte)


def tokens_per_o200k_token(provider: str, model: str) -> float:
    """Return how many of the model's tokens correspond to one token of `o200k_base`, as measured on source code, prose
    and tool output."""
    if provider == "anthropic":
        return _family_factors("claude", model)[0]
    return 1.0 if provider in ("openai", "chatgpt") else 1.1


def _family_factors(family: str, model: str) -> tuple[float, float]:
    """Return the tokens of a model family per `o200k_base` token, and per byte."""
    if family not in ("anthropic", "claude"):
        return 1.1, 1 / 3
    numbers = [int(number) for number in model.replace(".", "-").split("-") if number.isdigit() and len(number) < 3]
    is_old = bool(numbers) and (numbers[0], numbers[1] if len(numbers) > 1 else 0) < (4, 7)
    return (1.27, 1 / 3) if is_old else (1.65, 1 / 2.2)


def _with_minimum_count(count_tokens: TextCounter | None, factor: float, tokens_per_byte: float) -> TextCounter:
    """Build a counter that counts at least one token per four characters."""

    def count_bytes(text: str) -> float:
        return max(len(text.encode("utf-8", "surrogatepass")) * tokens_per_byte, estimate_by_chars(text))

    def count_scaled(text: str) -> float:
        assert count_tokens is not None
        return max(count_tokens(text) * factor, estimate_by_chars(text))

    return count_bytes if count_tokens is None else count_scaled


def load_token_counter(name: str, folder: Path) -> TextCounter | None:
    """Return the counter for an encoding, or for the encoding of a model; None if its vocabulary is not on this
    machine."""
    vocabulary = _vocabulary_name(name)
    if vocabulary is None or not copy_cached_vocabulary(vocabulary, folder):
        return None
    encoding = _load_with_tiktoken(name if name in (*VOCABULARY_DIGESTS, *VOCABULARY_ALIASES) else vocabulary, folder)

    def count_tokens(text: str) -> float:
        return sum(len(encoding.encode_ordinary(piece)) for piece in _pieces(text))

    return count_tokens


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARS):
        yield text[start : start + _PIECE_CHARS]


def _vocabulary_name(name: str) -> str | None:
    """Find the vocabulary of an encoding or a model. None if it is unknown."""
    if name in VOCABULARY_DIGESTS or name in VOCABULARY_ALIASES:
        return VOCABULARY_ALIASES.get(name, name)
    import tiktoken.model  # noqa: PLC0415  # deferred: takes 50 ms, and is only needed with a configured tokenizer

    try:
        encoding_name = tiktoken.model.encoding_name_for_model(name)
    except KeyError:
        return None
    return (
        VOCABULARY_ALIASES.get(encoding_name, encoding_name)
        if encoding_name in (*VOCABULARY_DIGESTS, *VOCABULARY_ALIASES)
        else None
    )


def vocabulary_file(name: str, folder: Path) -> Path:
    """Return the path of a vocabulary, with the file name that `tiktoken` uses."""
    return folder / hashlib.sha1(VOCABULARY_URL.format(name).encode(), usedforsecurity=False).hexdigest()


def copy_cached_vocabulary(name: str, folder: Path) -> bool:
    """Check whether the folder contains a complete vocabulary. If it does not, copy the vocabulary from `tiktoken`'s
    cache, where another program may have put it."""
    target = vocabulary_file(name, folder)
    for candidate in (target, *_tiktoken_cache_files(target.name)):
        try:
            content = candidate.read_bytes()
        except OSError:
            continue
        if hashlib.sha256(content).hexdigest() == VOCABULARY_DIGESTS[name]:
            return candidate == target or _save_vocabulary(content, target)
    return False


def _tiktoken_cache_files(name: str) -> tuple[Path, ...]:
    cache_folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    return (Path(cache_folder or Path(tempfile.gettempdir(), "data-gym-cache")) / name,)


def _save_vocabulary(content: bytes, target: Path) -> bool:
    try:
        create_private_folder(target.parent)
        temporary_path = target.with_suffix(f".{os.getpid()}")
        temporary_path.write_bytes(content)
        temporary_path.replace(target)
    except OSError:
        return False
    return True


@cache
def _load_with_tiktoken(name: str, folder: Path) -> Any:  # noqa: ANN401  # `tiktoken` is imported when it is used
    """Load an encoding with `tiktoken`. An environment variable tells it where to look for vocabularies."""
    with _load_lock:
        previous_folder = os.environ.get("TIKTOKEN_CACHE_DIR")
        os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        try:
            import tiktoken  # noqa: PLC0415  # deferred: only needed for counting

            return tiktoken.get_encoding(name)
        finally:
            if previous_folder is None:
                del os.environ["TIKTOKEN_CACHE_DIR"]
            else:
                os.environ["TIKTOKEN_CACHE_DIR"] = previous_folder


def load_in_background(
    name: str, folder: Path, on_loaded: Callable[[TextCounter], None], url: str = VOCABULARY_URL
) -> threading.Thread:
    """Load an encoding in a daemon thread, downloading its vocabulary if necessary, then call `on_loaded` with its
    counter. `on_loaded` is not called on failure. The thread does not keep the program from exiting."""

    def load() -> None:
        if copy_cached_vocabulary(name, folder) or download_vocabulary(name, folder, url):
            count_tokens = load_token_counter(name, folder)
            if count_tokens is not None:
                on_loaded(count_tokens)

    thread = threading.Thread(target=load, name="vocabulary", daemon=True)
    thread.start()
    return thread


def download_vocabulary(name: str, folder: Path, url: str = VOCABULARY_URL) -> bool:
    """Download a vocabulary. Return whether that succeeded within `DOWNLOAD_TIMEOUT_S`."""
    import urllib.request  # noqa: PLC0415  # deferred: only an interactive session downloads, once

    deadline = time.monotonic() + DOWNLOAD_TIMEOUT_S
    content = bytearray()
    try:
        with urllib.request.urlopen(url.format(name), timeout=DOWNLOAD_TIMEOUT_S) as response:
            while chunk := response.read1(1 << 16):
                content += chunk
                if time.monotonic() > deadline or len(content) > MAX_VOCABULARY_BYTES:
                    return False
    except (OSError, ValueError):
        return False
    return hashlib.sha256(content).hexdigest() == VOCABULARY_DIGESTS[name] and _save_vocabulary(
        bytes(content), vocabulary_file(name, folder)
    )
