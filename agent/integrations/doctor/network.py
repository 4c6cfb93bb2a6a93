"""Checks the connection to providers: proxies, certificates and, on request, whether the providers' servers answer."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from ebbtide.agent.config.options import PROVIDER_NAMES
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError
from ebbtide.agent.integrations.doctor.check_result import CheckResult
from ebbtide.agent.providers.factory import check_provider, describe_proxy
from ebbtide.agent.providers.setup import find_base_url, find_default_model

CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

REPLY_TIMEOUT_S = 15.0
"""Timeout for a server's answer, in seconds."""


def check_network(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the proxies and certificates in the environment, without network access."""
    hosts_by_proxy: dict[str, list[str]] = {}
    for name in used_provider_names(config, environment):
        try:
            url = find_base_url(name, config.provider_config(name), environment)
            proxy = describe_proxy(url)
        except AgentError as error:
            yield CheckResult("network", "broken", str(error))
            continue
        hosts_by_proxy.setdefault(proxy or "no proxy", []).append(urlsplit(url).netloc.rpartition("@")[2])
    for proxy, hosts in hosts_by_proxy.items():
        yield CheckResult("network", "well", f"{proxy} between here and {', '.join(dict.fromkeys(hosts))}")
    yield _check_certificates(environment)


def _check_certificates(environment: Mapping[str, str]) -> CheckResult:
    variable = next((name for name in CERTIFICATE_VARIABLES if environment.get(name)), None)
    try:
        context = ssl.create_default_context()
        if variable == CERTIFICATE_VARIABLES[0]:
            context.load_verify_locations(environment[variable])
    except OSError as error:  # TLS errors are OSErrors as well
        reason = "it contains no certificates" if isinstance(error, ssl.SSLError) else error.strerror
        problem = f"cannot read `{environment[variable]}`, set by `{variable}`: {reason}" if variable else reason
        return CheckResult(
            "certificates", "broken", str(problem), "set the variable to a PEM file of certificates, or unset it"
        )
    if variable:
        return CheckResult("certificates", "well", f"from `{environment[variable]}`, set by `{variable}`")
    return CheckResult("certificates", "well", "from this system")


def check_providers(config: Config, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check whether the providers in use answer and accept the key. Each server gets one free request."""
    names = used_provider_names(config, environment)
    if not names:
        yield CheckResult("provider", "note", "none to check: no model and no key is set")
    yield from asyncio.run(_check_providers(names, config, environment))


async def _check_providers(
    names: Sequence[str], config: Config, environment: Mapping[str, str]
) -> Sequence[CheckResult]:
    return await asyncio.gather(*(_check_provider(name, config, environment) for name in names))


async def _check_provider(name: str, config: Config, environment: Mapping[str, str]) -> CheckResult:
    try:
        host, status, milliseconds = await check_provider(name, config, environment, REPLY_TIMEOUT_S)
    except AgentError as error:
        return CheckResult("provider", "broken", f"{name}: {error}")
    except TimeoutError:
        return CheckResult("provider", "broken", f"{name}: no answer within {REPLY_TIMEOUT_S:.0f} s")
    outcome = "and accepts the key" if status == 200 else f"but lists no models (HTTP {status})"
    return CheckResult(
        "provider", "well" if status < 500 else "note", f"{name}: {host} answers in {milliseconds:.0f} ms, {outcome}"
    )


def used_provider_names(config: Config, environment: Mapping[str, str]) -> Sequence[str]:
    """List the providers of all configured models, or of the default model if none is configured. Providers whose
    address the user has set are also included."""
    models = [config.model, *config.fallback_models, config.summary_model, config.agents_model]
    provider_names = [model.partition("/")[0] for model in models if model]
    if not config.model:
        with suppress(AgentError):  # the model check reports this
            provider_names.append(find_default_model(config.providers, environment).partition("/")[0])
    providers_with_address = [name for name, provider in config.providers.items() if provider.base_url]
    return [
        name
        for name in dict.fromkeys((*provider_names, *providers_with_address))
        if name in PROVIDER_NAMES and name != "scripted"
    ]
