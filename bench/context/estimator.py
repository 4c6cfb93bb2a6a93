"""Measures the accuracy of token estimates: synthetic sessions with models whose token weights differ from ours.

    python -m bench.context.estimator [SESSIONS]

Output sizes follow those of real coding sessions (median 150 bytes, mean 1.4 KB, 6 % above 4 KiB). A model's true count
is a mixture of weights by byte class, with an error per text and a frame per message."""

import random
import statistics
import sys
import time
from dataclasses import replace

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.agent.prompt.build import Prompt
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.tokens.estimate import BYTE_COUNTER, TextCounts, count_message, count_text, count_tools
from ebbtide.agent.tool_specs import ToolSpec

WINDOW = Window(1_000_000, 16_384)
SYSTEM_TEXT = "You are a coding agent. Read before you write; run the tests. " * 700
TOOL_SPECS = tuple(ToolSpec(f"tool_{n}", "Does one thing well. " * 40, {"type": "object"}) for n in range(12))
MODELS = {
    "coarse (0.24, 0.55, 1.1)": (0.24, 0.55, 1.1, 7, 3),
    "as assumed (0.33, 0.6, 1.5)": (0.33, 0.6, 1.5, 12, 0),
    "fine (0.45, 0.85, 1.7)": (0.45, 0.85, 1.7, 15, 9),
}
"""Tokens per letter or blank, per digit or symbol, per other character, per message, and per reply frame."""
COUNT_NOISE = 0.04
"""Relative standard deviation of a text's true count."""


def random_text(size: int, dice: random.Random) -> str:
    """Return about `size` bytes of text: prose, code, listings or data, some of it not ASCII."""
    kind = dice.choices(("code", "prose", "listing", "data", "foreign"), (40, 20, 20, 15, 5))[0]
    words: list[str] = []
    length = 0
    while length < size:
        match kind:
            case "code":
                word = dice.choice(("def ", "return ", "self.", "value", "(x, y):\n    ", "index += 1\n", "result = "))
            case "prose":
                word = dice.choice(("the ", "window ", "of a ", "model ", "is read, ", "and then ", "written.\n"))
            case "listing":
                word = f"-rw-r--r-- 1 user {dice.randrange(99_999)} Nov {dice.randrange(28)} 12:17 file.py\n"
            case "data":
                word = f'{{"id": {dice.randrange(10**9)}, "ok": true}},\n'
            case _:
                word = dice.choice(("日本語の文 ", "größer ", "élève ", "и так далее "))
        words.append(word)
        length += len(word)
    return "".join(words)[:size]


def true_tokens(counts: TextCounts, model: tuple[float, ...], dice: random.Random) -> float:
    letter, sign, other, message, _ = model
    text = counts.letters * letter + counts.symbols * sign + counts.others * other
    return text * max(dice.gauss(1, COUNT_NOISE), 0.5) + counts.items * message


def simulate_session(model: tuple[float, ...], dice: random.Random, requests: int = 200) -> list[tuple[int, int, int]]:
    """Simulate a session. For each request, return its size, the estimation error, and how many usage reports were
    known before it."""
    meter, conversation = TokenMeter(), Conversation()
    size = true_tokens(count_text(SYSTEM_TEXT) + count_tools(TOOL_SPECS), model, dice) * 1.1 + 340
    found: list[tuple[int, int, int]] = []
    waiting: tuple[ToolOutput, ...] = ()
    for number in range(requests):
        user_message: Message = User((Text(random_text(200, dice)),)) if not waiting else User(waiting)
        conversation = conversation.plus(user_message)
        size += true_tokens(count_message(user_message, BYTE_COUNTER), model, dice)
        budget = meter.measure(Prompt(SYSTEM_TEXT, conversation.messages), conversation, TOOL_SPECS, WINDOW)
        found.append((round(size), budget.used - round(size), number))
        calls = tuple(
            ToolCall(f"c{number}-{n}", "tool_1", {"path": random_text(40, dice)})
            for n in range(1 + (dice.random() < 0.14))
        )
        message = Assistant((Text(random_text(int(min(dice.lognormvariate(5.0, 1.0), 8000)), dice)), *calls), "p/m")
        output = round(true_tokens(count_message(message, BYTE_COUNTER), model, dice))
        usage = Usage(input=round(size), output=output)
        conversation = meter.add_reply(conversation, Reply(message, usage, "calls"), budget, print)
        size += output + model[4]
        waiting = tuple(
            ToolOutput(call.id, random_text(int(min(dice.lognormvariate(5.0, 1.9), 51_200)), dice)) for call in calls
        )
    return found


def main() -> int:
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    missed_limits = 0
    for name, model in MODELS.items():
        found = [row for seed in range(sessions) for row in simulate_session(model, random.Random(seed))]
        errors = sorted(abs(error) / size for size, error, known in found if known >= 3 and size > 40_000)
        mean, p95 = statistics.fmean(errors), errors[int(0.95 * len(errors))]
        is_within_limits = mean <= 0.001 and p95 <= 0.003
        missed_limits += not is_within_limits
        verdict = "holds" if is_within_limits else "MISSED"
        print(f"{name:30} {len(errors):6} requests  mean {mean:.4%}  p95 {p95:.4%}  limit 0.1 %, 0.3 %: {verdict}")
    print(measure_step_cost())
    return 1 if missed_limits else 0


def measure_step_cost(messages: int = 2000, steps: int = 200) -> str:
    """Return the time to measure a step in a long session, with and without usage from the provider."""
    dice = random.Random(1)
    history = tuple(
        User((ToolOutput(str(n), random_text(1400, dice)),)) if n % 2 else Assistant((Text(random_text(300, dice)),))
        for n in range(messages)
    )
    times = []
    for anchored in (True, False):
        conversation = Conversation(history)
        if anchored:
            conversation = replace(conversation, anchor=Usage(500_000), anchored=len(history))
        meter = TokenMeter()
        meter.measure(Prompt(SYSTEM_TEXT, ()), conversation, TOOL_SPECS, WINDOW)
        began = time.perf_counter()
        for n in range(steps):
            conversation = conversation.plus(User((ToolOutput(str(n), "x" * 1400),)))
            if anchored:
                conversation = replace(conversation, anchored=len(conversation.messages) - 1)
            meter.measure(Prompt(SYSTEM_TEXT, ()), conversation, TOOL_SPECS, WINDOW)
        times.append((time.perf_counter() - began) / steps * 1000)
    return f"measuring a step of {messages} messages: {times[0]:.3f} ms with usage, {times[1]:.3f} ms without"


if __name__ == "__main__":
    sys.exit(main())
