"""The models to choose from, and their order."""

from itertools import pairwise
from pathlib import Path

import pytest

from ebbtide.agent.config.load import load_config
from ebbtide.agent.providers.choices import list_model_choices, model_version
from tests.kit.files import write_file


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("anthropic/claude-haiku-4-5-20251001", (4, 5)),
        ("openai/gpt-6.1-sol", (6, 1)),
        ("openai/gpt-4o-2024-05-13", (4, 0)),
        ("openai/gpt-4-0613", (4, 0)),
        ("ollama/qwen3:8b", (0, 0)),
        ("ollama/llama-3.3-70b", (3, 3)),
    ],
)
def test_a_version_is_told_by_the_name_without_dates_and_sizes(model: str, version: tuple[int, int]) -> None:
    assert model_version(model) == version


def test_models_stand_by_provider_those_that_can_be_asked_first_and_the_newest_above(tmp_path: Path) -> None:
    write_file(tmp_path / "config" / "config.toml", '[agent]\nmodel = "openai/gpt-5"\n')
    found = list_model_choices(
        load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}), {"ANTHROPIC_API_KEY": "x"}, ("ollama/q",)
    )
    assert found[0].model == "openai/gpt-5"
    assert list(dict.fromkeys((one.provider, one.has_key) for one in found[1:])) == [
        ("anthropic", True),
        ("ollama", True),
        ("openai", False),
    ]
    for one, other in pairwise(found[1:]):
        assert one.provider != other.provider or model_version(one.model) >= model_version(other.model)
