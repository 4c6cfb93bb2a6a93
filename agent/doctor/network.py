"""The way to providers: proxies, certificates, and, where that is wanted, whether their servers answer."""

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
"""Seconds that a server may take to answer."""


def examine_network(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Proxies and certificates as the environment names them. Nobody is asked."""
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
    except OSError as error:  # those of TLS are of this kind, too
        reason = "it holds none" if isinstance(error, ssl.SSLError) else error.strerror
        told = f"those in `{environment[named]}`, which `{named}` names, cannot be read: {reason}" if named else reason
        return CheckResult(
            "certificates", "broken", str(told), "name a file of certificates (PEM), or unset the variable"
        )
    if named:
        return CheckResult("certificates", "well", f"those in `{environment[named]}`, which `{named}` names")
    return CheckResult("certificates", "well", "those of this system")


def examine_servers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Whether the servers of the providers in use answer, and take their key. Each is sent one free request."""
    names = providers_in_use(config, environment)
    if not names:
        yield CheckResult("provider", "note", "there is none to ask: no model is set, and no key")
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
        return CheckResult("provider", "broken", f"{name}: no answer for {REPLY_TIMEOUT_S:.0f} s")
    listed = "and takes the key" if status == 200 else f"but lists no models (HTTP {status})"
    return CheckResult(
        "provider", "well" if status < 500 else "note", f"{name}: {host} answers in {milliseconds:.0f} ms, {listed}"
    )


def providers_in_use(config: Config, environment: Mapping[str, str]) -> Sequence[str]:
    """Those of the configured models, or of the one that would be taken, and those with an address of their own."""
    models = [config.model, *config.fallback_models, config.summary_model, config.agents_model]
    named = [model.partition("/")[0] for model in models if model]
    if not config.model:
        with suppress(AgentError):  # said where the model is looked at
            named.append(first_choice(environment).partition("/")[0])
    own = [name for name, provider in config.providers.items() if provider.base_url]
    return [name for name in dict.fromkeys((*named, *own)) if name in PROVIDERS and name != "scripted"]
