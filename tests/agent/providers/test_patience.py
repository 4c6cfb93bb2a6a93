"""How long a session bears with a server: on a clock of the tests, which moves only while something waits."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.errors import (
    AuthFailed,
    ContextOverflow,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamCut,
    TimedOut,
    Unreachable,
)
from ebbtide.agent.events.session import Event, RetryScheduled
from ebbtide.agent.messages import Assistant, Text, Usage
from ebbtide.agent.providers.base import Chunk, ModelFacts, Reply, Request, TextChunk
from ebbtide.agent.providers.stream import RetryLimits, RetryPolicy, stream_reply
from ebbtide.agent.providers.wires.decoder import is_progress
from tests.kit.adapters import Adapter, Library, collect, endpoint_of, hello
from tests.kit.commands import ebb
from tests.kit.fake_provider import FakeProvider, Recorded, Turn
from tests.kit.proxies import answer, dripping, saying

REQUEST = hello()


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


class Failing:
    """A model that fails as it is told, then answers."""

    facts = ModelFacts("p", "m", 32_000, 4_000)
    window = Window(32_000, 4_000)

    def __init__(self, failure: Callable[[int], ProviderError | None], text: str = "") -> None:
        self._failure, self._text = failure, text
        self.asked = 0

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.asked += 1
        if self._text:
            yield TextChunk(self._text)
        if (error := self._failure(self.asked)) is not None:
            raise error
        yield Reply(Assistant((Text("hi"),), "p/m"), Usage(1, 0, 0, 1), "end")

    async def prepare(self) -> None: ...

    async def close(self) -> None: ...


class Run:
    """One reply of a model that fails."""

    def __init__(self, persistence: RetryLimits, *, reached: bool = True, may_leave: bool = False) -> None:
        self.may_leave = may_leave
        self.clock, self.events = Clock(), list[Event]()
        self.retries = RetryPolicy(persistence, self.clock.now, self.clock.sleep, {"p/m"} if reached else set())

    async def reply(self, model: Failing, interrupt: Interrupt | None = None) -> str:
        reply = await stream_reply(
            model,
            REQUEST,
            interrupt or Interrupt(),
            self.events.append,
            None,
            self.retries,
            has_fallback=self.may_leave,
        )
        return reply.message.text or reply.stop_reason

    @property
    def waits(self) -> list[RetryScheduled]:
        return [event for event in self.events if isinstance(event, RetryScheduled)]


async def test_an_outage_of_nine_minutes_is_borne() -> None:
    run = Run(RetryLimits(600))
    model = Failing(lambda _: Unreachable("no network") if run.clock.at < 540 else None)
    assert await run.reply(model) == "hi"
    assert 540 <= run.clock.at < 600
    assert all(wait.attempts == 0 and wait.left is not None for wait in run.waits)


@pytest.mark.parametrize(
    ("persistence", "how", "error", "message", "seconds"),
    [
        (RetryLimits(600), {}, Overloaded("busy."), r"busy\. Tried \d+ times in 10 min\.", 600),
        (RetryLimits(600), {"reached": False}, Unreachable("refused"), "Tried 6 times in 10 s", 10),
        (RetryLimits(600, fallback_after=30), {"may_leave": True}, Overloaded("busy"), "busy", 30),
    ],
    ids=["which is told", "sooner at an address that nobody has reached", "sooner where another model may take over"],
)
async def test_patience_has_an_end(
    persistence: RetryLimits, how: dict[str, bool], error: ProviderError, message: str, seconds: float
) -> None:
    run = Run(persistence, **how)
    with pytest.raises(type(error), match=message):
        await run.reply(Failing(lambda _: error))
    assert run.clock.at == pytest.approx(seconds)
    assert run.waits[-1].left == 0


@pytest.mark.parametrize("failure", [Overloaded("busy"), AuthFailed("no")])
async def test_a_server_that_has_refused_has_been_reached(failure: ProviderError) -> None:
    run = Run(RetryLimits(600), reached=False)
    model = Failing(lambda number: failure if number == 1 else Unreachable("gone") if run.clock.at < 300 else None)
    if not failure.is_retryable:
        with pytest.raises(AuthFailed):
            await run.reply(model)
    assert await run.reply(model) == "hi"
    assert run.clock.at >= 300


async def test_a_wait_within_the_patience_is_kept_and_one_beyond_it_ends_the_run_at_once() -> None:
    run = Run(RetryLimits(600))
    assert await run.reply(Failing(lambda n: RateLimited("slow", retry_after=300) if n == 1 else None)) == "hi"
    assert run.clock.at == 300
    run = Run(RetryLimits(600))
    model = Failing(lambda _: RateLimited("slow", retry_after=7300))
    with pytest.raises(RateLimited, match=r"It asks to wait 2\.0 h, longer than `retry\.patience`") as caught:
        await run.reply(model)
    assert (run.clock.at, model.asked, caught.value.retry_after) == (0, 1, 7300)


async def test_without_an_end_it_goes_on_until_the_user_stops_it() -> None:
    run, interrupt = Run(RetryLimits(None)), Interrupt()

    def failure(number: int) -> ProviderError:
        if number == 200:
            interrupt.request()
        return Overloaded("busy")

    assert await run.reply(Failing(failure), interrupt) == "interrupted"
    assert run.clock.at > 5000
    assert {wait.left for wait in run.waits} == {None}


async def test_a_wait_is_left_at_once() -> None:
    interrupt, began = Interrupt(), asyncio.Event()
    retries = RetryPolicy(RetryLimits(None))
    model = Failing(lambda _: RateLimited("slow", retry_after=3600))
    work = asyncio.ensure_future(stream_reply(model, REQUEST, interrupt, lambda _: began.set(), None, retries))
    await began.wait()
    interrupt.request()
    async with asyncio.timeout(20):
        assert (await work).stop_reason == "interrupted"


async def test_what_does_not_fit_behind_an_outage_keeps_what_is_known_of_it() -> None:
    run = Run(RetryLimits(600))
    large = ContextOverflow("too large.", status=400, size=210_000, limit=200_000)
    with pytest.raises(ContextOverflow) as raised:
        await run.reply(Failing(lambda number: large if number > 1 else Overloaded("busy.")))
    found = raised.value
    assert str(found).startswith("too large. Tried 2 times in ")
    assert (found.status, found.size, found.limit, found.__cause__) == (400, 210_000, 200_000, large)


async def test_what_to_do_stands_at_the_end() -> None:
    run = Run(RetryLimits(600))
    with pytest.raises(Overloaded) as raised:
        await run.reply(Failing(lambda _: Overloaded("busy.", cause="x", todo="Try again later.")))
    assert re.fullmatch(r"busy\. Tried \d+ times in 10 min\. Try again later\.", str(raised.value))
    assert (raised.value.cause, raised.value.todo) == ("x", "Try again later.")


async def test_an_answer_that_breaks_off_costs_five_requests_at_most() -> None:
    run, model = Run(RetryLimits(None)), Failing(lambda _: StreamCut("cut"), text="so")
    with pytest.raises(StreamCut, match="Tried 5 times"):
        await run.reply(model)
    assert (model.asked, {wait.attempts for wait in run.waits}) == (5, {5})


async def test_an_answer_that_breaks_off_after_an_outage_is_asked_for_again() -> None:
    run = Run(RetryLimits(600))
    failures: dict[int, ProviderError | None] = {**{n: Unreachable("gone") for n in range(1, 9)}, 9: StreamCut("cut")}
    assert await run.reply(Failing(failures.get)) == "hi"
    assert [(wait.attempt, wait.attempts) for wait in run.waits][-2:] == [(9, 0), (2, 5)]
    assert run.waits[-1].delay <= 0.5


KEEPING_ALIVE = {
    "anthropic": 'event: ping\ndata: {"type": "ping"}\n\n',
    "responses": 'data: {"type": "response.in_progress", "response": {}}\n\n',
    "chat": ': keep-alive\n\ndata: {"choices": [{"index": 0, "delta": {"content": ""}}]}\n\n',
    "ollama": '{"message": {"role": "assistant", "content": ""}, "done": false}\n',
}


@pytest.mark.parametrize("wire", ["http", "sdk"])
async def test_what_only_keeps_alive_is_no_answer(adapter: Adapter, wire: Library) -> None:
    head = answer(["content-type: text/event-stream"], b"")
    with dripping(head, KEEPING_ALIVE[adapter.name].encode()) as port:
        provider = adapter.make(
            adapter.facts, Window(32_000, 4_000), endpoint_of(adapter, f"http://127.0.0.1:{port}", 0.5), wire
        )
        with pytest.raises(TimedOut, match=r"did not respond for 0\.5 s"):
            await collect(provider, REQUEST)
        await provider.close()
    assert not is_progress({"type": "ping"})
    assert is_progress({"type": "content_block_stop"})


QUICKLY = "from ebbtide.agent.providers import stream; stream.FIRST_DELAY = 0.02"
"""Every delay before another try is as much shorter as the first."""


def test_a_run_survives_a_server_that_is_gone_for_a_while(tmp_path: Path) -> None:
    busy = Turn(status=503, body={"error": {"message": "down"}})
    with FakeProvider([*[busy] * 6, Turn(text="back")]) as server:
        done = ebb("-p", "hi", "-m", "openai-chat/m", home=tmp_path, env=server.environment, first=QUICKLY)
    assert (done.code, done.out) == (0, "back\n")
    assert "; attempt 7 in " in done.err


def test_a_mistyped_address_is_told_soon(tmp_path: Path) -> None:
    with saying(b"") as port:
        pass  # nobody listens there any more
    done = ebb(
        "-p", "hi", "-m", "openai-chat/m", "--config", "retry.first=1", home=tmp_path,
        env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"},
    )  # fmt: skip
    assert done.code == 3
    assert "times in 1 s." in done.err


SHORT = ("--config", "retry.first=0.000001", "--config", "retry.patience=2")
"""An address that nobody has reached is asked once, another one again and again."""


def test_a_session_that_goes_on_has_reached_its_server_before(tmp_path: Path) -> None:
    with FakeProvider([Turn(text="hi")]) as server:
        env = server.environment
        assert ebb("-p", "hi", "-m", "openai-chat/m", home=tmp_path, env=env).code == 0
    gone = ebb("-c", "-p", "hi", "-m", "openai-chat/m", *SHORT, home=tmp_path, env=env)
    assert (gone.code, gone.err.count("Tried ")) == (3, 1)
    with saying(b"") as port:
        pass
    moved = ebb(
        "-c", "-p", "hi", "-m", "openai-chat/m", *SHORT, home=tmp_path,
        env={"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"},
    )  # fmt: skip
    assert (moved.code, moved.err.count("Tried ")) == (3, 0)


def test_a_new_session_bears_with_a_server_that_has_answered_another_session(tmp_path: Path) -> None:
    """Its address is not mistyped."""
    with FakeProvider([Turn(text="hi")]) as server:
        env = server.environment
        assert ebb("-p", "hi", "-m", "openai-chat/m", home=tmp_path, env=env).code == 0
    for _ in range(2):  # the outage is not learnt either
        gone = ebb("-p", "hi", "-m", "openai-chat/m", *SHORT, home=tmp_path, env=env)
        assert (gone.code, gone.err.count("Tried ")) == (3, 1)
    other = ebb("-p", "hi", "-m", "openai-chat/other", *SHORT, home=tmp_path, env=env)
    assert (other.code, other.err.count("Tried ")) == (3, 0)


def test_a_limit_of_a_day_ends_the_run_with_its_own_code(tmp_path: Path) -> None:
    limited = Turn(status=429, headers={"retry-after": "86400"}, body={"error": {"message": "Daily limit."}})
    with FakeProvider([limited]) as server:
        done = ebb(
            "-p", "hi", "-m", "openai-chat/m", "--output-format", "json", home=tmp_path,
            env=server.environment,
        )  # fmt: skip
    assert (done.code, done.result["stop_reason"], len(server.requests)) == (75, "rate_limited", 1)
    assert "It asks to wait 24.0 h" in done.result["error"]["message"]


def test_a_fallback_takes_over_and_is_told(tmp_path: Path) -> None:
    busy = Turn(status=503, body={"error": {"message": "down"}})

    def by_model(recorded: Recorded) -> Turn:
        return Turn(text="from the other") if recorded.body["model"] == "two" else busy

    with FakeProvider([by_model]) as server:
        done = ebb(
            "-p", "hi", "-m", "openai-chat/one", "--config", 'agent.fallback_models=["openai-chat/two"]',
            "--config", "retry.fallback_after=1", home=tmp_path, env=server.environment,
        )  # fmt: skip
    assert (done.code, done.out) == (0, "from the other\n")
    assert "ebb: the model is now openai-chat/two: " in done.err
    assert "down" in done.err


@pytest.mark.parametrize(
    ("model", "variable", "url", "start"),
    [
        ("ollama/m", "OLLAMA_HOST", "http://127.0.0.2:11434", "Start Ollama: `ollama serve`"),
        ("ollama/m", "OLLAMA_HOST", "http://127.0.0.1:{0}", "Start Ollama: `OLLAMA_HOST=127.0.0.1:{0} ollama serve`"),
        (
            "openai-chat/m",
            "OPENAI_BASE_URL",
            "http://ollama.localhost:{0}/v1",
            "Start Ollama: `OLLAMA_HOST=127.0.0.1:{0} ollama serve`",
        ),
        (
            "openai-chat/m",
            "OPENAI_BASE_URL",
            "http://127.0.0.2:1234/v1",
            "Start LM Studio: press Start Server in its window, or run `lms server start --port 1234`",
        ),
        (
            "openai-chat/m",
            "OPENAI_BASE_URL",
            "http://127.0.0.2:8080/v1",
            "Start llama.cpp: `llama-server -m MODEL.gguf --port 8080`",
        ),
        (
            "openai-chat/m",
            "OPENAI_BASE_URL",
            "http://vllm.localhost:{0}/v1",
            "Start vLLM: `vllm serve MODEL --port {0}`",
        ),
    ],
)
def test_a_local_server_that_is_not_running_is_reported_once_with_its_start_command(
    tmp_path: Path, model: str, variable: str, url: str, start: str
) -> None:
    with saying(b"") as port:
        pass
    url, start = url.format(port), start.format(port)
    done = ebb("-p", "hi", "-m", model, home=tmp_path, env={variable: url})
    host = url.removeprefix("http://").removesuffix("/v1")
    message = f"no server is running at `{host}` for {model}. {start}, then try again."
    assert (done.code, [line for line in done.err.splitlines() if "nothing is known" not in line]) == (
        3, [f"ebb: {message}"],
    )  # fmt: skip
