"""Measures how much of a session the ledger preserves without a model: facts are planted in synthetic sessions,
everything except the last step is compacted, and the facts still in the context are counted.

    python -m bench.context.fidelity [SESSIONS]"""

import random
import sys
from collections import Counter
from dataclasses import dataclass

from ebbtide.agent.compaction.plan import apply_compaction, plan_compaction
from ebbtide.agent.compaction.room import conversation_tokens
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.visible import summary_messages

LEDGER_TOKENS = 3600

FOLDERS = (
    "src",
    "src/api",
    "src/core/parser",
    "lib",
    "tests",
    "tests/unit",
    "docs",
    "scripts",
    "web/components",
    "cmd/server",
)
NAMES = ("router", "token_store", "session", "lexer", "grammar", "cache", "migrate", "worker", "index", "settings",
         "queue", "retry", "render", "schema", "client", "billing", "audit", "search", "upload", "limits")  # fmt: skip
FILE_EXTENSIONS = (".py", ".ts", ".go", ".rs", ".md", ".toml")
CONSTRAINTS = (
    "never touch {path}.", "Please do not rename anything in {path}.", "You must keep the API of {path} as it is.",
    "Only use the standard library.", "Always run the tests before you say that it works.", "Don't add a dependency.",
    "No network calls in tests.", "Keep every function under {n} lines.", "Use tabs, not spaces, in {path}.",
    "The response must stay below {n} ms.", "Leave {path} alone.", "Make sure that Python 3.{n} still works.",
    "Do not commit, I do that myself.", "Avoid global state.", "It has to be backwards compatible with version {n}.",
)  # fmt: skip
GOALS = ("Fix the crash in the {name} when the input is empty", "Add paging to the {name} endpoint",
         "Port {name} to the new storage layer", "Find out why {name} is slow and make it fast")  # fmt: skip
FINDINGS = (
    "The root cause is that {name} closes the handle before the last flush of {path}.",
    "I decided to keep the lock in {name} because two workers share it.",
    "It turns out that {name} listens on port {n}.",
    "The fix is to sort the keys of {name} before hashing.",
)
REMARKS = (
    "The staging host is {name}-{n}.internal.",
    "{name} has {n} callers.",
    "The token of {name} expires after {n} s.",
)
"""Remarks of the model whose importance a program cannot detect."""
ERRORS = ("ImportError: cannot import name 'x{n}' from '{name}'", "error: {name}:{n}: mismatched types",
          "AssertionError: expected {n} rows")  # fmt: skip
COMMANDS = ("ls -la src", "git status", "git diff --stat", "wc -l src/core", "git log --oneline -5")


@dataclass(frozen=True, slots=True)
class PlantedFact:
    """A planted fact and the text that must be preserved."""

    kind: str
    sign: str


