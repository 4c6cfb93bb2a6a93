"""Checks the connection to providers: proxies, certificates and, on request, whether their servers answer."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from ebbtide.agent.config.options import PROVIDERS
from ebbtide.agent.config.values import Config
from ebbtide.agent.doctor.check_result import CheckResult
from ebbtide.agent.errors import AgentError
from ebbtide.agent.providers.factory import proxy_route, reach_provider
from ebbtide.agent.providers.setup import address_of, first_choice

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

REPLY_TIMEOUT_S = 15.0
"""Timeout for a server's answer, in seconds."""


def examine_network(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the proxies and certificates in the environment, without network access."""
    told: dict[str, list[str]] = {}
    for name in providers_in_use(config, environment):
        try:
            url = address_of(name, config.provider(name), environment)
            way = proxy_route(url)
        except AgentError as error:
            yield CheckResult("network", "broken", str(error))
            continue
        told.setdefault(way or "no proxy", []).append(urlsplit(url).netloc.rpartition("@")[2])
    for way, hosts in told.items():
        yield CheckResult("network", "well", f"{way} between here and {', '.join(dict.fromkeys(hosts))}")
    yield _certificates(environment)


def _certificates(environment: Mapping[str, str]) -> CheckResult:
    named = next((name for name in CERTIFICATES if environment.get(name)), None)
    try:
        context = ssl.create_default_context()
        if named == CERTIFICATES[0]:
            context.load_verify_locations(environment[named])
    except OSError as error:  # TLS errors are OSErrors as well
        reason = "it contains none" if isinstance(error, ssl.SSLError) else error.strerror
        told = f"cannot read `{environment[named]}`, set by `{named}`: {reason}" if named else reason
        return CheckResult(
            "certificates", "broken", str(told), "set the variable to a PEM file of certificates, or unset it"
        )
    if named:
        return CheckResult("certificates", "well", f"from `{environment[named]}`, set by `{named}`")
    return CheckResult("certificates", "well", "from this system")


def examine_servers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check whether the servers of the providers in use answer and accept the key. Each gets one free request."""
    names = providers_in_use(config, environment)
    if not names:
        yield CheckResult("provider", "note", "none to check: no model and no key is set")
    yield from asyncio.run(_check_providers(names, config, environment))


async def _check_providers(
    names: Sequence[str], config: Config, environment: Mapping[str, str]
) -> Sequence[CheckResult]:
    return await asyncio.gather(*(_answer(name, config, environment) for name in names))


async def _answer(name: str, config: Config, environment: Mapping[str, str]) -> CheckResult:
    try:
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            host, status, milliseconds = await reach_provider(name, config, environment)
    except AgentError as error:
        return CheckResult("provider", "broken", f"{name}: {error}")
    except TimeoutError:
        return CheckResult("provider", "broken", f"{name}: no answer within {REPLY_TIMEOUT_S:.0f} s")
    listed = "and accepts the key" if status == 200 else f"but lists no models (HTTP {status})"
    return CheckResult(
        "provider", "well" if status < 500 else "note", f"{name}: {host} answers in {milliseconds:.0f} ms, {listed}"
    )


def providers_in_use(config: Config, environment: Mapping[str, str]) -> Sequence[str]:
    """Return the providers of the configured models, or of the default model, and those with their own address."""
    models = [config.model, *config.fallback_models, config.summary_model, config.agents_model]
    named = [model.partition("/")[0] for model in models if model]
    if not config.model:
        with suppress(AgentError):  # reported by the check of the model
            named.append(first_choice(environment).partition("/")[0])
    own = [name for name, provider in config.providers.items() if provider.base_url]
    return [name for name in dict.fromkeys((*named, *own)) if name in PROVIDERS and name != "scripted"]
