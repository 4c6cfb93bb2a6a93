"""The hooks of a session, looked at and decided about by keys."""

from dataclasses import dataclass, field, replace

from ebbtide.agent.config.hook_tables import HookEntry, HookEvent, HttpAction
from ebbtide.agent.extensions.trust import TrustItem, TrustState, TrustVerdict
from ebbtide.agent.hooks.declarations import DeclaredHook, HookFile
from ebbtide.agent.hooks.runner import HookStatistics
from ebbtide.agent.hooks.session_hooks import SessionHooks
from ebbtide.tui.commands.extensions import _build_hooks_panel
from ebbtide.tui.view.panel import row_details, row_text
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession

FILE = HookFile(TrustItem("hook", ".claude/settings.json", "project", ".claude/settings.json", "d1", ()), lambda: "d1")
MINE = HookFile(
    TrustItem("hook", "~/.claude/settings.json", "project", "~/.claude/settings.json", "d2", ()), lambda: "d2"
)
GUARD = '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh'
BROKEN = "the hook `npx prettier` for PostToolUse exited with 127: npx: command not found; it was skipped"


def hook(event: HookEvent, file: HookFile | None, **entry: object) -> DeclaredHook:
    source = "config.toml" if file is None else file.trust_item.source
    made = replace(HookEntry(event, "", "true"), **entry)  # type: ignore[arg-type]  # fields by name
    return DeclaredHook(made, "project" if file is FILE else "user", source, file)


RECORDS: tuple[tuple[DeclaredHook, HookStatistics], ...] = (
    (hook("Stop", None, action="make -s test >&2 || exit 2", status="runs the tests"), HookStatistics(3, 2)),
    (hook("PostToolUse", MINE, matcher="Edit|Write", action="npx prettier"), HookStatistics(4, 0, 4, BROKEN)),
    (
        hook("PreToolUse", MINE, action=HttpAction("http://localhost:8080/guard"), is_once_per_session=True),
        HookStatistics(),
    ),
    (hook("PreToolUse", FILE, matcher="Bash", condition="Bash(git *)", action=GUARD, timeout=10.0), HookStatistics(1)),
)
LEFT_OUT = (
    "`.claude/settings.json`: a hook for `Stop` is skipped: its `type` is 'agent'; the known types are `command`, "
    "`http`"
)


@dataclass
class PlayedHooks(SessionHooks):
    hook_records: tuple[tuple[DeclaredHook, HookStatistics], ...] = RECORDS
    problems: tuple[str, ...] = (LEFT_OUT,)
    verdicts: dict[str, TrustVerdict | None] = field(default_factory=lambda: {MINE.trust_item.source: "approved"})
    has_begun: bool = False

    @property
    def hook_states(self) -> tuple[tuple[DeclaredHook, TrustState, HookStatistics], ...]:
        return tuple((hook, self._standing(hook), record) for hook, record in self.hook_records)

    def _standing(self, hook: DeclaredHook) -> TrustState:
        if hook.hook_file is None:
            return "on"
        verdict = self.verdicts.get(hook.declared_in)
        return "on" if verdict == "approved" else "refused" if verdict else "not approved"

    def decide(self, hook: DeclaredHook, verdict: TrustVerdict | None) -> None:
        self.verdicts[hook.declared_in] = verdict


def test_hooks_stand_by_what_they_wait_for_with_what_became_of_them() -> None:
    rows = _build_hooks_panel(PlayedHooks(), ()).rows
    assert [row_text(row) for row in rows] == [
        "PreToolUse",
        "*, posts to http://localhost:8080/guard",
        f"Bash, if Bash(git *), {GUARD}, not approved, ran once",
        "PostToolUse",
        "Edit|Write, npx prettier, ran 4 times, failed 4 times",
        "Stop",
        "*, make -s test >&2 || exit 2, ran 3 times, blocked twice",
        "ignored",
        LEFT_OUT,
    ]
    lines = ["".join(text for text, _ in line) for line in row_details(rows[4])]
    assert lines == ["npx prettier", "your hook from ~/.claude/settings.json; timeout 600 s", BROKEN]


async def test_keys_decide_about_hooks_that_have_to_be_approved() -> None:
    hooks = PlayedHooks()
    async with terminal(FakeSession(hooks=hooks)) as t:
        await t.opens("/hooks")
        await t.press("down", "n", until=lambda: hooks.verdicts.get(".claude/settings.json") == "refused")
        await t.press("a", until=lambda: hooks.verdicts[".claude/settings.json"] == "approved")
        await t.press("x", until=lambda: hooks.verdicts[".claude/settings.json"] is None)
        await t.press("down", "n")
        assert hooks.verdicts[MINE.trust_item.source] == "refused"
    async with terminal(FakeSession()) as t:
        await t.type("/hooks", shows="No hooks yet. Add one in config.toml: hooks.Stop =")
