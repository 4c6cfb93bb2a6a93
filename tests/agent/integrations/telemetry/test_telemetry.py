"""Spans and metrics of real sessions, as a collector on this machine gets them."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ebbtide.agent.events.session import Event, FinalTurn, TurnFailed, TurnFinished, TurnStarted
from ebbtide.agent.integrations.telemetry.session_trace import Instruments, SessionTrace
from ebbtide.tools.secrets.redaction import redact_text
from tests.kit.commands import ebb
from tests.kit.files import write_files
from tests.kit.web_server import Answer, QuietHandler, web_server

READS = """
[[reply]]
calls = [{ name = "read", arguments = { path = "a.txt" } }, { name = "read", arguments = { path = "gone.txt" } }]
[[reply]]
text = "It says hello, and the key is sk-abcdefgh12345678 there."
"""
SENDS_OFF = """
[[reply]]
calls = [{ name = "task", arguments = { agent = "explore", prompt = "look around" } }]
[[reply]]
text = "It was looked at."
"""
LOOKS = '[[reply]]\ntext = "Looked."\n'


class Collector:
    """Takes what is exported over HTTP."""

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.metrics: list[Any] = []
        self.url = ""

    def answer(self, request: QuietHandler) -> Answer:
        if request.headers["content-encoding"] == "gzip":
            raise AssertionError("nobody asked for compression")
        if request.path == "/v1/traces":
            self.traces.append(ExportTraceServiceRequest.FromString(request.body()))
        else:
            self.metrics.append(ExportMetricsServiceRequest.FromString(request.body()))
        return 200, b""

    def spans(self) -> list[Any]:
        """All of them, in the order in which they began."""
        found = [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def points(self, name: str) -> list[Any]:
        found = []
        for request in self.metrics:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        if metric.name == name:
                            found += [*metric.histogram.data_points, *metric.sum.data_points]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    with web_server(collector.answer) as collector.url:
        yield collector


def said(attributes: Any) -> dict[str, Any]:
    values = {}
    for pair in attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        values[pair.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return values


def run(home: Path, script: str, endpoint: str, *settings: str) -> Any:
    write_files(home, {"script.toml": script, "a.txt": "hello\n"})
    more = [word for setting in (f"telemetry.endpoint={endpoint}", *settings) for word in ("--config", setting)]
    model = f"scripted/{home / 'script.toml'}"
    return ebb("-p", "what does it say?", "-m", model, "-C", str(home), "--output-format", "json", *more, home=home)


def test_a_turn_its_requests_and_its_calls_are_spans_of_one_trace(collector: Collector, tmp_path: Path) -> None:
    done = run(tmp_path, READS, collector.url)
    assert done.code == 0
    turn, first, read, missing, second = collector.spans()
    assert [span.name.split("/")[0] for span in (turn, first, read, missing, second)] == [
        "invoke_agent ebbtide",
        "chat ",
        "execute_tool read",
        "execute_tool read",
        "chat ",
    ]
    assert {span.trace_id for span in collector.spans()} == {turn.trace_id}
    assert {span.parent_span_id for span in collector.spans()} == {b"", turn.span_id}
    assert all(turn.start_time_unix_nano <= span.start_time_unix_nano for span in collector.spans())
    assert all(span.end_time_unix_nano <= turn.end_time_unix_nano for span in collector.spans())
    about, usage = said(turn.attributes), done.result["usage"]
    assert about["gen_ai.conversation.id"] == done.result["session"]
    assert about["ebbtide.end"] == "answered"
    assert about["gen_ai.usage.output_tokens"] == usage["output"]
    assert about["gen_ai.usage.input_tokens"] == usage["input"] + usage["cache_read"] + usage["cache_write"]
    assert said(first.attributes)["gen_ai.response.finish_reasons"] == ["calls"]
    assert said(read.attributes)["ebbtide.status"] == "done"
    assert said(missing.attributes)["error.type"] == "failed"
    assert sum(point.sum for point in collector.points("gen_ai.client.token.usage")) == sum(
        usage[kind] for kind in ("input", "cache_read", "cache_write", "output")
    )
    assert sum(point.count for point in collector.points("gen_ai.client.operation.duration")) == 4


def test_texts_are_told_only_where_that_is_wanted_and_without_keys(collector: Collector, tmp_path: Path) -> None:
    run(tmp_path, READS, collector.url)
    assert "hello" not in str(collector.traces)
    collector.traces.clear()
    run(tmp_path, READS, collector.url, "telemetry.content=true")
    turn, _, read, *_ = collector.spans()
    asked, answered = (json.loads(said(turn.attributes)[f"gen_ai.{way}.messages"]) for way in ("input", "output"))
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "what does it say?"}]}]
    part = {"type": "text", "content": "It says hello, and the key is *** there."}
    assert answered == [{"role": "assistant", "parts": [part], "finish_reason": "answered"}]
    assert said(read.attributes)["gen_ai.tool.call.arguments"] == '{"path": "a.txt"}'
    assert "hello" in said(read.attributes)["gen_ai.tool.call.result"]


def test_what_an_agent_does_is_part_of_the_call_that_sent_it_off(collector: Collector, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(LOOKS)
    agents = f'agents.model="scripted/{tmp_path / "agent.toml"}"'
    assert run(tmp_path, SENDS_OFF, collector.url, agents).code == 0
    spans = collector.spans()
    (call,) = [span for span in spans if span.name == "execute_tool task"]
    turns = [span for span in spans if span.name == "invoke_agent ebbtide"]
    assert [turn.parent_span_id for turn in turns] == [b"", call.span_id]
    assert {span.trace_id for span in spans} == {call.trace_id}


def test_a_collector_that_is_not_there_costs_nothing_but_its_figures(tmp_path: Path) -> None:
    done = run(tmp_path, READS, "http://127.0.0.1:9")
    assert (done.code, done.result["stop_reason"]) == (0, "answered")
    assert "Traceback" not in done.err


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, READS, "localhost:4318")
    problem = "`telemetry.endpoint` is `localhost:4318`, not a valid address; write it as `http://host:4318`"
    assert (done.code, done.err) == (2, f"ebb: {problem}\n")


def traced(*events: Event, exports_text: bool = False) -> ReadableSpan:
    """The span of a turn in which these events come."""
    exporter, tracing = InMemorySpanExporter(), TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    meter = MeterProvider().get_meter("test")
    trace = SessionTrace(
        Instruments(
            tracing.get_tracer("test"), meter.create_histogram("a"), meter.create_histogram("b"),
            meter.create_counter("c"), meter.create_counter("d"), partial(redact_text, environment={}), exports_text,
        )
    )  # fmt: skip
    for event in events:
        trace.record(event)
    (span,) = exporter.get_finished_spans()
    return span


@pytest.mark.parametrize("exports_text", [False, True])
def test_the_message_of_an_error_has_no_key(exports_text: bool) -> None:
    failed = TurnFailed("provider", "the server says: sk-abcdefgh12345678 is wrong", 3)
    span = traced(TurnStarted("s", "m/a", "go"), failed, TurnFinished("failed", ""), exports_text=exports_text)
    assert span.status.description == "the server says: *** is wrong"


def test_a_final_turn_is_an_event_of_its_span() -> None:
    span = traced(TurnStarted("s", "m/a", "go"), FinalTurn(9_000, 8_750), TurnFinished("context_limit", "so far"))
    (event,) = span.events
    assert (event.name, dict(event.attributes or {})) == ("final_turn", {"ebbtide.used": 9_000, "ebbtide.limit": 8_750})
