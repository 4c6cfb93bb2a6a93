"""`ebb config`: every setting, its value and source; the schema of the file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ebbtide.agent.calls.project_rules import ProjectRules
from ebbtide.agent.config.options import OPTIONS
from ebbtide.agent.config.schema import config_schema
from ebbtide.agent.config.values import Config, field_of
from ebbtide.agent.context.budget import Window
from ebbtide.agent.providers.registry import facts_for
from ebbtide.agent.providers.setup import find_setting, find_window, overrides
from ebbtide.tools.secrets.redaction import redact_text, without_options, without_password
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, read_settings
from ebbtide.tui.text.sanitise import sanitised_line


def run(arguments: Sequence[str]) -> int:
    """Run `ebb config [show|schema]`; return the exit code."""
    parser = parser_of("config", "Every setting, its value and where it comes from.")
    told = "`schema` prints the JSON Schema of the configuration file, for your editor"
    parser.add_argument("action", nargs="?", choices=("show", "schema"), default="show", help=told)
    options = parse_subcommand_args(parser, arguments, "one JSON object")
    if options.action == "schema":
        print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
        return 0
    root, config = read_settings(options)
    rows = {
        option.key: (getattr(config, field_of(option.key)), config.sources[option.key], option.help)
        for option in OPTIONS
    }
    for key in config.sources:
        if key not in rows:
            value = _server_value if key.startswith("mcp.") else _provider_value
            rows[key] = (value(config, key), config.sources[key], "")
    if config.threshold_ratio is not None:
        window = _window(config)
        share = round(window.compact_trigger, 4) if window else None
        rows["agent.compact_trigger"] = (share, *rows["agent.compact_trigger"][1:])
    if options.json:
        print(
            json.dumps(
                {key: {"value": value, "source": source} for key, (value, source, _) in rows.items()}, default=asdict
            )
        )
        return 0
    print(sanitised_line(f"# {config.folders.config / 'config.toml'}, then {config.project / '.ebb' / 'config.toml'}"))
    for key, (value, source, text) in rows.items():
        print(sanitised_line(f"{key} = {_toml(value)}    # {source}{'; ' + text if text else ''}"))
    for line in (*config.notices, *_numbers(config), *_saved_rules(root, config)):
        print(sanitised_line(f"# {line}"))
    return 0


def _saved_rules(root: Path, config: Config) -> list[str]:
    """The rules saved for this folder, and where to remove them."""
    rules = ProjectRules(config.folders.config, root.resolve())
    kept = rules.read()
    lines = [f"allowed in this folder: {rule}    # {rules.place}" for rule in kept.allow]
    return [*lines, *([kept.problem] if kept.problem else [])]


def _provider_value(config: Config, key: str) -> object:
    _, name, field = key.split(".", 2)
    if not field.startswith("models."):
        value = getattr(config.provider(name), field)
        return without_password(value) if field == "base_url" else value
    model, _, fact = field.removeprefix("models.").rpartition(".")
    return config.provider(name).models[model][fact]


def _server_value(config: Config, key: str) -> object:
    """The settings of a server, without secrets."""
    name, _, said = key.removeprefix("mcp.servers.").rpartition(".")
    value = config.servers[name][said]
    if said == "client_secret":
        return "…"
    if isinstance(value, Mapping):
        return dict.fromkeys(value, "…")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [redact_text(word, {}) for word in without_options([str(word) for word in value])]
    return redact_text(without_password(value) if said == "url" else value, {}) if isinstance(value, str) else value


def _numbers(config: Config) -> list[str]:
    """The context window of the configured model with the source of each number, as far as known offline."""
    window = _window(config)
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
    name, _, model = (config.model or "").partition("/")
    named = ((key, find_setting(config, name, model, key)) for key in ("tokenizer", "reasoning_effort"))
    lines += [f"{key} {found.value} ({found.source})" for key, found in named if found is not None]
    triggers = f"compact at {window.compact_trigger * window.effective:,.0f}"
    triggers += f", no request above {window.hard_block * window.effective:,.0f}"
    return [f"{config.model}: {', '.join(lines)}; usable {window.effective:,}; {triggers}", *window.notices]


def _window(config: Config) -> Window | None:
    """The context window of the configured model, as far as known offline."""
    name, _, model = (config.model or "").partition("/")
    if name in ("", "scripted") or not model:
        return None
    return find_window(facts_for(name, model, overrides(config, config.provider(name), name, model)), config)


def _toml(value: object) -> str:
    return "(not set)" if value is None else json.dumps(value, ensure_ascii=False, default=asdict)
