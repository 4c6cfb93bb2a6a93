"""Settings by the names that users of other programs know."""

from pathlib import Path

import pytest

from ebbtide.agent.compose.settings import effort_for
from ebbtide.agent.config.aliases import AliasedSetting, snake_case, translate_settings
from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config, config_field
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.providers.registry import find_registry_facts
from tests.kit.files import write_file


def configured(folder: Path, text: str, *settings: str) -> Config:
    write_file(folder / "config" / "config.toml", text)
    return load_config(folder, {"EBB_HOME": str(folder)}, {}, settings)


@pytest.mark.parametrize(
    ("written", "toml", "key", "value"),
    [
        ("context_budget", "[agent]\ncontext_budget = 100000", "agent.context_window", 100_000),
        ("contextBudget", "[agent]\ncontextBudget = 100000", "agent.context_window", 100_000),
        ("contextWindow", "[agent]\ncontextWindow = 100000", "agent.context_window", 100_000),
        ("defaults.contextWindow", "[defaults]\ncontextWindow = 9000", "agent.context_window", 9000),
        ("maxOutputTokens", "[agent]\nmaxOutputTokens = 4096", "agent.max_output_tokens", 4096),
        ("contextWindowBufferTokens", "[agent]\ncontextWindowBufferTokens = 5", "agent.context_window_buffer_tokens",
         5),
        ("compactTrigger", "[agent]\ncompactTrigger = 0.9", "agent.compact_trigger", 0.9),
        ("hardBlock", "[agent]\nhardBlock = 0.97", "agent.hard_block", 0.97),
        ("thresholdRatio", "[agent]\nthresholdRatio = 0.8", "agent.threshold_ratio", 0.8),
        ("compaction.threshold_ratio", "[compaction]\nthreshold_ratio = 0.8", "agent.threshold_ratio", 0.8),
        ("resultOffloadThreshold", "[agent]\nresultOffloadThreshold = 9", "agent.result_offload_threshold", 9),
        ("tool_response_max_bytes", "[agent]\ntool_response_max_bytes = 9", "agent.result_offload_threshold", 9),
        ("defaults.toolResponseMaxBytes", "[defaults]\ntoolResponseMaxBytes = 9", "agent.result_offload_threshold", 9),
        ("toolDeferralThreshold", "[agent]\ntoolDeferralThreshold = 0.2", "agent.tool_deferral_threshold", 0.2),
        ("context_budget_tokens", "[agent]\ncontext_budget_tokens = 20000", "agent.protect_tokens", 20_000),
        ("tool_output_cache.contextBudgetTokens",
         "[tool_output_cache]\ncontextBudgetTokens = 20000",
         "agent.protect_tokens",
         20_000),
        ("toolOutputCache.maxMessageBytes", "[toolOutputCache]\nmaxMessageBytes = 7", "agent.max_message_bytes", 7),
        ("maxLineLength", "[agent]\nmaxLineLength = 7", "agent.max_line_length", 7),
        ("mcp.startup_timeout", "[mcp]\nstartup_timeout = 3", "mcp.wait", 3.0),
        ("keepLastN", "[agent]\nkeepLastN = 10", "agent.keep_last_n", 10),
        ("prune.keep_last_n", "[prune]\nkeep_last_n = 10", "agent.keep_last_n", 10),
        ("compaction.retainLastTurns", "[compaction]\nretainLastTurns = 2", "agent.retain_last_turns", 2),
        ("compaction.model", '[compaction]\nmodel = "a/b"', "agent.summary_model", "a/b"),
        ("compaction.summaryDirectives", '[compaction]\nsummaryDirectives = ["x"]', "agent.summary_directives", ("x",)),
        ("summarization_model", '[agent]\nsummarization_model = "a/b"', "agent.summary_model", "a/b"),
        ("options.summarization_provider, options.summarization_model",
         '[options]\nsummarization_provider = "a"\nsummarization_model = "b"',
         "agent.summary_model",
         "a/b"),
        ("disableAutoSummarize", "[agent]\ndisableAutoSummarize = true", "rewrite.policy", "off"),
        ("options.disable_auto_summarize", "[options]\ndisable_auto_summarize = true", "rewrite.policy", "off"),
        ("compaction.auto", "[compaction]\nauto = false", "rewrite.policy", "off"),
        ("compaction.enabled", "[compaction]\nenabled = false", "rewrite.policy", "off"),
        ("toolOutputMode", '[agent]\ntoolOutputMode = "read-grep"', "agent.tool_output_mode", "read-grep"),
        ("tokenizer", 'tokenizer = "tiktoken:gpt-4"', "agent.tokenizer", "tiktoken:gpt-4"),
        ("keep_last_n", "keep_last_n = 10", "agent.keep_last_n", 10),
        ("max_tokens", "[agent]\nmax_tokens = 8000", "agent.max_output_tokens", 8000),
        ("MaxTokens", "MaxTokens = 8000", "agent.max_output_tokens", 8000),
        ("toolsAllowed", 'toolsAllowed = ["read"]', "tools.allowed", ("read",)),
        ("defaults.toolsDenied", '[defaults]\ntoolsDenied = ["bash"]', "tools.denied", ("bash",)),
    ],
)  # fmt: skip
def test_another_name_sets_our_key_and_says_so(
    written: str, toml: str, key: str, value: object, tmp_path: Path
) -> None:
    config = configured(tmp_path, toml)
    assert getattr(config, config_field(key)) == value
    assert config.sources[key] == f"{tmp_path / 'config' / 'config.toml'} ({written})"
    assert config.notices == ()


