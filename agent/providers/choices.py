"""The models that a user can choose from, and the facts about them that are known offline."""

import re
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.config.chat_hosts import CHAT_HOSTS
from ebbtide.agent.config.clouds import SUBSCRIPTIONS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError
from ebbtide.agent.providers.factory import LOCAL_PROVIDERS, configured_models, known_facts_and_window
from ebbtide.agent.providers.registry import registry_models
from ebbtide.agent.providers.setup import DEFAULT_MODELS, find_endpoint, key_variable
from ebbtide.tools.lazy import dataclass

_DATE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")
_ALWAYS_LISTED = ("anthropic", "openai")
"""Providers whose models are listed even without a key."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model that the user can choose. Unknown facts are None."""

    model: str
    """`provider/name`."""
    window_tokens: int | None = None
    """Context window, in tokens."""
    prices: Prices | None = None
    supports_tools: bool | None = None
    supports_images: bool | None = None
    supports_thinking: bool | None = None
    has_key: bool = True
    """Whether the model can be used now: its key is set, or it needs none."""
    key_variable: str = ""
    """The environment variable for the model's key; empty if it needs none."""
    is_configured: bool = False
    """Whether the model is named in the user's configuration."""

    @property
    def provider(self) -> str:
        return self.model.partition("/")[0]


def list_model_choices(
    config: Config, environment: Mapping[str, str], local_models: Sequence[str] = ()
) -> tuple[ModelChoice, ...]:
    """Return the models to choose from: configured models, then models that can be used now, then all others; newest
    first within each provider. `local_models`: models of servers on this machine."""
    configured = configured_models(config)
    choices = [
        describe_model(model, config, environment)
        for model in dict.fromkeys(
            (*configured, *_default_models(), *local_models, *_registry_models(config, environment))
        )
    ]
    providers = list(dict.fromkeys(choice.provider for choice in choices))

    def sort_key(choice: ModelChoice) -> tuple[object, ...]:
        version_order = () if choice.is_configured else tuple(-number for number in model_version(choice.model))
        return (
            not choice.is_configured,
            not choice.has_key,
            not choice.is_configured and providers.index(choice.provider),
            version_order,
        )

    return tuple(sorted(choices, key=sort_key))


def resolve_model_name(model_name: str, default_model: str) -> str | None:
    """Find the model that `model_name` refers to, as PROVIDER/NAME, within the default model's provider. None if that
    provider has no such model. `model_name` may be part of a name, such as `haiku`: the newest match wins. `inherit`
    means the default model."""
    provider = default_model.partition("/")[0]
    if model_name in ("", "inherit", default_model):
        return default_model
    if model_name.startswith(f"{provider}/"):
        return model_name
    names = registry_models(provider)
    if model_name in names or _DATE.sub("", model_name) in names:
        return f"{provider}/{model_name}"
    matches = [f"{provider}/{name}" for name in names if model_name.lower() in name.lower()]
    return max(matches, key=lambda model: (model_version(model), -len(model)), default=None)


def model_version(model: str) -> tuple[int, ...]:
    """Parse the version in a model's name, ignoring dates and sizes: (4, 5) for `claude-haiku-4-5-20251001`."""
    name = re.sub(r"\d{4}-\d{2}-\d{2}", "", model.partition("/")[2].partition(":")[0])
    numbers = [int(number) for number in re.findall(r"(?<![a-z\d])(\d{1,2})(?![\dbk])", name)]
    return (*numbers, 0, 0)[:2] if numbers else (0, 0)


def describe_model(model: str, config: Config, environment: Mapping[str, str]) -> ModelChoice:
    """Return what is known about one model, even one that is not in the registry."""
    provider, _, name = model.partition("/")
    provider_config = config.provider_config(provider)
    is_configured = model in configured_models(config)
    if provider == "scripted" or not name:
        return ModelChoice(model, is_configured=is_configured)
    facts, window = known_facts_and_window(config, model)
    sources = dict(facts.sources)

    def is_known(fact: str) -> bool:
        return sources.get(fact, "default") != "default"

    is_listed = is_known("max_output_tokens")
    return ModelChoice(
        model,
        window.size if is_known("context_window") or provider in LOCAL_PROVIDERS else None,
        facts.prices,
        True if is_listed else None,  # the registry lists only models that support tools
        facts.images if is_listed or is_known("images") else None,
        facts.thinking != "none" if is_listed or is_known("thinking") else None,
        _has_key(provider, config, environment),
        "" if provider in LOCAL_PROVIDERS else key_variable(provider, provider_config) or "",
        is_configured,
    )


def _has_key(provider: str, config: Config, environment: Mapping[str, str]) -> bool:
    try:
        find_endpoint(provider, config.provider_config(provider), environment)
    except (AgentError, KeyError):
        return False
    return True


def _default_models() -> Iterator[str]:
    return (model for _, model in DEFAULT_MODELS)


def _registry_models(config: Config, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the registry's models of the providers whose key is set. Clouds have a hundred ids for the same models, so
    only their configured models are listed."""
    for provider in (*_ALWAYS_LISTED, *CHAT_HOSTS, *SUBSCRIPTIONS):
        if provider in _ALWAYS_LISTED or _has_key(provider, config, environment):
            yield from provider_models(provider, config)


def provider_models(provider: str, config: Config) -> tuple[str, ...]:
    """Return the registry's models of a provider, as `provider/name`."""
    return tuple(f"{provider}/{name}" for name in registry_models(provider, config.folders.model_table_folder))


def switch_cost(choice: ModelChoice, token_count: int) -> float | None:
    """Return the cost of writing `token_count` tokens to the model's cache, in US dollars; None if its prices are
    unknown."""
    return None if choice.prices is None else token_count * choice.prices.per_token(token_count).cache_write
