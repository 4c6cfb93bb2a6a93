"""What a session makes of a server's counts, over many sessions: of servers that read only the newest part, of those
that count at random, and of those that do both now and then."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import pytest

from ebbtide.agent.context.budget import Window
from ebbtide.agent.context.prompt import Instructions, build_prompt
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.messages import Assistant, Conversation, Message, Summary, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.meter import Meter

SYSTEM = Instructions("Be brief and exact, look before you write. " * 60, "here", "")
TOOLS = tuple(ToolSpec(f"tool{n}", "Does something with files. " * 20, {"type": "object"}) for n in range(10))
FRAME = 6
"""Tokens that a template adds to each message."""
CHARS = 3.6
"""Characters of a token."""


@dataclass(frozen=True, slots=True)
class Server:
    """How it counts: by a factor, and off by as much as `jitter` at random. Of what exceeds its window it reads the
    newest messages, or exactly the newest part."""

    factor: float = 1.0
    jitter: float = 0.0
    window: int | None = None
    drops_messages: bool = False

    def count(self, conversation: Conversation, dice: random.Random) -> tuple[int, bool]:
        """What it counts of a request, and whether that was not all of it."""
        opening = (len(SYSTEM.text) + sum(len(str(tool)) for tool in TOOLS)) / CHARS
        sizes = [len(conversation.summary.summary) / CHARS, *map(size_of, conversation.messages)]
        whole = read = opening + sum(sizes)
        if self.window is not None and whole > self.window:
            while self.drops_messages and len(sizes) > 1 and opening + sum(sizes) > self.window:
                sizes.pop(0)
            read = min(opening + sum(sizes), self.window) if self.drops_messages else self.window
        return max(int(read * self.factor * dice.uniform(1 - self.jitter, 1 + self.jitter)), 1), read < whole


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
    "light": lambda dice: min(int(dice.lognormvariate(5.0, 1.9)) + 10, 45_000),
    "small": lambda dice: dice.randint(200, 800),
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


def play(
    server: Server, shape: str, seed: int, *, steps: int = 25, window: int = 200_000, calls: bool = True
) -> Played:
    """A session of so many steps, in which the view is made smaller where it does not fit; up to the finding."""
    dice, meter, truncated = random.Random(f"{shape}{seed}"), Meter(), 0
    conversation, room = Conversation((User((Text(part(300, dice)),)),)), Window(window, window // 6, 4096)
    for step in count():
        budget = meter.measure(build_prompt(conversation, SYSTEM), conversation, TOOLS, room)
        if budget.verdict != "fits":
            newest = conversation.messages[-2:]
            conversation = Conversation((conversation.messages[0], *newest), Summary("", part(2000, dice)))
            meter.reset_counters()
            budget = meter.measure(build_prompt(conversation, SYSTEM), conversation, TOOLS, room)
        counted, is_short = server.count(conversation, dice)
        truncated += is_short
        said = Text(part(dice.randint(1, 200) if calls else SHAPES[shape](dice), dice))
        call = ToolCall(str(step), "read", {"path": "a"}, '{"path": "a"}')
        reply = Assistant((said, call) if calls else (said,), "p/m")
        usage = Usage(counted, output=int(size_of(reply) * server.factor))
        conversation = meter.anchor_reply(conversation, Reply(reply, usage, "calls" if calls else "end"), budget, print)
        real = meter.take_real_window()
        if real is not None or step == steps:
            return Played(truncated, real)
        text = part(SHAPES[shape](dice) if calls else dice.randint(20, 300), dice)
        conversation = conversation.plus(User((ToolOutput(str(step), text) if calls else Text(text),)))
    raise AssertionError("the count never ends")


@pytest.mark.parametrize("jitter", [0.05, 0.1, 0.2, 0.4])
def test_who_counts_at_random_is_hardly_ever_taken_for_one_that_leaves_something_out(jitter: float) -> None:
    servers = [Server((0.6, 1.0, 1.4)[seed % 3], jitter) for seed in range(12)]
    windows = (200_000, 32_000)
    found = [
        (shape, seed)
        for shape in SHAPES
        for seed, server in enumerate(servers)
        if play(server, shape, seed, window=windows[seed % 2], calls=seed % 4 > 0).real is not None
    ]
    assert len(found) <= 1, f"{len(found)} of 60 sessions: {found}"


@pytest.mark.parametrize("drops_messages", [False, True])
@pytest.mark.parametrize("shape", ["even", "usual", "large"])
def test_who_reads_only_the_newest_part_is_found_soon(shape: str, drops_messages: bool) -> None:
    servers = [Server(1.0, 0.0, (4096, 8192)[seed % 2], drops_messages) for seed in range(20)]
    played = [play(server, shape, seed) for seed, server in enumerate(servers)]
    assert [one.real is None for one in played] == [False] * 20
    found = sorted(one.truncated for one in played)
    assert found[9] <= 3, f"half of the sessions need more than three requests: {found}"
    assert found[-1] <= 7, "whole messages that are dropped look much as counts that are off by 40 % do"


def test_a_window_that_not_even_holds_the_tools_is_found_though_only_what_is_new_seems_to_be_counted() -> None:
    played = play(Server(window=1024), "even", 1)
    assert (played.truncated, played.real) == (3, 1024)
