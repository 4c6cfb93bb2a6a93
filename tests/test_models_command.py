"""`ebb models`."""

import json
from pathlib import Path

import pytest

from tests.kit.fake_provider import FakeProvider
from tests.kit.files import write_file
from tests.kit.user import User

USUAL = {
    "mode": "chat", "supports_function_calling": True, "max_input_tokens": 200_000, "max_output_tokens": 64_000,
    "input_cost_per_token": 2e-6, "output_cost_per_token": 1e-5,
}  # fmt: skip
NEWER = {
    "sample_spec": {"litellm_provider": "one of https://docs.litellm.ai/docs/providers"},
    "claude-next-9": {**USUAL, "litellm_provider": "anthropic", "supports_vision": True},
    "gpt-9": {**USUAL, "litellm_provider": "openai", "max_input_tokens": 300_000},
    "gpt-8": {**USUAL, "litellm_provider": "openai", "max_input_tokens": "unknown"},
    "groq/openai/gpt-oss-120b": {**USUAL, "litellm_provider": "groq"},
}
"""A table as LiteLLM publishes it."""


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


def test_an_update_brings_newer_models_until_it_is_undone(user: User) -> None:
    with FakeProvider([], pages={"/models.json": NEWER}) as server:
        done = user.ebb("models", "update", "--from", f"{server.url}/models.json")
    changes = {line.split(":")[0]: line.split()[1:5] for line in done.out.splitlines()}
    assert done.code == 0
    assert (changes["anthropic"], changes["groq"]) == (["1", "new,", "0", "changed,"], ["0", "new,", "1", "changed,"])
    rows = {row["model"]: row for row in user.ebb("models", "groq", "--json").lines}
    row = rows["groq/openai/gpt-oss-120b"]
    assert (row["context_window"], row["prices"]["input"], row["sources"]["prices"]) == (200_000, 2.0, "update")
    assert [row["model"] for row in user.ebb("models", "openai", "--json").lines] == ["openai/gpt-9"]
    assert "used again" in user.ebb("models", "update", "--undo").err
    rows = {row["model"]: row for row in user.ebb("models", "groq", "--json").lines}
    assert rows["groq/openai/gpt-oss-120b"]["sources"]["prices"] == "table"
    assert "no update" in user.ebb("models", "update", "--undo").err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<html>not found</html>", "is not JSON"),
        ("[1]", "is not a table of models"),
        ("{}", "has no models of Anthropic or OpenAI"),
        (json.dumps({"claude-x": {"litellm_provider": "anthropic"}}), "has no models of Anthropic or OpenAI"),
        ("[" * 100_000, "is not JSON"),
        (None, "No such file or directory"),
    ],
)
def test_an_update_that_fails_changes_nothing(user: User, tmp_path: Path, text: str | None, reason: str) -> None:
    if text is not None:
        write_file(tmp_path / "table.json", text)
    failed = user.ebb("models", "update", "--from", str(tmp_path / "table.json"))
    assert failed.code == 2
    assert reason in failed.err
    assert not (user.home / "data" / "models").exists()


def test_a_damaged_or_an_older_table_is_not_used(user: User) -> None:
    tables = user.home / "data" / "models"
    older = {"date": "2020-01-01", "models": {"old": {"context_window": 9}}}
    write_file(tables / "groq.json", json.dumps(older))
    write_file(tables / "openai.json", '{"date": "2999-01-01", "models": {"x": 3}}')
    assert "groq/openai/gpt-oss-120b" in user.ebb("models", "groq", "--json").out
    assert '"openai/gpt-5"' in user.ebb("models", "openai", "--json").out


def test_options_of_an_update_belong_to_it(user: User) -> None:
    assert "belong to `ebb models update`" in user.ebb("models", "groq", "--undo").err
