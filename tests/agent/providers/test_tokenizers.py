"""Ways to count by name, with vocabularies on disk and a server that gives them, or not."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import ebbtide.agent.providers.tokenizers
from ebbtide.agent.providers.tokenizers import (
    copy_cached_vocabulary,
    download_vocabulary,
    load_in_background,
    load_token_counter,
    load_tokenizer,
    tokens_per_o200k_token,
    vocabulary_file,
)
from tests.kit.files import write_file
from tests.kit.web_server import QuietHandler, web_server

VOCABULARY = b"a small vocabulary"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No vocabulary of this machine, and no network."""
    folder = tmp_path / "elsewhere"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        ebbtide.agent.providers.tokenizers.VOCABULARY_DIGESTS, "o200k_base", hashlib.sha256(VOCABULARY).hexdigest()
    )


class Server:
    """Answers every request with the same bytes, or not before it may."""

    def __init__(self) -> None:
        self.content, self.url = VOCABULARY, ""
        self.may_answer = threading.Event()
        self.may_answer.set()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            server.may_answer.wait()
            with suppress(ConnectionError):  # who has waited for too long has gone
                self.wfile.write(server.content)

    with web_server(Handler, server.may_answer.set) as address:
        server.url = f"{address}/{{}}.tiktoken"
        yield server


@pytest.mark.parametrize(
    ("name", "model", "tokens"),
    [
        ("approximate", "", 8),
        ("approximate:2.5", "", 12),
        ("anthropic", "claude-opus-5-5", 30 / 2.2),
        ("anthropic", "claude-haiku-4-5", 10),
        ("anthropic", "claude-opus-4-20250514", 10),
        ("claude:sonnet-4-7", "", 30 / 2.2),
        ("gemini", "gemini-3", 10),
        ("google:gemini", "", 10),
        ("google-gemini", "", 10),
        ("tiktoken:o200k_base", "", 10),
    ],
)
def test_without_a_vocabulary_a_name_still_counts(name: str, model: str, tokens: float, tmp_path: Path) -> None:
    count = load_tokenizer(name, tmp_path, model)
    assert count is not None
    assert count("x" * 30) == pytest.approx(tokens)


def test_bytes_means_no_tokenizer(tmp_path: Path) -> None:
    assert load_tokenizer("bytes", tmp_path) is None


@pytest.mark.parametrize("name", ["o200k_base", "gpt-4", "gpt-4o", "no-such-model"])
def test_an_encoding_is_not_loaded_without_its_vocabulary(name: str, tmp_path: Path) -> None:
    assert load_token_counter(name, tmp_path) is None


def test_a_chosen_tokenizer_never_counts_less_than_four_characters_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ebbtide.agent.providers.tokenizers, "load_token_counter", lambda name, folder: lambda text: len(text) / 10
    )
    counts = [load_tokenizer(name, tmp_path) for name in ("tiktoken:gpt-4o", "claude:opus-5-5")]
    assert [count and count("x" * 40) for count in counts] == [10, 10]
    monkeypatch.setattr(
        ebbtide.agent.providers.tokenizers, "load_token_counter", lambda name, folder: lambda text: len(text) / 2
    )
    counts = [load_tokenizer(name, tmp_path) for name in ("tiktoken:gpt-4o", "claude:opus-5-5", "claude:opus-4-6")]
    assert [count and count("x" * 40) for count in counts] == [20, 33, pytest.approx(25.4)]


def test_factors_follow_the_family_of_the_model() -> None:
    models = [
        ("openai", "gpt-6-sol"),
        ("anthropic", "claude-opus-5-5"),
        ("anthropic", "claude-haiku-4-5"),
        ("ollama", "x"),
    ]
    assert [tokens_per_o200k_token(*model) for model in models] == [1.0, 1.65, 1.27, 1.1]


@pytest.mark.usefixtures("known")
def test_a_vocabulary_counts_only_when_it_is_whole(tmp_path: Path, cache: Path) -> None:
    file = write_file(vocabulary_file("o200k_base", tmp_path / "ours"), VOCABULARY[:-1])
    assert not copy_cached_vocabulary("o200k_base", tmp_path / "ours")
    write_file(cache / file.name, VOCABULARY)
    assert copy_cached_vocabulary("o200k_base", tmp_path / "ours")
    assert file.read_bytes() == VOCABULARY


@pytest.mark.usefixtures("known")
def test_a_vocabulary_is_fetched_and_kept(server: Server, tmp_path: Path) -> None:
    assert download_vocabulary("o200k_base", tmp_path / "ours", server.url)
    assert [path.read_bytes() for path in (tmp_path / "ours").iterdir()] == [VOCABULARY]


@pytest.mark.parametrize("content", [b"another file", b"x" * 3000])
@pytest.mark.usefixtures("known")
def test_what_is_wrong_or_too_large_is_not_kept(
    content: bytes, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.content = content
    monkeypatch.setattr(ebbtide.agent.providers.tokenizers, "MAX_VOCABULARY_BYTES", 1000)
    assert not download_vocabulary("o200k_base", tmp_path / "ours", server.url)
    assert not (tmp_path / "ours").exists()


@pytest.mark.usefixtures("known")
def test_what_comes_too_late_is_not_waited_for(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.may_answer.clear()
    monkeypatch.setattr(ebbtide.agent.providers.tokenizers, "DOWNLOAD_TIMEOUT_S", 0.1)
    assert not download_vocabulary("o200k_base", tmp_path / "ours", server.url)
    assert not (tmp_path / "ours").exists()


def test_a_server_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    used: list[object] = []
    load_in_background("o200k_base", tmp_path, used.append, "http://127.0.0.1:1/{}").join(10)
    assert used == []


@pytest.mark.usefixtures("known")
def test_nobody_waits_for_the_background(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.may_answer.clear()
    monkeypatch.setattr(ebbtide.agent.providers.tokenizers, "load_token_counter", lambda name, folder: len)
    used: list[object] = []
    thread = load_in_background("o200k_base", tmp_path, used.append, server.url)
    assert (thread.is_alive(), thread.daemon, used) == (True, True, [])
    server.may_answer.set()
    thread.join()
    assert used == [len]