def test_a_former_value_is_still_accepted(tmp_path: Path) -> None:
    config = configured(tmp_path, '[rewrite]\npolicy = "rent"')
    assert (config.rewrite_policy, config.notices) == ("cost", ())


@pytest.mark.parametrize(
    "text", ["[agent]\ndisable_auto_summarize = false", "[compaction]\nauto = true\nenabled = true"]
)
def test_a_switch_that_turns_nothing_off_changes_nothing(text: str, tmp_path: Path) -> None:
    config = configured(tmp_path, text)
    assert (config.rewrite_policy, config.sources["rewrite.policy"]) == ("cost", "default")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agent]\nremoveErrorsAfter = 5", "errors are condensed"),
        ("[prune]\ncondense_after_n = 5", "price and age"),
        ("[tool_output_cache]\nenabled = false", "always stored in full"),
        ('[agent]\nsummarization_provider = "x"', "names no model"),
    ],
)
def test_what_has_no_effect_here_is_said(text: str, says: str, tmp_path: Path) -> None:
    (notice,) = configured(tmp_path, text).notices
    assert says in notice


def test_our_own_name_wins_over_another_in_the_same_file(tmp_path: Path) -> None:
    for text in ("context_window = 1\ncontext_budget = 2", "context_budget = 2\ncontext_window = 1"):
        config = configured(tmp_path, f"[agent]\n{text}")
        assert (config.context_window, config.sources["agent.context_window"].endswith("config.toml")) == (1, True)


def test_the_last_word_on_the_trigger_holds_whatever_its_unit(tmp_path: Path) -> None:
    config = configured(tmp_path, "[agent]\nthreshold_ratio = 0.8", "agent.compact_trigger=0.9")
    assert (config.compact_trigger, config.threshold_ratio) == (0.9, None)
    again = configured(tmp_path, "[agent]\ncompact_trigger = 0.9", "agent.threshold_ratio=0.8")
    assert again.threshold_ratio == 0.8
    assert again.sources["agent.compact_trigger"] == "--config agent.threshold_ratio=0.8 (threshold_ratio)"


def test_providers_and_models_may_be_written_in_camel_case(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "[providers.openai]\ncontextWindow = 128000\nmaxOutputTokens = 5000\n"
        '[providers.openai.models."gpt-4"]\nmaxOutputTokens = 16384\ntokenizer = "tiktoken:gpt-4"\n',
    )
    provider = config.provider_config("openai")
    assert (provider.context_window, provider.max_output_tokens) == (128_000, 5000)
    assert provider.models == {"gpt-4": {"max_output_tokens": 16_384, "tokenizer": "tiktoken:gpt-4"}}
    assert config.sources["providers.openai.models.gpt-4.tokenizer"].endswith("config.toml")


