"""Exports sessions to OpenTelemetry, as spans and metrics according to its conventions for generative AI. Disabled by
default."""

from collections.abc import Mapping
from functools import partial

from ebbtide.agent.channel import EventSink
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.process.install_command import install_command
from ebbtide.tools.secrets.redaction import redact_text


def open_telemetry(config: Config, environment: Mapping[str, str]) -> EventSink:
    """Return the exporter for the configured endpoint. Raises `ConfigError`."""
    if config.telemetry_endpoint is None:
        raise ConfigError("`telemetry.endpoint` is not set")
    try:
        from ebbtide.agent.integrations.telemetry.export import Telemetry  # noqa: PLC0415  # an optional extra
    except ImportError as error:
        problem = f"`telemetry.endpoint` needs packages that are not installed. Run: {install_command('otel')}"
        raise ConfigError(problem) from error
    redact = partial(redact_text, environment=environment)
    return Telemetry(config.telemetry_endpoint, redact, exports_text=config.telemetry_content)
