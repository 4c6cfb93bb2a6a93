"""The models that a user can choose from, with the facts that are known offline."""

import re
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError
from ebbtide.agent.providers.base import Prices
from ebbtide.agent.providers.factory import LOCAL, configured_models, known_model
from ebbtide.agent.providers.registry import known_models
from ebbtide.agent.providers.setup import FIRST_CHOICE, find_endpoint, key_variable
from ebbtide.tools.lazy import dataclass

_DATE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")
_TABLE_PROVIDERS = ("anthropic", "openai")
"""Providers whose models are in the registry."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """One model to choose from. Unknown facts are None."""

    model: str
    """`provider/name`."""
    window: int | None = None
    """Tokens."""
    prices: Prices | None = None
    tools: bool | None = None
    pictures: bool | None = None
    thinking: bool | None = None
    has_key: bool = True
    """Whether it can be used now: its key is set, or it needs none."""
    key: str = ""
    """The environment variable for the key; empty if none is needed."""
    is_own: bool = False
    """Whether the user's configuration names it."""

    @property
    def provider(self) -> str:
        return self.model.partition("/")[0]


def model_choices(config: Config, environment: Mapping[str, str], local: Sequence[str] = ()) -> tuple[ModelChoice, ...]:
    """The models to choose from: configured ones first, then those that can be used now, then the rest; each
    provider's newest first. `local`: models of a server on this machine."""
    own = configured_models(config)
    found = [
        describe_model(model, config, environment)
        for model in dict.fromkeys((*own, *_usual(), *local, *_table_models()))
    ]
    providers = list(dict.fromkeys(offer.provider for offer in found))

    def place(offer: ModelChoice) -> tuple[object, ...]:
        newest = () if offer.is_own else tuple(-number for number in version_of(offer.model))
        return not offer.is_own, not offer.has_key, not offer.is_own and providers.index(offer.provider), newest

    return tuple(sorted(found, key=place))


def model_called(said: str, usual: str) -> str | None:
    """Return the PROVIDER/NAME that `said` refers to, with the provider of the `usual` model. `said` is a name, or
    part of one such as `haiku`; of several matches, the newest wins. `inherit` means the usual model. None if the
    provider has no such model."""
    provider = usual.partition("/")[0]
    if said in ("", "inherit", usual):
        return usual
    if said.startswith(f"{provider}/"):
        return said
    names = known_models(provider)
    if said in names or _DATE.sub("", said) in names:
        return f"{provider}/{said}"
    found = [f"{provider}/{name}" for name in names if said.lower() in name.lower()]
    return max(found, key=lambda one: (version_of(one), -len(one)), default=None)


def version_of(model: str) -> tuple[int, ...]:
    """The version in a model's name, without dates and sizes: (4, 5) for `claude-haiku-4-5-20251001`."""
    name = re.sub(r"\d{4}-\d{2}-\d{2}", "", model.partition("/")[2].partition(":")[0])
    numbers = [int(number) for number in re.findall(r"(?<![a-z\d])(\d{1,2})(?![\dbk])", name)]
    return (*numbers, 0, 0)[:2] if numbers else (0, 0)


def describe_model(model: str, config: Config, environment: Mapping[str, str]) -> ModelChoice:
    """What is known of one model, including models that are in no table."""
    provider, _, name = model.partition("/")
    settings = config.provider(provider)
    is_own = model in configured_models(config)
    if provider == "scripted" or not name:
        return ModelChoice(model, is_own=is_own)
    facts, window = known_model(config, model)
    sources = dict(facts.sources)

    def known(fact: str) -> bool:
        return sources.get(fact, "default") != "default"

    is_listed = known("max_output_tokens")
    return ModelChoice(
        model,
        window.size if known("context_window") or provider in LOCAL else None,
        facts.prices,
        True if is_listed else None,  # the table lists only models that support tools
        facts.images if is_listed or known("images") else None,
        facts.thinking != "none" if is_listed or known("thinking") else None,
        _has_key(provider, config, environment),
        "" if provider in LOCAL else key_variable(provider, settings) or "",
        is_own,
    )


def _has_key(provider: str, config: Config, environment: Mapping[str, str]) -> bool:
    try:
        find_endpoint(provider, config.provider(provider), environment)
    except (AgentError, KeyError):
        return False
    return True


def _usual() -> Iterator[str]:
    return (model for _, model in FIRST_CHOICE)


def _table_models() -> Iterator[str]:
    return (f"{provider}/{name}" for provider in _TABLE_PROVIDERS for name in known_models(provider))


def price_of_switch(offer: ModelChoice, tokens: int) -> float | None:
    """The cost of writing `tokens` tokens to the model's cache, in US dollars; None if its prices are unknown."""
    return None if offer.prices is None else tokens * offer.prices.at(tokens).cache_write
