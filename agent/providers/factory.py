"""Creates providers from the configuration. The only module that names adapters."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ebbtide.agent.config.options import PROVIDERS
from ebbtide.agent.config.values import Config
from ebbtide.agent.context.budget import Window
from ebbtide.agent.context.estimate import Estimator, Ruler
from ebbtide.agent.context.images import ImageRule
from ebbtide.agent.context.prefix import digest
from ebbtide.agent.context.preflight import ModelTarget
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.errors import UsageError
from ebbtide.agent.providers.base import Endpoint, ModelFacts, Provider
from ebbtide.agent.providers.fallbacks import Connect, Targets, chain_after
from ebbtide.agent.providers.meter import Meter
from ebbtide.agent.providers.registry import at_other_server, facts_for
from ebbtide.agent.providers.setup import (
    FIRST_CHOICE,
    find_endpoint,
    find_setting,
    find_window,
    has_key,
    is_own_server,
    overrides,
)
from ebbtide.agent.providers.summarisers import CheaperSummarisers, Summarisers
from ebbtide.agent.providers.tokenizers import factor_of, load_in_background, load_tokenizer

WireName = Literal["sdk", "http"]
LOCAL = ("ollama", "scripted")
"""Providers for which nothing is downloaded."""
TEXT_CALLS = ("openai-chat", "ollama")
"""Providers that may serve any model, with any chat template."""
KNOWN_WELL = 20
"""Usage samples after which a tokenizer no longer improves the learned estimate."""
FASTEST = "fastest"


def known_models(config: Config, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The configured models, and the default ones whose key is set."""
    usual = [model for key, model in FIRST_CHOICE if key in environment or has_key(environment, key, model)]
    return tuple(dict.fromkeys((*configured_models(config), *usual)))


def configured_models(config: Config) -> tuple[str, ...]:
    """The models named in the user's configuration."""
    described = [f"{name}/{m}" for name, provider in config.providers.items() for m in provider.models]
    return tuple(dict.fromkeys((*([config.model] if config.model else []), *config.fallback_models, *described)))


def known_model(config: Config, model: str) -> tuple[ModelFacts, Window]:
    """The facts known of a model offline, and the resulting window."""
    name, _, model_name = model.partition("/")
    known = overrides(config, config.provider(name), name, model_name) if name in PROVIDERS else {}
    facts = facts_for(name, model_name, known)
    return facts, find_window(facts, config)


def split_name(model: str) -> tuple[str, str]:
    """Split a model into provider and name. Raises `UsageError` unless it has the form `PROVIDER/NAME`."""
    name, slash, model_name = model.partition("/")
    if not slash or not model_name or name not in PROVIDERS or not model.isprintable():
        raise UsageError(f"`{model}` is not a model; write PROVIDER/NAME with a provider of {', '.join(PROVIDERS)}")
    return name, model_name


async def build_provider(
    config: Config,
    model: str,
    environment: Mapping[str, str],
    *,
    is_precise: bool = False,
    secrets: SecretTokens | None = None,
) -> Provider:
    """Create the provider for a model, ready for requests.

    `is_precise`: see `find_window`. `secrets` hides secrets in requests. Raises `AuthFailed`, and `UsageError` for
    an invalid model, or one with unknown prices when the cost is limited."""
    secrets = secrets or SecretTokens(environment)
    provider = await _connect_model(config, model, environment, secrets, is_precise=is_precise)
    if config.max_cost is not None and provider.facts.prices is None:
        await provider.close()
        raise UsageError(f"the prices of `{model}` are unknown, so `--max-cost` cannot be enforced; leave it out")
    return provider


async def _connect_model(
    config: Config,
    model: str,
    environment: Mapping[str, str],
    secrets: SecretTokens,
    *,
    is_precise: bool,
) -> Provider:
    name, model_name = split_name(model)
    if name == "scripted":
        from ebbtide.agent.providers.wires.scripted import Scripted, read_script  # noqa: PLC0415  # deferred: one adapter a run

        scripted = Scripted(read_script(Path(model_name)), model_name, secrets=secrets)
        scripted.limits = find_window(scripted.facts, config, is_precise=is_precise)
        return scripted
    settings = config.provider(name)
    endpoint = find_endpoint(name, settings, environment)
    facts = facts_for(name, model_name, overrides(config, settings, name, model_name))
    facts = facts if is_own_server(name, endpoint) else at_other_server(facts)
    server = digest(endpoint.base_url.encode("utf-8", "surrogatepass"))
    set_temperature = find_setting(config, name, model_name, "temperature")
    facts = replace(
        facts,
        server=server,
        calls_in_text=reads_text_calls(config, name, model_name),
        may_repeat=name in TEXT_CALLS,
        temperature=None if set_temperature is None else set_temperature.value,
    )
    wire: WireName = "http" if settings.wire == "auto" else settings.wire

    def window(facts: ModelFacts) -> Window:
        return find_window(facts, config, is_precise=is_precise)

    return await _adapter(name, facts, endpoint, wire, window, secrets)


def reads_text_calls(config: Config, provider: str, model: str) -> bool:
    """Whether tool calls in a model's text are treated as calls. By default, yes for providers whose servers may not
    parse them."""
    chosen = find_setting(config, provider, model, "tool_calls")
    wish = "auto" if chosen is None else chosen.value
    return provider in TEXT_CALLS if wish == "auto" else wish == "text"


