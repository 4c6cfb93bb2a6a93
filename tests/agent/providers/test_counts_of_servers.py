"""What a session makes of a server's counts, over many sessions with servers that read only the newest part."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import pytest

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.tool_specs import ToolSpec

SYSTEM = Instructions("Be brief and exact, look before you write. " * 60, "here", "")
TOOLS = tuple(ToolSpec(f"tool{n}", "Does something with files. " * 20, {"type": "object"}) for n in range(10))
FRAME = 6
"""Tokens that a template adds to each message."""
CHARS = 3.6
"""Characters of a token."""


@dataclass(frozen=True, slots=True)
class Server:
    """Of what exceeds its window it reads the newest messages, or exactly the newest part."""

    window: int
    drops_messages: bool = False

    def count(self, conversation: Conversation) -> tuple[int, bool]:
        """What it counts of a request, and whether that was not all of it."""
        opening = (len(SYSTEM.text) + sum(len(str(tool)) for tool in TOOLS)) / CHARS
        sizes = [len(conversation.summary.summary) / CHARS, *map(size_of, conversation.messages)]
        whole = read = opening + sum(sizes)
        if whole > self.window:
            while self.drops_messages and len(sizes) > 1 and opening + sum(sizes) > self.window:
                sizes.pop(0)
            read = min(opening + sum(sizes), self.window) if self.drops_messages else self.window
        return int(read), read < whole


def size_of(message: Message) -> float:
    return sum(len(getattr(part, "text", "") + getattr(part, "source", "")) for part in message.parts) / CHARS + FRAME


@lru_cache(1)
def texts() -> tuple[str, ...]:
    """Prose, code and a table."""
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghijklmnop", k=dice.randint(2, 9))) for _ in range(10_000)]
    lines = (f"    self.{word}[{len(word) * 7}] = {word[::-1]}(1)  # of {word}\n" for word in words[:1500])
    return " ".join(words), "".join(lines), "2024-01-02,17.25,abc,9\n" * 2500


def part(size: int, dice: random.Random) -> str:
    """So many characters of one of them, from anywhere."""
    text = dice.choice(texts())
    at = dice.randrange(max(len(text) - size, 1))
    return text[at : at + size]


SHAPES: dict[str, Callable[[random.Random], int]] = {
    "even": lambda dice: 5000,
    "usual": lambda dice: dice.randint(1500, 7000),
    "large": lambda dice: dice.randint(4000, 45_000),
}
"""How many characters the outputs of a session have."""


@dataclass(frozen=True, slots=True)
class Played:
    truncated: int
    """Requests that were not read whole, up to the finding."""
    real: int | None
    """The window that was found; None where none was."""


def play(server: Server, shape: str, seed: int, steps: int = 25) -> Played:
    """A session of so many steps, up to the finding."""
    dice, meter, truncated = random.Random(f"{shape}{seed}"), TokenMeter(), 0
    conversation, room = Conversation((User((Text(part(300, dice)),)),)), Window(200_000, 33_333, 4096)
    for step in count():
        budget = meter.measure(build_prompt(conversation, SYSTEM), conversation, TOOLS, room)
        counted, is_short = server.count(conversation)
        truncated += is_short
        text = Text(part(dice.randint(1, 200), dice))
        call = ToolCall(str(step), "read", {"path": "a"}, '{"path": "a"}')
        reply = Assistant((text, call), "p/m")
        usage = Usage(counted, output=int(size_of(reply)))
        conversation = meter.add_reply(conversation, Reply(reply, usage, "calls"), budget, print)
        real = meter.take_actual_window()
        if real is not None or step == steps:
            return Played(truncated, real)
        conversation = conversation.plus(User((ToolOutput(str(step), part(SHAPES[shape](dice), dice)),)))
    raise AssertionError("the count never ends")


@pytest.mark.parametrize("drops_messages", [False, True])
@pytest.mark.parametrize("shape", ["even", "usual", "large"])
def test_who_reads_only_the_newest_part_is_found_soon(shape: str, drops_messages: bool) -> None:
    servers = [Server((4096, 8192)[seed % 2], drops_messages) for seed in range(20)]
    played = [play(server, shape, seed) for seed, server in enumerate(servers)]
    assert [one.real is None for one in played] == [False] * 20
    found = sorted(one.truncated for one in played)
    assert found[9] <= 3, f"half of the sessions need more than three requests: {found}"
    assert found[-1] <= 7


def test_a_window_that_not_even_holds_the_tools_is_found_though_only_what_is_new_seems_to_be_counted() -> None:
    played = play(Server(window=1024), "even", 1)
    assert (played.truncated, played.real) == (3, 1024)


@pytest.mark.parametrize("chars", [2.8, 3.6, 4.5, 5.5])
@pytest.mark.parametrize("prompt_chars", [300, 20_000, 50_000])
def test_a_server_that_counts_fewer_tokens_than_were_estimated_is_believed_from_the_first_count_on(
    chars: float, prompt_chars: int
) -> None:
    dice, meter, room = random.Random(prompt_chars), TokenMeter(), Window(200_000, 33_333, 4096)
    conversation = Conversation((User((Text(part(prompt_chars, dice)),)),))
    for step in range(6):
        budget = meter.measure(build_prompt(conversation, SYSTEM), conversation, TOOLS, room)
        counted = int(Server(1 << 30).count(conversation)[0] * CHARS / chars)
        reply = Assistant((ToolCall(str(step), "read", {"path": "a"}, '{"path": "a"}'),), "p/m")
        conversation = meter.add_reply(conversation, Reply(reply, Usage(counted, output=20), "calls"), budget, print)
        assert meter.take_actual_window() is None
        assert meter.estimator.sample_count > 0
        conversation = conversation.plus(User((ToolOutput(str(step), part(2500, dice)),)))
    assert budget.used == pytest.approx(counted, rel=0.05)
