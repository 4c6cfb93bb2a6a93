"""The hooks of a session, looked at and decided about by keys."""

from dataclasses import dataclass, field, replace

from ebbtide.agent.config.hook_tables import HookEntry, HookEvent, HttpTarget
from ebbtide.agent.extensions.trust import Standing, TrustItem, Verdict
from ebbtide.agent.hooks.declarations import DeclaredHook, HookFile
from ebbtide.agent.hooks.runner import HookRecord
from ebbtide.agent.hooks.session_hooks import SessionHooks
from ebbtide.tui.actions.extensions import _hooks_panel
from ebbtide.tui.view.panel import about_row, row_words
from tests.tui.doubles import FakeSession
from tests.tui.piloting import terminal

FILE = HookFile(TrustItem("hook", ".claude/settings.json", "project", ".claude/settings.json", "d1", ()), lambda: "d1")
MINE = HookFile(
    TrustItem("hook", "~/.claude/settings.json", "project", "~/.claude/settings.json", "d2", ()), lambda: "d2"
)
GUARD = '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh'
BROKEN = "the hook `npx prettier` for PostToolUse exited with 127: npx: command not found; it was skipped"


def hook(event: HookEvent, file: HookFile | None, **entry: object) -> DeclaredHook:
    source = "config.toml" if file is None else file.item.source
    made = replace(HookEntry(event, "", "true"), **entry)  # type: ignore[arg-type]  # fields by name
    return DeclaredHook(made, "project" if file is FILE else "user", source, file)


RECORDS: tuple[tuple[DeclaredHook, HookRecord], ...] = (
    (hook("Stop", None, action="make -s test >&2 || exit 2", status="runs the tests"), HookRecord(3, 2)),
    (hook("PostToolUse", MINE, matcher="Edit|Write", action="npx prettier"), HookRecord(4, 0, 4, BROKEN)),
    (hook("PreToolUse", MINE, action=HttpTarget("http://localhost:8080/guard"), once=True), HookRecord()),
    (hook("PreToolUse", FILE, matcher="Bash", condition="Bash(git *)", action=GUARD, timeout=10.0), HookRecord(1)),
)
LEFT_OUT = "`.claude/settings.json`: a hook for `Stop` is left out: its `type` is 'agent'; known are `command`, `http`"


@dataclass
class PlayedHooks(SessionHooks):
    kept: tuple[tuple[DeclaredHook, HookRecord], ...] = RECORDS
    problems: tuple[str, ...] = (LEFT_OUT,)
    verdicts: dict[str, Verdict | None] = field(default_factory=lambda: {MINE.item.source: "approved"})
    has_begun: bool = False

    @property
    def records(self) -> tuple[tuple[DeclaredHook, Standing, HookRecord], ...]:
        return tuple((hook, self._standing(hook), record) for hook, record in self.kept)

    def _standing(self, hook: DeclaredHook) -> Standing:
        if hook.file is None:
            return "on"
        verdict = self.verdicts.get(hook.source)
        return "on" if verdict == "approved" else "refused" if verdict else "not approved"

    def decide(self, hook: DeclaredHook, verdict: Verdict | None) -> None:
        self.verdicts[hook.source] = verdict


def test_hooks_stand_by_what_they_wait_for_with_what_became_of_them() -> None:
    rows = _hooks_panel(PlayedHooks(), ()).rows
    assert [row_words(row) for row in rows] == [
        "PreToolUse",
        "*  posts to http://localhost:8080/guard",
        f"Bash, if Bash(git *)  {GUARD}  not approved  ran once",
        "PostToolUse",
        "Edit|Write  npx prettier  ran 4 times  failed 4 times",
        "Stop",
        "*  make -s test >&2 || exit 2  ran 3 times, objected twice",
        "left out",
        LEFT_OUT,
    ]
    told = ["".join(text for text, _ in line) for line in about_row(rows[4])]
    assert told == ["npx prettier", "yours, from ~/.claude/settings.json; 600 s at most", BROKEN]


async def test_keys_decide_about_hooks_that_have_to_be_approved() -> None:
    hooks = PlayedHooks()
    async with terminal(FakeSession(hooks=hooks)) as t:
        await t.opens("/hooks")
        await t.press("down", "n", until=lambda: hooks.verdicts.get(".claude/settings.json") == "refused")
        await t.press("a", until=lambda: hooks.verdicts[".claude/settings.json"] == "approved")
        await t.press("x", until=lambda: hooks.verdicts[".claude/settings.json"] is None)
        await t.press("down", "n")
        assert hooks.verdicts[MINE.item.source] == "refused"
    async with terminal(FakeSession()) as t:
        await t.type("/hooks", shows="there are no hooks: hooks.Stop =")