async def _adapter(
    name: str,
    facts: ModelFacts,
    endpoint: Endpoint,
    wire: WireName,
    window: Callable[[ModelFacts], Window],
    secrets: SecretTokens,
) -> Provider:
    from ebbtide.agent.providers.wires.adapter import WireProvider  # noqa: PLC0415  # deferred: with the adapter

    match name:
        case "anthropic":
            from ebbtide.agent.providers.wires.anthropic import ADAPTER  # noqa: PLC0415  # deferred: one adapter a run
        case "openai":
            from ebbtide.agent.providers.wires.openai_responses import ADAPTER  # noqa: PLC0415  # deferred: one adapter a run
        case "openai-chat":
            from ebbtide.agent.providers.wires.openai_chat import ADAPTER  # noqa: PLC0415  # deferred: one adapter a run
            from ebbtide.agent.providers.wires.served_facts import with_served_facts  # noqa: PLC0415  # deferred: as above

            facts = await with_served_facts(endpoint, facts)
        case "ollama":
            from ebbtide.agent.providers.wires.ollama import ADAPTER, live_facts  # noqa: PLC0415  # deferred: one adapter a run

            facts = await live_facts(endpoint, facts)
        case _:
            raise AssertionError(f"{name} has no adapter")
    return WireProvider(ADAPTER, facts, window(facts), endpoint, wire, secrets)


async def reach_provider(name: str, config: Config, environment: Mapping[str, str]) -> tuple[str, int, float]:
    """Request a provider's list of models, which is free. Return the host, the HTTP status and the time in
    milliseconds. Raises `AgentError` if the server is unreachable or rejects the key."""
    from ebbtide.agent.providers.wires.reach import reach  # noqa: PLC0415  # deferred: only needed for diagnostics

    reached = await reach(name, find_endpoint(name, config.provider(name), environment))
    return reached.host, reached.status, reached.milliseconds


def proxy_route(url: str) -> str | None:
    """A description of the proxy that the environment sets for a URL; None if there is none. Raises `RouteFailed` if
    the setting is invalid."""
    from ebbtide.agent.providers.wires.proxies import check_proxy, proxy_of  # noqa: PLC0415  # deferred: as above

    check_proxy(url)
    proxy = proxy_of(url)
    return None if proxy is None else proxy.description


def make_meter(config: Config, model: str, estimator: Estimator, *, interactive: bool) -> Meter:
    """Create the meter of a session. A configured tokenizer is loaded now, from a local vocabulary. In an
    interactive session with too few samples, the default one is downloaded and loaded in the background."""
    provider, _, name = model.partition("/")
    images: ImageRule = "tiles" if provider in ("openai", "openai-chat") else "area"
    folder = config.folders.data / "vocabularies"
    wanted = find_setting(config, provider, name, "tokenizer")
    if wanted is not None:
        return Meter(estimator, Ruler(load_tokenizer(str(wanted.value), folder, name), images))
    if not interactive or provider in LOCAL or estimator.samples >= KNOWN_WELL:
        return Meter(estimator, Ruler(images=images))

    def load(meter: Meter) -> None:
        factor = factor_of(provider, name)
        load_in_background("o200k_base", folder, lambda count: meter.use(Ruler(lambda t: factor * count(t), images)))

    return Meter(estimator, Ruler(images=images), load)


def build_summarisers(
    config: Config,
    environment: Mapping[str, str],
    own: Callable[[], ModelFacts],
    *,
    secrets: SecretTokens | None = None,
) -> Summarisers | CheaperSummarisers:
    """The models that write summaries: the configured one, or with `fastest` all known ones, ordered by speed. By
    default, a configured model that is cheaper than the session's own."""
    chosen = config.summary_model

    async def connect(model: str) -> Provider:
        return await build_provider(config, model, environment, secrets=secrets)

    if chosen is None:
        return CheaperSummarisers(own, possible_writers(config), connect)
    if chosen != FASTEST:
        return Summarisers([chosen], connect)
    return Summarisers(known_models(config, environment), connect, measure=True)


def possible_writers(config: Config) -> tuple[ModelFacts, ...]:
    """The configured models that could write summaries instead of the session's own. Local models are left out,
    since they cost time instead of money; set `summary_model` to use one."""
    others = [model for model in configured_models(config) if model.partition("/")[0] not in LOCAL]
    return tuple(known_model(config, model)[0] for model in others)


def targets_for(config: Config, model: str, provider: Provider, connect: Connect) -> Targets:
    """A session's model and its fallbacks. Raises `UsageError` for an invalid model."""
    return Targets(provider, fallbacks_of(config, model), connect)


def fallbacks_of(config: Config, model: str) -> tuple[ModelTarget, ...]:
    """The fallbacks of a session's model, with their windows as known offline. Raises `UsageError` for an invalid
    model."""
    for name in config.fallback_models:
        split_name(name)
    known = [known_model(config, name) for name in chain_after(model, config.fallback_models)]
    return tuple(ModelTarget(facts.provider, facts.name, window) for facts, window in known)
