"""The pages that an answer cites, in every form of output: after the answer, and the first twenty of them."""

import json
import subprocess

import pytest

from tests.kit.commands import command, environment
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.user import User

ANSWER = "It is new in 4.0 [1][3]."


def perplexity(count: int, *, missing: int | None = None) -> Turn:
    """Perplexity's stream, whose text cites the list by number. `missing`: an entry without an address."""
    pages = [None if number == missing else f"https://site{number}.example/" for number in range(1, count + 1)]
    frames = [
        {"choices": [{"index": 0, "delta": {"content": ANSWER[:10]}}], "citations": pages},
        {"choices": [{"index": 0, "delta": {"content": ANSWER[10:]}}], "citations": pages},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "citations": pages},
    ]
    return Turn(raw="".join(f"data: {json.dumps(frame)}\n\n" for frame in frames) + "data: [DONE]\n\n")


def ask(user: User, turn: Turn, *flags: str) -> tuple[str, str]:
    with FakeProvider([turn]) as server:
        run = user.ebb("-m", "openai-chat/sonar", *flags, env=server.environment)
    assert run.code == 0, run.err
    return run.out, run.err


def test_the_sources_are_printed_after_the_answer(user: User) -> None:
    with FakeProvider([perplexity(3, missing=2)]) as server:
        words = ("-C", str(user.project), "-p", "what is new?", "-m", "openai-chat/sonar")
        run = subprocess.run(
            command(*words), env=environment(user.home, server.environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
        )  # fmt: skip
    sources = "ebb: Sources:\n[1] https://site1.example/\n[3] https://site3.example/\n"
    assert run.stdout.endswith(f"\n{ANSWER}\n{sources}")


def test_hundreds_of_sources_are_counted(user: User) -> None:
    _, err = ask(user, perplexity(200), "-p", "what is new?")
    assert err.endswith("[20] https://site20.example/\nand 180 more\n")
    assert "site21." not in err


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_json_has_every_source_in_its_place(user: User, form: str) -> None:
    out, err = ask(user, perplexity(200, missing=2), "-p", "what is new?", "--output-format", form)
    lines = [json.loads(line) for line in out.splitlines()]
    listed = [source["url"] for source in lines[-1]["sources"]]
    assert listed == [f"https://site{number}.example/" if number != 2 else "" for number in range(1, 201)]
    finished = [line["sources"] for line in lines if line["type"] == "reply_finished"]
    assert finished == ([lines[-1]["sources"]] if form == "stream-json" else [])
    assert "Sources" not in err


def test_line_mode_lists_them_in_a_turn_and_after_a_resume(user: User) -> None:
    with FakeProvider([perplexity(22)]) as server:
        env = server.environment
        turn = user.ebb("--plain", "-m", "openai-chat/sonar", stdin="what is new?\n/exit\n", env=env).out
        again = user.ebb("--plain", "-c", stdin="/exit\n", env=env).out
    assert len(server.requests) == 1
    last_lines = "[20] https://site20.example/\nand 2 more\n"
    assert f"{ANSWER}\nNote: Sources:\n[1] https://site1.example/\n" in turn
    assert last_lines in turn
    assert f"You: what is new?\n{ANSWER}\nNote: Sources:\n[1] https://site1.example/\n" in again
    assert last_lines in again
