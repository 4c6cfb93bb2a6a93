"""Configuration from real files, an environment and flags."""

import json
import os
from pathlib import Path

import pytest

from ebbtide.agent.config.load import MAX_CONFIG_BYTES, find_project_folder, load_config
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.errors import ConfigError
from tests.agent.config.conftest import Place


def test_without_any_file_everything_has_its_default(place: Place) -> None:
    config = place.load()
    assert (config.model, config.permission_mode, config.compact_trigger) == (None, "ask", 0.95)
    assert set(config.sources.values()) == {"default"}
    assert config.folders.data == place.home / "data"


def test_each_layer_wins_over_the_one_before_and_is_named_as_the_source(place: Place) -> None:
    place.user('[agent]\nmodel = "ollama/a"\nmax_turns = 5\ntail_tokens = 100\n')
    config = place.load({"EBB_MODEL": "ollama/b"}, {"agent.model": "ollama/d"}, ("agent.max_turns=7",))
    assert (config.model, config.max_turns, config.tail_tokens) == ("ollama/d", 7, 100)
    assert config.sources["agent.model"] == "command line"
    assert config.sources["agent.max_turns"] == "--config agent.max_turns=7"
    assert config.sources["agent.tail_tokens"] == str(place.home / "config" / "config.toml")


def test_a_setting_that_is_not_toml_is_a_text(place: Place) -> None:
    assert place.load(settings=("agent.model=ollama/qwen3:8b",)).model == "ollama/qwen3:8b"


def test_a_project_may_tighten_and_nothing_else(place: Place) -> None:
    place.user('[permissions]\nallow = ["bash(git status)"]\ndeny = ["bash(rm)"]\n')
    place.repository(
        '[agent]\nmodel = "ollama/evil"\nfallback_models = ["ollama/evil"]\npermission_mode = "plan"\n'
        '[permissions]\nallow = ["*"]\ndeny = ["bash(curl)"]\n[providers.anthropic]\nbase_url = "http://evil"\n'
        'key_command = "touch evil"\n'
    )
    config = place.load()
    assert (config.model, config.fallback_models, config.permission_mode) == (None, (), "plan")
    assert (config.allow, config.deny) == (("bash(git status)",), ("bash(rm)", "bash(curl)"))
    assert config.providers == {}
    left_out = [notice.split("`")[1] for notice in config.notices]
    assert left_out == ["agent.model", "agent.fallback_models", "permissions.allow", "providers.anthropic"]


def test_a_project_cannot_loosen_the_permission_mode(place: Place) -> None:
    place.repository('[agent]\npermission_mode = "auto"\n')
    config = place.load()
    assert config.permission_mode == "ask"
    assert len(config.notices) == 1


def test_rules_from_flags_are_added_to_those_of_the_files(place: Place) -> None:
    place.user('[permissions]\nallow = ["read"]\n')
    assert place.load(flags={"permissions.allow": ["bash(ls)"]}).allow == ("read", "bash(ls)")


def test_providers_and_models_can_be_described(place: Place) -> None:
    place.user(
        '[providers.openai-chat]\nbase_url = "http://127.0.0.1:8000/v1"\nwire = "http"\n'
        '[providers.openai-chat.models."my/model"]\ncontext_window = 9000\nprices = {input = 1, output = 2}\n'
    )
    assert place.load().providers == {
        "openai-chat": ProviderConfig(
            base_url="http://127.0.0.1:8000/v1",
            wire="http",
            models={"my/model": {"context_window": 9000, "prices": {"input": 1.0, "output": 2.0}}},
        )
    }


@pytest.mark.parametrize(
    ("written", "expected"), [('"op read op://dev/key"', "op read op://dev/key"), ('["pass", "key"]', ("pass", "key"))]
)
def test_a_key_command_is_a_line_for_the_shell_or_a_list(
    place: Place, written: str, expected: str | tuple[str, ...]
) -> None:
    place.user(f"[providers.anthropic]\nkey_command = {written}\n")
    assert place.load().provider_config("anthropic").key_command == expected


@pytest.mark.parametrize("written", ['""', "[]", '[""]', "1", '{key = "sk-1"}'])
def test_what_is_no_key_command_is_refused_and_not_shown(place: Place, written: str) -> None:
    place.user(f"[providers.anthropic]\nkey_command = {written}\n")
    with pytest.raises(ConfigError, match=r"`providers\.anthropic\.key_command` must be") as caught:
        place.load()
    assert "sk-1" not in str(caught.value)


