"""Model servers that read less than they are sent and do not say so, and servers that only count badly, as a whole
process meets them."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.commands import Run, ebb
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn
from tests.kit.token_counts import Reader

SHOW = {"model_info": {"general.architecture": "m", "m.context_length": 131_072}, "capabilities": ["tools"]}
SUMMARY = "<retain>the user wants all files read</retain><summary>Some files were read.</summary>"
NOTICE = "it drops the beginning"


def words(number: int, seed: int = 0) -> str:
    """Text that no tokenizer makes short work of."""
    dice = random.Random(seed)
    made = ("".join(dice.choices("abcdefghijklmnop", k=dice.randint(2, 9))) for _ in range(number))
    return "".join(f"{word}{' ' if index % 9 else chr(10)}" for index, word in enumerate(made, 1))


def reading(files: int) -> Callable[[Recorded], Turn]:
    """A model that reads so many files, one in each step, and then answers; it writes summaries when it is asked to."""
    left = iter(range(files))

    def answer(request: Recorded) -> Turn:
        if "<retain>" in json.dumps(request.body["messages"][-1]):
            return Turn(text=SUMMARY)
        number = next(left, None)
        return Turn(text="done") if number is None else Turn(calls=(Call("read", {"path": f"{number}.txt"}),))

    return answer


def run(server: FakeProvider, folder: Path, wire: str, *flags: str, prompt: str = "read them all") -> Run:
    window = ("--config", "agent.context_window=32768") if wire == "chat" else ()
    env = {"OLLAMA_HOST": server.url, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "key"}
    model = {"ollama": "ollama/m", "chat": "openai-chat/m"}[wire]
    return ebb(
        "-C", str(folder), "-p", prompt, "-m", model, "--output-format", "json", *window, *flags,
        home=folder.parent / "home", env=env,
    )  # fmt: skip


def project(tmp_path: Path, files: int, size: int) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for number in range(files):
        (folder / f"{number}.txt").write_text(words(size, number))
    return folder


def result(run: Run) -> tuple[int, str, int]:
    """The exit code, the answer, and how often a server was said to leave something out."""
    return run.code, json.loads(run.out)["result"], run.err.count(NOTICE)


def too_large(reader: Reader) -> list[int]:
    """Which requests were not read whole."""
    return [number for number, (sent, read) in enumerate(reader.counted) if sent > read]


@pytest.mark.parametrize(
    ("wire", "window", "size"), [("ollama", 8000, 3000), ("chat", 8192, 1800), ("chat", 12_000, 7200)]
)
def test_a_server_with_less_than_is_known_is_found_out(tmp_path: Path, wire: str, window: int, size: int) -> None:
    reader = Reader(window)
    with FakeProvider([reading(12)], SHOW, reader=reader) as server:
        done = run(server, project(tmp_path, 12, size), wire)
    assert result(done) == (0, "done", 1)
    assert "`agent.context_window`" in done.err
    assert len(too_large(reader)) <= 4  # the third shows it; the first is hardly larger than what is read
    assert max(too_large(reader)) < len(reader.counted) // 2


def test_an_answer_to_the_end_of_a_prompt_is_asked_for_again(tmp_path: Path) -> None:
    """A request of which hardly anything was read is found out by itself."""
    folder = project(tmp_path, 5, 6500)
    reader, asked = Reader(8000), list[str]()

    def answer(request: Recorded) -> Turn:
        asked.append(json.dumps(request.body["messages"][-1]))
        return Turn(text=SUMMARY if "<retain>" in asked[-1] else f"answer {len(asked)}")

    named = " ".join(f"@{number}.txt" for number in range(5))
    with FakeProvider([answer], SHOW, reader=reader) as server:
        done = run(server, folder, "chat", "--config", "agent.context_window=400000", prompt=f"what is in {named}")
    code, text, notices = result(done)
    assert (code, notices) == (0, 1)
    assert text == f"answer {len(asked)}" != "answer 1"
    assert too_large(reader) == [0]


def test_a_session_that_goes_on_is_found_out_too(tmp_path: Path) -> None:
    folder, reader = project(tmp_path, 12, 2500), Reader()
    with FakeProvider([reading(2)], SHOW, reader=reader) as server:
        assert result(run(server, folder, "ollama")) == (0, "done", 0)
    reader = Reader(8000)
    with FakeProvider([reading(9)], SHOW, reader=reader) as server:
        assert result(run(server, folder, "ollama", "-c")) == (0, "done", 1)
    assert len(too_large(reader)) <= 4


@pytest.mark.parametrize(
    "reader",
    [
        Reader(factor=0.6),
        Reader(factor=1.4),
        Reader(factor=0.6, step=512),
        Reader(counts_tools=False),
        Reader(factor=0.6, counts_tools=False, step=100),
        Reader(counts_read=False),
    ],
    ids=["less", "more", "less in steps", "no tools", "less, no tools, in steps", "only what is new"],
)
@pytest.mark.parametrize("wire", ["ollama", "chat"])
def test_a_server_that_only_counts_badly_is_not_taken_for_one(tmp_path: Path, wire: str, reader: Reader) -> None:
    with FakeProvider([reading(8)], SHOW, reader=reader) as server:
        assert result(run(server, project(tmp_path, 8, 1500), wire)) == (0, "done", 0)
