"""`ebb models`: lists models with their context windows, prices and features, and where each fact comes from."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.config.options import PROVIDER_NAMES
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.providers.choices import ModelChoice, describe_model, list_model_choices, provider_models
from ebbtide.agent.providers.factory import known_facts_and_window
from ebbtide.agent.providers.registry import is_table_updated
from ebbtide.tui.cli.arguments import (
    create_subcommand_parser,
    environment_with_keys,
    parse_subcommand_args,
    read_settings_with_warnings,
)
from ebbtide.tui.integrations.models.updates import TABLE_URL, remove_tables, update_tables
from ebbtide.tui.text.numbers import format_tokens
from ebbtide.tui.text.sanitise import sanitise_line

_SOURCE_LABELS = {"registry": "table", "config": "your settings", "live": "server", "default": "unknown"}
"""Display names for the sources of facts."""
_NO_MODEL = "No model can be used yet: store a key with `ebb key set PROVIDER`, or start a local server."


def run(arguments: Sequence[str]) -> int:
    """Run `ebb models`; return the exit code. Raises `UsageError`."""
    parser = create_subcommand_parser(
        "models",
        "List the models that you can use now, with windows, prices in US dollars per million tokens, and the source "
        "of both. With PROVIDER, list all known models of that provider. `ebb models update` fetches newer windows and "
        "prices.",
    )
    parser.add_argument("provider", nargs="?", metavar="PROVIDER", help="list the models of this provider, or `update`")
    parser.add_argument(
        "--from", dest="source", metavar="URL", help="update from this address or file (default: LiteLLM's table)"
    )
    parser.add_argument("--undo", action="store_true", help="with `update`, use the tables of this release again")
    options = parse_subcommand_args(parser, arguments, "one JSON object per model", has_one_word=True)
    _, config = read_settings_with_warnings(options)
    if options.provider == "update":
        return _update(options.source, config, undo=options.undo, as_json=options.json)
    if options.undo or options.source is not None:
        raise UsageError("`--from` and `--undo` belong to `ebb models update`")
    choices = list_models(config, environment_with_keys(config), options.provider)
    if options.json:
        for choice in choices:
            print_json(sys.stdout, model_fields(choice, config))
    elif choices:
        _print_table(choices, config)
    elif options.provider is None:
        print(_NO_MODEL)
    else:
        print(f"No models of {options.provider} are listed. Use `-m {options.provider}/NAME` with its server's name.")
    return 0


def _update(source: str | None, config: Config, *, undo: bool, as_json: bool) -> int:
    folder = config.folders.model_table_folder
    if undo:
        count = remove_tables(folder)
        print("The tables of this release are used again." if count else "There is no update to undo.", file=sys.stderr)
        return 0
    if not as_json:
        print(f"Fetching {sanitise_line(source or TABLE_URL)} …", file=sys.stderr)
    changes = update_tables(source or TABLE_URL, folder)
    for change in changes:
        if as_json:
            print_json(sys.stdout, asdict(change))
        elif change.new or change.changed or change.removed:
            print(f"{change.provider}: {change.new} new, {change.changed} changed, {change.removed} gone")
    if not as_json:
        total = sum(change.total for change in changes)
        print(f"{total} models of {len(changes)} providers. `ebb models update --undo` goes back.", file=sys.stderr)
    return 0


def list_models(config: Config, environment: Mapping[str, str], provider: str | None) -> tuple[ModelChoice, ...]:
    """List the models that can be used now, or all known models of a provider. Raises `UsageError`."""
    if provider is None:
        return tuple(choice for choice in list_model_choices(config, environment) if choice.has_key)
    if provider not in PROVIDER_NAMES:
        raise UsageError(
            f"there is no provider `{sanitise_line(provider)}`; the providers are {', '.join(PROVIDER_NAMES)}"
        )
    return tuple(describe_model(model, config, environment) for model in provider_models(provider, config))


def model_fields(choice: ModelChoice, config: Config) -> dict[str, Any]:
    """Format a model as a JSON object. Unknown facts are null."""
    return {
        "model": choice.model,
        "usable": choice.has_key,
        "context_window": choice.window_tokens,
        "prices": asdict(choice.prices) if choice.prices is not None else None,
        "tools": choice.supports_tools,
        "images": choice.supports_images,
        "thinking": choice.supports_thinking,
        "sources": {fact: _source_label(choice.model, fact, config) for fact in ("context_window", "prices")},
    }


def _print_table(choices: Sequence[ModelChoice], config: Config) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold", min_width=24)
    table.add_column("window", justify="right", no_wrap=True, min_width=6)
    table.add_column("in / cached / out", no_wrap=True, min_width=18)
    table.add_column("supports")
    table.add_column("from", no_wrap=True, min_width=6)
    for choice in choices:
        window = "" if choice.window_tokens is None else format_tokens(choice.window_tokens)
        features = ", ".join(_supported_features(choice))
        table.add_row(
            sanitise_line(choice.model), window, _price_text(choice.prices), features, _source_text(choice, config)
        )
    Console(highlight=False, markup=False).print(table)


def _price_text(prices: Prices | None) -> str:
    return "unknown" if prices is None else f"{prices.input:g} / {prices.cache_read:g} / {prices.output:g}"


def _source_text(choice: ModelChoice, config: Config) -> str:
    """Name the sources of the context window and of the prices, or just one source if they are the same."""
    window, prices = (_source_label(choice.model, fact, config) for fact in ("context_window", "prices"))
    return window if window == prices else f"{window}, prices: {prices}"


def _supported_features(choice: ModelChoice) -> Iterator[str]:
    for name, is_supported in (("images", choice.supports_images), ("thinking", choice.supports_thinking)):
        if is_supported:
            yield name


def _source_label(model: str, fact: str, config: Config) -> str:
    """Name the source of a fact about a model."""
    if model.startswith("scripted/"):
        return "unknown"
    facts, _ = known_facts_and_window(config, model)
    source = dict(facts.sources).get(fact, "default")
    if source == "registry" and is_table_updated(facts.provider, config.folders.model_table_folder):
        return "update"
    return _SOURCE_LABELS.get(source, source)