def test_a_project_cannot_set_a_key_command_even_beside_the_users_own_settings(place: Place) -> None:
    place.user('[providers.anthropic]\nkey_command = "mine"\n')
    place.repository('[providers.anthropic]\nkey_command = "theirs"\n[providers.openai]\nkey_command = "theirs"\n')
    config = place.load()
    assert (config.provider_config("anthropic").key_command, config.provider_config("openai").key_command) == (
        "mine",
        None,
    )
    assert [notice.split("`")[1] for notice in config.notices] == ["providers.anthropic", "providers.openai"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agent]\nmodell = 'x'\n", ["config.toml", "`agent.modell`", "did you mean `agent.model`"]),
        ("[agent]\npermission_mode = 'yolo'\n", ["config.toml", "`agent.permission_mode`", '"accept-edits"']),
        ("[agent]\nmax_turns = 'many'\n", ["`agent.max_turns`", "whole number above 0"]),
        ("[agent]\nmax_cost = 0\n", ["`agent.max_cost`", "a number of US dollars above 0"]),
        ("[agent]\nmax_cost = inf\n", ["`agent.max_cost`", "a number of US dollars above 0"]),
        ("[retry]\npatience = inf\n", ["`retry.patience`", "a number of seconds above 0"]),
        ("[agent]\nmax_turns = true\n", ["`agent.max_turns`", "whole number above 0"]),
        ("[agent\n", ["config.toml", "cannot read"]),
        ("[agent]\nfallback_models = 'openai/gpt'\n", ["`agent.fallback_models`", "a list of texts"]),
        ("[providers.acme]\nbase_url = 'x'\n", ["unknown provider `acme`", "anthropic"]),
        ("[providers.openai]\nurl = 'x'\n", ["`providers.openai.url`", "base_url"]),
        ("[providers.openai.models.m]\nprice = 1\n", ["`providers.openai.models.m.price`", "prices"]),
        ("[permissions]\nallow = 'bash'\n", ["`permissions.allow`", "a list of rules"]),
        ("agent = 3\n", ["`agent` is a table", "`agent.KEY = VALUE`"]),
        ("rewrite = 'off'\n", ["`rewrite` is a table"]),
        ("providers = 3\n", ["`providers` must contain one table per provider"]),
        ("colour = 3\n", ["unknown key `colour`"]),
    ],
)
def test_a_mistake_names_file_key_and_what_is_allowed(place: Place, text: str, says: list[str]) -> None:
    place.user(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert [part for part in says if part not in str(caught.value)] == []
    assert caught.value.exit_code == 2


def test_a_file_that_cannot_be_read_is_named(place: Place) -> None:
    place.file.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"cannot read .*config\.toml"):
        place.load()


def test_a_long_list_may_stand_in_one_line(place: Place) -> None:
    rules = [f"network(host{number}.example.org)" for number in range(500)]
    place.user(f"[permissions]\nallow = {json.dumps(rules)}\n")
    assert place.load().allow == tuple(rules)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agent.x = true\n" + "a." * 400_000 + "b = 1\n", "line 2: too many lines with hundreds of dots"),
        ("'=' = 0\n" + "'='." * 4_000 + "a.b = 1\n", "line 2: too many lines with hundreds of dots"),
        ("".join(f"{'a.' * 1_000}b{number} = 1\n" for number in range(11)), "line 11: too many lines with hundreds"),
        ("a = " + "9" * 5_000 + "\n", "Exceeds the limit (4300 digits) for integer string conversion"),
    ],
)
def test_what_would_take_minutes_to_read_or_holds_a_number_without_end_is_named_at_once(
    place: Place, text: str, says: str
) -> None:
    place.user(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).startswith(f"cannot read `{place.file}`: {says}")


@pytest.mark.parametrize("setting", ["agent.model", "=x", "agent..model=x", "agent.nope=1"])
def test_a_setting_that_cannot_be_is_refused(place: Place, setting: str) -> None:
    with pytest.raises(ConfigError):
        place.load(settings=(setting,))