class SessionPlanter:
    """Generates a session and records the planted facts."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self.facts: list[PlantedFact] = []
        self.messages: list[Message] = []
        self.paths = list(
            dict.fromkeys(
                f"{self._pick(FOLDERS)}/{self._pick(NAMES)}{number if number > 40 else ''}{self._pick(FILE_EXTENSIONS)}"
                for number in range(self._random.randint(60, 240))
            )
        )

    def _pick(self, choices: tuple[str, ...]) -> str:
        return self._random.choice(choices)

    def _fill_template(self, template: str) -> str:
        return template.format(
            path=self._random.choice(self.paths), name=self._pick(NAMES), n=self._random.randint(3, 900)
        )

    def _add_step(
        self, name: str, arguments: dict[str, object], output: str, *, failed: bool = False, text: str = ""
    ) -> None:
        self._count += 1
        call = ToolCall(f"call-{self._count}", name, arguments)
        self.messages.append(Assistant((*((Text(text),) if text else ()), call), "bench/none"))
        self.messages.append(User((ToolOutput(call.id, output, "failed" if failed else "done"),)))

    def plant_session(self) -> Conversation:
        """Return a long session of several turns, the last of which is unfinished."""
        turns = self._random.randint(3, 6)
        shares = [self.paths[turn::turns] for turn in range(turns)]
        for paths in shares:
            self._plant_request()
            for path in paths:
                self._plant_file_step(path)
            self._plant_commands()
            self.messages.append(Assistant((Text("Done with this part."),), "bench/none"))
        self._plant_plan()
        self.messages.append(User((Text("go on"),)))
        self._add_step("bash", {"command": "true"}, "no output\nexit code 0")
        return Conversation(tuple(self.messages))

    def _plant_request(self) -> None:
        goal = self._fill_template(self._pick(GOALS))
        demands = [
            self._fill_template(demand) for demand in self._random.sample(CONSTRAINTS, self._random.randint(1, 4))
        ]
        self.facts.append(PlantedFact("goal", goal))
        self.facts += [PlantedFact("constraint", demand) for demand in demands]
        self.messages.append(
            User((Text(f"{goal}. {' '.join(demands)} Here is the log:\n```\n" + "noise\n" * 50 + "```"),))
        )

    def _plant_file_step(self, path: str) -> None:
        self.facts.append(PlantedFact("path", path))
        remark = self._fill_template(self._pick(FINDINGS)) if self._random.random() < 0.1 else ""
        if remark:
            self.facts.append(PlantedFact("finding", remark))
        if not remark and self._random.random() < 0.1:
            remark = self._fill_template(self._pick(REMARKS))
            self.facts.append(PlantedFact("aside", remark))
        if self._random.random() < 0.6:
            self._add_step("read", {"path": path}, "1 import os\n" * self._random.randint(20, 200), text=remark)
        else:
            self._add_step("edit", {"path": path, "old": "a", "new": "b"}, f"edited `{path}`, line 3", text=remark)

    def _plant_commands(self) -> None:
        for _ in range(self._random.randint(5, 12)):
            self._add_step("bash", {"command": self._pick(COMMANDS)}, "some output\nexit code 0")
        error = self._fill_template(self._pick(ERRORS))
        self.facts.append(PlantedFact("failure", error))
        self._add_step("bash", {"command": f"make {self._pick(NAMES)}"}, f"building\n{error}\nexit code 2", failed=True)

    def _plant_plan(self) -> None:
        command = f"npm run dev -- --port {self._random.randint(3000, 9000)}"
        self._add_step(
            "bash", {"command": command, "background": True}, "job-1 is running; bash_output gives what it prints"
        )
        self.facts.append(PlantedFact("job", command))
        todos = [self._fill_template("Check {name} against {path}") for _ in range(self._random.randint(3, 8))]
        items = [{"text": todo, "status": self._pick(("pending", "doing"))} for todo in todos]
        self._add_step("todo", {"items": items}, "list kept")
        self.facts += [PlantedFact("todo", todo) for todo in todos]
        outcome = f"{self._random.randint(1, 9)} failed, {self._random.randint(10, 900)} passed"
        self._add_step(
            "bash", {"command": "pytest -q"}, f"FAILED tests/x.py\n{outcome} in 3 s\nexit code 1", failed=True
        )
        self.facts.append(PlantedFact("test", outcome))


@dataclass(frozen=True, slots=True)
class FidelityScore:
    """Planted and preserved facts, by kind."""

    planted: Counter[str]
    found: Counter[str]
    largest: int
    """Tokens of the largest ledger."""
    saved: float
    """Share of tokens saved, over all sessions."""

    def share(self, kind: str | None = None) -> float:
        planted = self.planted[kind] if kind else self.planted.total()
        return (self.found[kind] if kind else self.found.total()) / max(planted, 1)


def measure_fidelity(sessions: int, ledger: int = LEDGER_TOKENS) -> FidelityScore:
    """Measure how many facts a ledger of at most `ledger` tokens preserves."""
    planted, found, largest, before, after = Counter[str](), Counter[str](), 0, 0, 0
    for seed in range(sessions):
        planter = SessionPlanter(seed)
        conversation = planter.plant_session()
        plan = plan_compaction(conversation, 0)
        assert plan is not None
        view = apply_compaction(plan, None, CompactionCaps(tail=0, ledger=ledger))
        visible = " ".join("\n".join(message.text for message in summary_messages(view.summary)).split())
        largest = max(largest, estimate_text(view.summary.ledger))
        before, after = before + conversation_tokens(conversation), after + conversation_tokens(view)
        for fact in planter.facts:
            planted[fact.kind] += 1
            found[fact.kind] += fact.sign in visible
    return FidelityScore(planted, found, largest, 1 - after / before)


def main() -> None:
    score = measure_fidelity(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    for kind, planted in sorted(score.planted.items()):
        print(f"{kind:12} {score.found[kind]:6} of {planted:6}  {score.share(kind):7.1%}")
    print(f"{'all':12} {score.found.total():6} of {score.planted.total():6}  {score.share():7.1%}")
    print(f"largest ledger {score.largest} tokens of {LEDGER_TOKENS}; {score.saved:.1%} of the tokens saved")


if __name__ == "__main__":
    main()
