"""What the input of recorded sessions would have cost with each lifetime of Anthropic's cache.

    python -m bench.context.cache_lifetimes FOLDER

`FOLDER` has sessions as JSON lines with real times, and `split.json`, which names those on which a choice may be based
(`fit`) and those on which it is judged (`check`). Prompts are estimated from the recorded texts at 3.6 characters a
token. A session is compacted to a quarter where it exceeds 160,000 tokens."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from ebbtide.agent.budget.cache_lifetime import (
    ANTHROPIC_LIFETIMES,
    DEFAULT_LIFETIME,
    CacheLifetime,
    PastRequest,
    choose_lifetime,
)

CHARS_PER_TOKEN = 3.6
STATIC_TOKENS = 12_000
COMPACTED_ABOVE, COMPACTED_TO = 160_000, 40_000


def main(folder: Path) -> None:
    split = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    for part in ("fit", "check"):
        sessions = [requests_of(folder / name) for name in split[part]]
        print(f"{part}: {len(sessions)} sessions, {sum(map(len, sessions))} requests")
        for lifetime in ANTHROPIC_LIFETIMES:
            print(f"  always {lifetime.name}: {ratio(sessions, [lifetime] * len(sessions)):.2f} x the cost of 5m")
        cheapest = [min(ANTHROPIC_LIFETIMES, key=lambda one: bill(session, one)) for session in sessions]
        print(f"  the best for each session, known only afterwards: {ratio(sessions, cheapest):.2f} x")
    earlier = {user: [request for name in names for request in requests_of(folder / name)]
               for user, names in groupby(sorted(split["fit"]), user_of)}  # fmt: skip
    chosen = [choose_lifetime(earlier.get(user_of(name), [])) for name in split["check"]]
    checked = [requests_of(folder / name) for name in split["check"]]
    print(f"  chosen for check by the user's sessions in fit: {ratio(checked, chosen):.2f} x")


def bill(session: Sequence[PastRequest], lifetime: CacheLifetime) -> float:
    """What the prompts of a session cost, in fresh input tokens, worked out by a cache of its own: how much of it is
    cached and until when."""
    cached, expires, total = 0, 0.0, 0.0
    for request in session:
        if request.sent_at > expires:
            cached = 0
        elif request.tokens < cached:
            cached = min(STATIC_TOKENS, request.tokens)
        total += 0.1 * cached + lifetime.write_price * (request.tokens - cached)
        cached, expires = request.tokens, request.sent_at + lifetime.seconds
    return total


def ratio(sessions: Sequence[Sequence[PastRequest]], lifetimes: Sequence[CacheLifetime]) -> float:
    """The cost of the sessions with these lifetimes, as a multiple of that with the default one."""
    cost = sum(bill(session, lifetime) for session, lifetime in zip(sessions, lifetimes, strict=True))
    return cost / sum(bill(session, DEFAULT_LIFETIME) for session in sessions)


def user_of(name: str) -> str:
    """The recordings of one repository count as one user's."""
    return name.rpartition("-")[0].rpartition("-")[0]


def requests_of(path: Path) -> list[PastRequest]:
    """The requests of a recorded session, with their sizes."""
    return list(_requests(path))


def _requests(path: Path) -> Iterator[PastRequest]:
    tokens = float(STATIC_TOKENS)
    for line in path.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["t"] == "assistant" and event.get("ts"):
            yield PastRequest(path.name, float(event["ts"]), round(tokens))
        calls = event.get("calls", ())
        chars = len(event.get("text") or "") + sum(len(json.dumps(call.get("args"))) for call in calls)
        tokens += chars / CHARS_PER_TOKEN + 20 * len(calls)
        if tokens > COMPACTED_ABOVE:
            tokens = COMPACTED_TO


if __name__ == "__main__":
    main(Path(sys.argv[1]))