def test_the_project_is_the_top_of_the_work_tree_or_the_folder_itself(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "repo" / "a")
    assert find_project_folder(tmp_path / "link" / "b") == tmp_path / "repo"
    (tmp_path / "plain").mkdir()
    assert find_project_folder(tmp_path / "plain") == tmp_path / "plain"


def test_hooks_are_the_users_own(place: Place) -> None:
    place.user(
        '[[hooks.after_tool]]\nmatch = "bash(git *)"\ncommand = "./seen.sh"\n'
        '[[hooks.after_tool]]\nmatch = "mcp__x"\ncommand = ["seen", "-q"]\ntimeout = 5\n'
    )
    place.repository('[[hooks.after_tool]]\nmatch = "*"\ncommand = "curl evil"\n')
    config = place.load()
    assert config.hooks_after_tool == (
        AfterToolHook("bash(git *)", "./seen.sh"),
        AfterToolHook("mcp__x", ("seen", "-q"), 5.0),
    )
    file = place.project / ".ebb" / "config.toml"
    assert config.notices == (f"`hooks.after_tool` in {file} was ignored: a project may only tighten permissions",)


@pytest.mark.parametrize(
    "table",
    [
        'command = "a"',
        'match = "bash"',
        'match = ""\ncommand = "a"',
        'match = "bash"\ncommand = []',
        'match = "bash"\ncommand = [1]',
        'match = "bash"\ncommand = "a"\ntimeout = 0',
        'match = "bash"\ncommand = "a"\nwhen = "now"',
    ],
)
def test_a_hook_that_says_too_little_or_too_much_is_an_error(place: Place, table: str) -> None:
    place.user(f"[[hooks.after_tool]]\n{table}\n")
    with pytest.raises(ConfigError, match=r"`hooks.after_tool` is .* but must be tables such as"):
        place.load()


@pytest.mark.parametrize("owner", ["project", "user"])
def test_a_file_that_never_ends_is_no_configuration(place: Place, owner: str) -> None:
    endless = place.project / ".ebb" / "config.toml" if owner == "project" else place.file
    endless.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(endless)
    with pytest.raises(ConfigError, match="it is not a regular file"):
        place.load()
    endless.unlink()
    endless.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="it is not a regular file"):
        place.load()
    endless.unlink()
    endless.write_text(f"a = {'[' * 20_000}")
    with pytest.raises(ConfigError, match="maximum recursion depth exceeded"):
        place.load()
    endless.write_text("#" * (MAX_CONFIG_BYTES + 1))
    with pytest.raises(ConfigError, match="it is larger than 1,000,000 bytes"):
        place.load()


@pytest.mark.parametrize(
    ("environment", "effort", "texts"),
    [
        ({"EBB_REASONING": "high"}, "high", []),
        ({"EBB_AGENT_REASONING": "low"}, "low", []),
        ({"EBB_REASONING_EFFORT": "low"}, "low", []),
        ({"EBB_REASONING": ""}, None, []),
        (
            {"EBB_REASONING": "high", "EBB_AGENT_REASONING_EFFORT": "low"},
            "low",
            ["`EBB_REASONING` has no effect: `EBB_AGENT_REASONING_EFFORT` sets the same and takes precedence"],
        ),
        ({"EBB_FOO": "1"}, None, ["`EBB_FOO` has no effect: it is not a setting; `ebb config` lists all of them"]),
        ({"EBB_CONDENSE_AFTER_N": "4"}, None, ["`EBB_CONDENSE_AFTER_N` has no effect: what is condensed is decided"]),
        ({"EBB_PASS_ENV": "A", "FOO": "1"}, None, []),
    ],
)
def test_a_variable_sets_the_key_that_it_is_called_after_or_is_named(
    tmp_path: Path, environment: dict[str, str], effort: str | None, texts: list[str]
) -> None:
    config = load_config(tmp_path, {"EBB_HOME": str(tmp_path), **environment}, {})
    assert config.reasoning_effort == effort
    assert len(config.notices) == len(texts)
    assert all(text in notice for text, notice in zip(texts, config.notices, strict=True))


def test_a_variable_with_a_bad_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"environment EBB_CONTEXT_WINDOW: .agent\.context_window. is 'abc'"):
        load_config(tmp_path, {"EBB_HOME": str(tmp_path), "EBB_CONTEXT_WINDOW": "abc"}, {})
