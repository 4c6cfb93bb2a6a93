"""`ebb models`."""

from pathlib import Path

import pytest

from tests.kit.files import write_file
from tests.kit.user import User


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_models_of_providers_with_a_key_are_listed_with_the_source_of_their_figures(user: User) -> None:
    listed = user.ebb("models", env={"GROQ_API_KEY": "k", "COLUMNS": "120"})
    assert listed.code == 0
    lines = listed.out.splitlines()
    assert lines[0].split() == ["model", "window", "in", "/", "cached", "/", "out", "supports", "from"]
    assert [line.split() for line in lines[1:] if "gpt-oss-120b" in line] == [
        ["groq/openai/gpt-oss-120b", "131k", "0.15", "/", "0.075", "/", "0.6", "thinking", "table"]
    ]
    assert not any(line.startswith("anthropic/") for line in lines)


def test_all_models_of_a_provider_are_listed_as_objects(user: User) -> None:
    rows = {row["model"]: row for row in user.ebb("models", "vertex", "--json").lines}
    row = rows["vertex/claude-haiku-4-5"]
    assert (row["context_window"], row["prices"]["input"], row["sources"]) == (
        200_000,
        1.0,
        {"context_window": "table", "prices": "table"},
    )
    assert row["usable"] is False


def test_a_model_of_the_user_has_the_user_s_figures(user: User) -> None:
    write_file(user.home / "config" / "config.toml", '[providers.groq.models."mine"]\ncontext_window = 9000\n')
    run = user.ebb("models", "--json", env={"GROQ_API_KEY": "k"})
    row = next(row for row in run.lines if row["model"] == "groq/mine")
    assert (row["context_window"], row["prices"], row["sources"]) == (
        9000,
        None,
        {"context_window": "your settings", "prices": "unknown"},
    )


def test_an_unknown_provider_is_named_with_the_known_ones(user: User) -> None:
    failed = user.ebb("models", "nope")
    assert failed.code == 2
    assert "there is no provider `nope`; the providers are anthropic, " in failed.err
    assert user.ebb("models", "github").out.startswith("No models of github are listed.")
