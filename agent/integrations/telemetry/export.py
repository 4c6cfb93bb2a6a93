"""Sends spans and metrics to a collector, with OTLP over HTTP."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from ebbtide.agent.channel import Channel
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.session import Event
from ebbtide.agent.integrations.telemetry.session_trace import Instruments, SessionTrace
from ebbtide.tools.secrets.redaction import redact_url
from ebbtide.version import VERSION

EXPORT_TIMEOUT_S = 2.0
"""Timeout in seconds, both for one attempt to send and for the shutdown."""


class Telemetry:
    """Telemetry of one process, shared by all of its sessions."""

    def __init__(self, endpoint: str, redact: Callable[[str], str], *, exports_text: bool) -> None:
        """`endpoint` is the collector's address, to which `/v1/traces` and `/v1/metrics` are appended. `redact` removes
        secrets from text. `exports_text`: whether messages and outputs are exported. Raises `ConfigError`."""
        split_url = urlsplit(endpoint)
        if split_url.scheme not in ("http", "https") or not split_url.hostname:
            address = redact_url(endpoint)
            raise ConfigError(
                f"`telemetry.endpoint` is `{address}`, not a valid address; write it as `http://host:4318`"
            )
        # Failures are reported once, as a notice; the library's log messages would corrupt the screen.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        base, resource = endpoint.rstrip("/"), Resource.create({"service.name": "ebbtide", "service.version": VERSION})
        self._endpoint = redact_url(base)
        self._span_exporter = _FailureTrackingExporter(OTLPSpanExporter(f"{base}/v1/traces", timeout=EXPORT_TIMEOUT_S))
        self._tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracer_provider.add_span_processor(BatchSpanProcessor(self._span_exporter))
        metric_exporter = OTLPMetricExporter(f"{base}/v1/metrics", timeout=EXPORT_TIMEOUT_S)
        self._meter_provider = MeterProvider(
            [PeriodicExportingMetricReader(metric_exporter)], resource, shutdown_on_exit=False
        )
        meter = self._meter_provider.get_meter("ebbtide", VERSION)
        self._instruments = Instruments(
            self._tracer_provider.get_tracer("ebbtide", VERSION),
            meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of requests"),
            meter.create_histogram("gen_ai.client.operation.duration", "s", "Duration of requests and calls"),
            meter.create_counter("ebbtide.cost", "USD", "Cost of requests"),
            meter.create_counter("ebbtide.context.rewrites", "{rewrite}", "Rewrites of the model's view"),
            redact,
            exports_text,
        )
        self._traces: list[SessionTrace] = []
        self._has_reported_failure = False

    def follow(self, channel: Channel) -> None:
        """Record a session's events. The first time that sending fails, the user is notified."""
        trace = SessionTrace(self._instruments)
        self._traces.append(trace)

        def record(event: Event) -> None:
            trace.record(event)
            if self._span_exporter.has_failed and not self._has_reported_failure:
                self._has_reported_failure = True
                channel.show_notice(f"telemetry cannot be sent to `{self._endpoint}`; the session continues without it")

        channel.observe_events(record)

    async def close(self) -> None:
        """Send the remaining data, within a few seconds."""
        for trace in self._traces:
            trace.close()
        shutdowns = (self._tracer_provider.shutdown, partial(self._meter_provider.shutdown, EXPORT_TIMEOUT_S * 1000))
        # Exporters keep retrying if the collector does not answer. Shutting them down in daemon threads keeps that from
        # delaying the exit.
        threads = [threading.Thread(target=shutdown, name="telemetry", daemon=True) for shutdown in shutdowns]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(_join_threads, threads)


def _join_threads(threads: Sequence[threading.Thread]) -> None:
    deadline = time.monotonic() + EXPORT_TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


class _FailureTrackingExporter(SpanExporter):
    """An exporter that records whether any spans were lost."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.has_failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self.has_failed = self.has_failed or result is not SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