def test_other_names_hold_for_providers_and_models_as_far_as_they_have_the_key(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        '[providers.openai]\nmaxTokens = 5000\nreasoning = "low"\n[providers.openai.models.m]\nreasoning = "high"\n',
    )
    provider = config.provider_config("openai")
    assert (provider.max_output_tokens, provider.reasoning_effort) == (5000, "low")
    assert provider.models == {"m": {"reasoning_effort": "high"}}
    assert config.sources["providers.openai.max_output_tokens"].endswith("config.toml (maxTokens)")
    efforts = [effort_for(config, find_registry_facts("openai", name)) for name in ("m", "n")]
    assert (efforts, effort_for(config, find_registry_facts("anthropic", "m"))) == (["high", "low"], None)
    with pytest.raises(ConfigError, match=r"unknown key `providers\.openai\.tool_response_max_bytes`"):
        configured(tmp_path, "[providers.openai]\ntoolResponseMaxBytes = 3\n")


def test_null_takes_back_for_one_run_what_a_file_sets(tmp_path: Path) -> None:
    config = configured(tmp_path, '[agent]\nsummary_model = "a/b"', "agent.summary_model=null")
    assert (config.summary_model, config.sources["agent.summary_model"]) == (None, "--config agent.summary_model=null")
    with pytest.raises(ConfigError, match=r"`agent\.compact_trigger` is None, but must be"):
        configured(tmp_path, "", "agent.compact_trigger=null")


@pytest.mark.parametrize("text", ["[agent]\nsomething_else = 1", "[agent]\nsomethingElse = 1", "[compaction]\nx = 1"])
def test_a_name_that_nobody_knows_is_a_mistake(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key `agent\."):
        configured(tmp_path, text)


@pytest.mark.parametrize(
    ("value", "allowed"),
    [("tiktoken:gpt-4", True), ("anthropic", True), ("claude:opus", True), ("gemini", True), ("google:gemini", True),
     ("google-gemini", True), ("approximate", True), ("approximate:2.5", True), ("bytes", True),
     ("tiktoken:", False), ("wordpiece", False), ("approximate:0", False), ("", False)],
)  # fmt: skip
def test_a_tokenizer_has_one_of_the_known_names(value: str, allowed: bool, tmp_path: Path) -> None:
    if allowed:
        assert configured(tmp_path, f'[agent]\ntokenizer = "{value}"').tokenizer == value
    else:
        with pytest.raises(ConfigError, match="tiktoken:NAME"):
            configured(tmp_path, f'[agent]\ntokenizer = "{value}"')


def test_names_become_snake_case() -> None:
    written = ("contextWindow", "context_window", "keepLastN", "agent.contextBudgetTokens", "URL")
    assert [snake_case(name) for name in written] == [
        "context_window",
        "context_window",
        "keep_last_n",
        "agent.context_budget_tokens",
        "URL",
    ]


def test_the_provider_of_summaries_joins_their_model_in_any_order() -> None:
    pairs = [("agent.summarization_provider", "a"), ("agent.max_turns", 3), ("agent.summarization_model", "b")]
    joined = AliasedSetting("agent.summary_model", "a/b", "summarization_provider, summarization_model")
    for order in (pairs, pairs[::-1]):
        assert translate_settings(order) == (joined, AliasedSetting("agent.max_turns", 3))


def test_how_hard_to_think_may_be_written_as_reasoning(tmp_path: Path) -> None:
    assert configured(tmp_path, '[agent]\nreasoning = "high"').reasoning_effort == "high"


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        ('[agent]\nreasoning_effort = "low"\nreasoning = "high"',
         "`reasoning` has no effect: `agent.reasoning_effort` sets the same and takes precedence"),
        ("[agent]\ncontext_window = 9000\ncontextBudget = 8000",
         "`contextBudget` has no effect: `agent.context_window` sets the same and takes precedence"),
        ("[agent]\nthreshold_ratio = 0.8\ncompact_trigger = 0.9",
         "`agent.threshold_ratio` has no effect: `agent.compact_trigger` sets the same and takes precedence"),
        ("[providers.openai]\nmax_output_tokens = 9\nmaxTokens = 8",
         "`providers.openai.maxTokens` has no effect: `providers.openai.max_output_tokens` sets the same "
         "and takes precedence"),
        ('[providers.openai.models.m]\nreasoning_effort = "low"\nreasoning = "high"',
         "`providers.openai.models.m.reasoning` has no effect: `providers.openai.models.m.reasoning_effort` "
         "sets the same and takes precedence"),
        ("[agent]\ncontext_window = 9000", None),
    ],
)  # fmt: skip
def test_a_key_that_another_one_overrides_is_named(tmp_path: Path, text: str, notice: str | None) -> None:
    notices = configured(tmp_path, text).notices
    assert [line.partition(": ")[2] for line in notices] == ([notice] if notice else [])
