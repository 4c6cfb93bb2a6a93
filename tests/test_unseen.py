"""Whole processes against servers whose windows are full of what the newest calls gave back: each request shows all of
it, whole or cut."""

import random
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.kit.commands import Run, ebb
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn, tokens_in
from tests.kit.files import write_files

ASKED = "The context window is nearly full. Write down what is needed"
LINE = "2024-01-01,some words of text,12.5\n"
LOCAL = {"model_info": {"general.architecture": "q", "q.context_length": 131_072}, "capabilities": ["tools"]}
ROOTS = {"anthropic": "", "openai": "/v1", "openai-chat": "/v1", "ollama": ""}


@dataclass(frozen=True, slots=True)
class Job:
    """A task in which each step makes so many calls that give back so many bytes each."""

    provider: str
    window: int | None
    calls: int
    size: int
    steps: int = 10
    real: int | None = None
    """What the server takes, when that is less than the window that is set."""
    counts: float = 1.0
    has_picture: bool = False
    is_too_large: bool = False
    """The server counts more for the picture than it has room for."""
    flags: tuple[str, ...] = ()
    piped: int = 0
    """Bytes that are piped in with the prompt."""


def played(job: Job, folder: Path) -> tuple[Run, FakeProvider, int]:
    """The run, the server, and how many summaries it was asked for."""
    home, project = folder / "home", folder / "project"
    (home / "config").mkdir(parents=True)
    (project / ".git").mkdir(parents=True)
    summaries = 0
    steps = iter(range(job.steps))

    def answer(recorded: Recorded) -> Turn:
        nonlocal summaries
        if ASKED in str(recorded.body):
            summaries += 1
            return Turn(text="<retain>f0</retain><summary>The files were read one after the other.</summary>")
        number = next(steps, None)
        if number is None:
            return Turn(text="the answer")
        names = [f"f{number}-{call}.csv" for call in range(job.calls)]
        write_files(project, names, (LINE * (job.size // len(LINE) + 1))[: job.size])
        return Turn(calls=tuple(Call("read", {"path": name}) for name in names))

    script = [refusing(job.real, answer) if job.real else answer]
    with FakeProvider(script, LOCAL if job.provider == "ollama" else None, counts=job.counts) as server:
        window = f"context_window = {job.window}\n" if job.window else ""
        (home / "config" / "config.toml").write_text(
            f'[agent]\nmodel = "{job.provider}/m"\npermission_mode = "auto"\n{window}'
            f'[providers.{job.provider}]\nbase_url = "{server.url}{ROOTS[job.provider]}"\n'
            f"[providers.{job.provider}.models.m]\nimages = true\n"
        )
        prompt = "read them all"
        if job.has_picture:
            (project / "p.png").write_bytes(picture(400, is_noise=True) if job.is_too_large else picture(1000))
            prompt += " @p.png"
        keys = {"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key"}
        piped = "a line of a log\n" * (job.piped // 16) or None
        flags = ("--output-format", "json", "-C", str(project), *job.flags)
        run = ebb("-p", prompt, *flags, home=home, env=keys, stdin=piped)
    return run, server, summaries


def refusing(most: int, answer: Callable[[Recorded], Turn]) -> Callable[[Recorded], Turn]:
    """A server that finds requests above so many tokens too large, and says so as OpenAI does."""

    def checked(recorded: Recorded) -> Turn:
        size = tokens_in(recorded.body)
        if size <= most:
            return answer(recorded)
        message = (
            f"This model's maximum context length is {most} tokens. However, your messages resulted in {size} tokens."
        )
        error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
        return Turn(status=400, body={"error": error})

    return checked


def picture(side: int, *, is_noise: bool = False) -> bytes:
    """A PNG, all grey or one that does not get smaller."""
    draw = random.Random(side)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + (draw.randbytes(side) if is_noise else b"\x7f" * side) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


JOBS = [
    Job("ollama", None, 1, 40_000),
    Job("ollama", 16_384, 3, 20_000),
    Job("openai-chat", 8_192, 1, 3_500),
    Job("openai-chat", 8_192, 3, 1_500),
    Job("openai-chat", 16_384, 4, 3_500),
    Job("openai-chat", 32_768, 12, 3_900),
    Job("openai-chat", 16_384, 4, 6_000, counts=0.7),
    Job("openai-chat", 16_384, 4, 6_000, counts=1.3),
    Job("openai-chat", 131_072, 2, 3_500, real=12_000, has_picture=True),
    Job("anthropic", 32_768, 12, 3_900),
    Job("anthropic", 8_192, 3, 1_500, counts=1.3),
    Job("openai", 32_768, 12, 3_900),
    Job("openai", 200_000, 8, 45_000, real=40_000, has_picture=True),
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.provider}-{job.window}-{job.calls}x{job.size}")
def test_each_request_shows_what_the_newest_calls_gave_back(job: Job, tmp_path: Path) -> None:
    run, server, _ = played(job, tmp_path)
    assert (run.code, run.result["result"], run.result["error"]) == (0, "the answer", None)
    assert server.blind == []
    newest = [shown[-job.calls :] for shown in server.seen_outputs if shown]
    assert len(newest) >= job.steps
    assert {output.form for outputs in newest for output in outputs} <= {"whole", "cut"}


@pytest.mark.parametrize("provider", sorted(ROOTS))
def test_a_picture_that_is_too_large_for_the_server_is_named_and_the_work_goes_on(
    provider: str, tmp_path: Path
) -> None:
    few = ("--config", "tools.allowed=['bash', 'read_result', 'recall']")
    job = Job(provider, 131_072, 1, 1_000, 2, real=12_000, has_picture=True, is_too_large=True, flags=few)
    run, server, _ = played(job, tmp_path)
    assert (run.code, run.result["result"], server.blind) == (0, "the answer", [])
    sizes = [tokens_in(recorded.body) > 12_000 for recorded in server.requests]
    assert sizes == [True, *[False] * 3]
    assert ":tool-1" in str(server.requests[1].body)


def test_each_rewrite_is_one_line_on_stderr_and_counted(tmp_path: Path) -> None:
    loud, _, _ = played(Job("openai-chat", 20_000, 2, 3_500, steps=9), tmp_path / "a")
    quiet, _, _ = played(Job("openai-chat", 20_000, 2, 3_500, steps=9, flags=("--quiet",)), tmp_path / "b")
    lines = [line for line in loud.err.splitlines() if line.startswith("ebb: context rewritten")]
    assert len(lines) == loud.result["rewrites"]["count"] == loud.result["rewrites"]["strategies"]["mask"] > 0
    assert "because the window was full: about " in lines[0]
    assert lines[0].endswith("; old outputs were reduced to one line each. Nothing is lost")
    assert loud.result["rewrites"]["removed_tokens"] > 1_000
    assert (quiet.err, quiet.result["rewrites"]) == ("", loud.result["rewrites"])


OWN = {
    "apply_patch",
    "bash_output",
    "bash_kill",
    "todo",
    "compact_context",
    "ask_user",
    "read_result",
    "recall",
    "grep",
}
TINY = [
    Job("openai-chat", 4_096, 2, 2_000, 20),
    Job("ollama", 8_192, 3, 3_000, 20),
    Job("anthropic", 16_384, 4, 3_500, 20),
    Job("openai", 4_096, 4, 8_000, 20),
]


@pytest.mark.parametrize("job", [Job("anthropic", 6_000, 4, 12_000), Job("anthropic", 8_192, 7, 60_000, 17)], ids=str)
def test_something_of_each_new_output_is_shown_in_a_small_window(job: Job, tmp_path: Path) -> None:
    run, server, _ = played(job, tmp_path)
    steps = [recorded.body["messages"] for recorded in server.requests if ASKED not in str(recorded.body)]
    counts = [str(messages[-1]).count("2024-01-01") for messages in steps[1:]]
    assert (run.code, len(counts)) == (0, job.steps)
    assert min(counts) >= job.calls


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_each_new_output_has_its_line_where_a_fine_tokenizer_leaves_no_room_for_more(
    provider: str, tmp_path: Path
) -> None:
    run, server, _ = played(Job(provider, 5_200, 8, 20_000, 6, counts=2.0, piped=200_000), tmp_path)
    assert (run.code, run.result["result"], server.blind) == (0, "the answer", [])


@pytest.mark.parametrize("job", TINY, ids=lambda job: f"{job.provider}-{job.window}")
def test_twenty_steps_end_in_a_small_window_with_few_summaries(job: Job, tmp_path: Path) -> None:
    run, server, summaries = played(job, tmp_path)
    assert (run.code, run.result["result"], server.blind) == (0, "the answer", [])
    assert summaries <= len(server.requests) // 8
    steps = [recorded.body for recorded in server.requests if ASKED not in str(recorded.body)]
    offered = [[tool.get("name") or tool["function"]["name"] for tool in body["tools"]] for body in steps]
    lists = [names for names, before in zip(offered, [[], *offered], strict=False) if names != before]
    assert len(lists) <= 2
    assert set(lists[-1]) - set(lists[0]) <= {"read_result", "recall"}
    names = set(lists[-1])
    text = str([{**body, "tools": []} for body in steps])
    assert {name for name in OWN if re.search(rf"\b{name}\b", text)} <= names


def test_the_user_chooses_the_tools(tmp_path: Path) -> None:
    job = Job("openai-chat", 200_000, 1, 100, steps=1, flags=("--config", "tools.denied=['read']"))
    _, server, _ = played(job, tmp_path / "a")
    names = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    assert ("read" in names, "edit" in names) == (False, True)
    assert "no tool" in str(server.requests[1].body["messages"][-1])
    job = Job("openai-chat", 200_000, 1, 100, steps=0, flags=("--config", "toolsAllowed=['read', 'bash']"))
    _, server, _ = played(job, tmp_path / "b")
    assert [tool["function"]["name"] for tool in server.requests[0].body["tools"]] == ["read", "bash"]
    run, server, _ = played(replace(job, flags=("--config", "tools.allowed=['raed']")), tmp_path / "c")
    assert (run.code, server.requests) == (2, [])
    assert "`tools.allowed`: there is no built-in tool `raed`; there are read, write" in run.err + run.out
