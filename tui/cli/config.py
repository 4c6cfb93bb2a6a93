"""`ebb config`: prints every setting with its value and source, or prints the configuration file's schema."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.calls.project_rules import ProjectRules
from ebbtide.agent.config.options import OPTIONS
from ebbtide.agent.config.schema import build_config_schema
from ebbtide.agent.config.values import Config, config_field
from ebbtide.agent.providers.registry import find_registry_facts
from ebbtide.agent.providers.setup import build_window, find_setting, registry_overrides
from ebbtide.tools.secrets.redaction import redact_options, redact_text, redact_url
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.text.sanitise import sanitise_line


def run(arguments: Sequence[str]) -> int:
    """Run `ebb config [show|schema]`; return the exit code."""
    parser = create_subcommand_parser("config", "Show every setting, its value and source.")
    action_help = "show the settings (default), or print the JSON Schema of the configuration file"
    parser.add_argument("action", nargs="?", choices=("show", "schema"), default="show", help=action_help)
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    if options.action == "schema":
        print(json.dumps(build_config_schema(), indent=2, ensure_ascii=False))
        return 0
    root, config = read_settings(options)
    values_by_key = {
        option.key: (getattr(config, config_field(option.key)), config.sources[option.key], option.description)
        for option in OPTIONS
    }
    for key in config.sources:
        if key not in values_by_key:
            get_value = _server_value if key.startswith("mcp.") else _provider_value
            values_by_key[key] = (get_value(config, key), config.sources[key], "")
    if config.threshold_ratio is not None:
        window = _model_window(config)
        share = round(window.compact_trigger, 4) if window else None
        values_by_key["agent.compact_trigger"] = (share, *values_by_key["agent.compact_trigger"][1:])
    if options.json:
        print(
            json.dumps(
                {key: {"value": value, "source": source} for key, (value, source, _) in values_by_key.items()},
                default=asdict,
            )
        )
        return 0
    print(
        sanitise_line(
            f"# {config.folders.config / 'config.toml'}, then {config.project_folder / '.ebb' / 'config.toml'}"
        )
    )
    for key, (value, source, help_text) in values_by_key.items():
        print(sanitise_line(f"{key} = {_value_text(value)}    # {source}{'; ' + help_text if help_text else ''}"))
    for line in (*config.notices, *_window_lines(config), *_saved_rule_lines(root, config)):
        print(sanitise_line(f"# {line}"))
    return 0


def _saved_rule_lines(root: Path, config: Config) -> list[str]:
    """Format the rules saved for this folder, with the name of the file that contains them."""
    rules = ProjectRules(config.folders.config, root.resolve())
    saved = rules.read()
    lines = [f"allowed in this folder: {rule}    # {rules.path}" for rule in saved.allow]
    return [*lines, *([saved.problem] if saved.problem else [])]


def _provider_value(config: Config, key: str) -> object:
    _, name, field = key.split(".", 2)
    if not field.startswith("models."):
        value = getattr(config.provider_config(name), field)
        return redact_url(value) if field == "base_url" else _without_secrets(value)
    model, _, fact = field.removeprefix("models.").rpartition(".")
    return config.provider_config(name).models[model][fact]


def _server_value(config: Config, key: str) -> object:
    """Get a server setting, without secrets."""
    name, _, field = key.removeprefix("mcp.servers.").rpartition(".")
    value = config.mcp_servers[name][field]
    if field == "client_secret":
        return "…"
    if isinstance(value, Mapping):
        return dict.fromkeys(value, "…")
    return _without_secrets(redact_url(value) if field == "url" and isinstance(value, str) else value)


def _without_secrets(value: object) -> object:
    """Remove secrets from text or from the words of a command. Other values are returned unchanged."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [redact_text(word, {}) for word in redact_options([str(word) for word in value])]
    return redact_text(value, {}) if isinstance(value, str) else value


def _window_lines(config: Config) -> list[str]:
    """Describe the configured model's context window, naming the source of each number. Only what is known offline is
    included."""
    window = _model_window(config)
    if window is None:
        return []
    values = {
        "context_window": window.size,
        "max_output_tokens": window.output,
        "context_window_buffer_tokens": window.buffer,
        "max_input_tokens": window.max_input,
        "price_tier": window.price_tier,
    }
    lines = [f"{key} {values[key]:,} ({source})" for key, source in window.sources]
    provider, _, model = (config.model or "").partition("/")
    settings = ((key, find_setting(config, provider, model, key)) for key in ("tokenizer", "reasoning_effort"))
    lines += [f"{key} {setting.value} ({setting.source})" for key, setting in settings if setting is not None]
    limits_text = f"compact at {window.compact_trigger * window.available_tokens:,.0f}"
    limits_text += f", hard limit {window.hard_block * window.available_tokens:,.0f}"
    return [f"{config.model}: {', '.join(lines)}; usable {window.available_tokens:,}; {limits_text}", *window.notices]


def _model_window(config: Config) -> Window | None:
    """Get the configured model's context window, if it is known offline."""
    provider, _, model = (config.model or "").partition("/")
    if provider in ("", "scripted") or not model:
        return None
    overrides = registry_overrides(config, config.provider_config(provider), provider, model)
    return build_window(find_registry_facts(provider, model, overrides, config.folders.model_table_folder), config)


def _value_text(value: object) -> str:
    return "(not set)" if value is None else json.dumps(value, ensure_ascii=False, default=asdict)
