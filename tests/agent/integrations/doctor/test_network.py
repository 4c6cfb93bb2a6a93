"""The way to providers, with real sockets on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.agent.config.load import load_config
from ebbtide.agent.integrations.doctor.network import check_network, check_providers, used_provider_names
from tests.kit.web_server import Answer, QuietHandler, web_server

UNKNOWN = b'{"error": {"type": "authentication_error", "message": "invalid x-api-key"}}'


class Listing:
    """Lists no models, but to whoever has the key."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.url = ""

    def answer(self, request: QuietHandler) -> Answer:
        key = request.headers["x-api-key"] or request.headers["authorization"]
        self.asked.append((request.path, key))
        return (200, b'{"data": []}') if key in ("sk-right", "Bearer sk-right") else (401, UNKNOWN)


@pytest.fixture
def listing() -> Iterator[Listing]:
    listing = Listing()
    with web_server(listing.answer) as listing.url:
        yield listing


def findings(folder: Path, environment: dict[str, str], *settings: str) -> list[tuple[str, str, str]]:
    config = load_config(folder, {"EBB_HOME": str(folder), **environment}, {}, settings)
    return [(one.subject, one.state, one.text) for one in check_network(config, environment)]


def online(folder: Path, environment: dict[str, str], *settings: str) -> list[tuple[str, str, str]]:
    config = load_config(folder, {"EBB_HOME": str(folder), **environment}, {}, settings)
    return [(one.subject, one.state, one.text) for one in check_providers(config, environment)]


def test_a_server_that_lists_its_models_takes_the_key(listing: Listing, tmp_path: Path) -> None:
    environment = {"ANTHROPIC_BASE_URL": listing.url, "ANTHROPIC_API_KEY": "sk-right"}
    ((subject, state, text),) = online(tmp_path, environment, "agent.model=anthropic/claude-opus-5")
    host = listing.url.removeprefix("http://")
    assert (subject, state) == ("provider", "well")
    assert text.startswith(f"anthropic: {host} answers in ")
    assert text.endswith(" ms, and accepts the key")
    assert listing.asked == [("/v1/models", "sk-right")]


def test_a_refused_key_is_said_and_not_shown(listing: Listing, tmp_path: Path) -> None:
    environment = {"OPENAI_BASE_URL": f"{listing.url}/v1", "OPENAI_API_KEY": "sk-wrong-1234567890"}
    ((_, state, text),) = online(tmp_path, environment, "agent.model=openai-chat/gpt")
    assert state == "broken"
    assert "rejected the API key" in text
    assert "sk-wrong" not in text
    assert listing.asked == [("/v1/models", "Bearer sk-wrong-1234567890")]


def test_where_nobody_listens_that_is_said(tmp_path: Path) -> None:
    ((_, state, text),) = online(tmp_path, {"OLLAMA_HOST": "127.0.0.1:9"}, "agent.model=ollama/qwen3")
    assert state == "broken"
    assert "127.0.0.1:9" in text


def test_proxies_and_certificates_are_named_without_their_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy.example:8080")
    certificates = tmp_path / "none.pem"
    certificates.write_text("")
    environment = {"SSL_CERT_FILE": str(certificates)}
    assert findings(tmp_path, environment, "agent.model=anthropic/claude-opus-5") == [
        (
            "network",
            "well",
            "the proxy `http://proxy.example:8080` (`HTTPS_PROXY`) between here and api.anthropic.com",
        ),
        (
            "certificates",
            "broken",
            f"cannot read `{certificates}`, set by `SSL_CERT_FILE`: it contains no certificates",
        ),
    ]


def test_a_proxy_that_is_none_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "ftp://somewhere")
    (subject, state, text), _ = findings(tmp_path, {}, "agent.model=openai/gpt-6-sol")
    assert (subject, state) == ("network", "broken")
    assert text.startswith("`HTTPS_PROXY` does not contain a valid proxy address.")


def test_the_providers_in_use_are_those_of_all_models_and_those_with_an_address(tmp_path: Path) -> None:
    settings = (
        "agent.model=openai/gpt",
        'agent.fallback_models=["ollama/qwen3", "openai/mini"]',
        "providers.openai-chat.base_url=http://127.0.0.1:1/v1",
    )
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
    assert used_provider_names(config, {}) == ["openai", "ollama", "openai-chat"]
    assert used_provider_names(load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}), {}) == []
