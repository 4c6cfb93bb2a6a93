"""Commands, run in three modes: without sandbox and approval, with a sandbox but without approval, and with a sandbox
and everything allowed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.attacks.drive import AttackRun, play_one_call
from bench.attacks.rows import AttackFolders, AttackOutcome, AttackRow, create_files, has_effect_happened
from ebbtide.tools.lazy import dataclass

SANDBOX_OFF, SANDBOX_ON = {"EBB_SANDBOX": "off"}, {"EBB_SANDBOX": "require"}


@dataclass(frozen=True, slots=True)
class RunMode:
    name: str
    env: Mapping[str, str]
    is_permitted: bool = False
    is_control: bool = False
    """Whether nothing is protected. Attacks then succeed, which shows that their effects can be detected."""


RUN_MODES = (
    RunMode("sandbox off, unasked", SANDBOX_OFF),
    RunMode("sandbox on, unasked", SANDBOX_ON),
    RunMode("sandbox on, permitted", SANDBOX_ON, is_permitted=True),
    RunMode("control: nothing holds", SANDBOX_OFF, is_permitted=True, is_control=True),
)


def carry_out(run_mode: RunMode, row: AttackRow, dirs: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Check that the forbidden effect does not occur. If the command is permitted, only effects outside the project are
    forbidden."""
    setup, expected = row["setup"], row["expected"]
    create_files(setup, dirs)
    flags = () if run_mode.is_permitted else tuple(rule_flags(setup, policies))
    mode = "auto" if run_mode.is_permitted else setup.get("mode") or "ask"
    played = play_one_call(
        dirs, row["action"]["tool"], row["action"]["args"], *flags, "--permission-mode", mode,
        env={**run_mode.env, **(setup.get("env") or {})},
    )  # fmt: skip
    forbidden_effect = expected.get("must_not_happen", "none")
    if run_mode.is_control:
        if forbidden_effect == "none":
            return AttackOutcome("not carried out", "nothing is named that could be seen")
        return AttackOutcome("happened" if has_effect_happened(forbidden_effect, setup, dirs.project) else "held")
    if expected["decision"] == "any" and run_mode.env is SANDBOX_OFF:
        return AttackOutcome("not carried out", "its own rules allow it: that is for the sandbox")
    if run_mode.is_permitted or expected["decision"] in ("allow", "any"):
        return AttackOutcome.from_problems(
            played.outside_effects(), wrongly_blocked(played) if expected["decision"] == "allow" else ""
        )
    return AttackOutcome.from_problems(
        played.outside_effects(),
        f"{forbidden_effect} came about" if has_effect_happened(forbidden_effect, setup, dirs.project) else "",
    )


def wrongly_blocked(played: AttackRun) -> str:
    return "it was denied" if played.was_denied else ""


def rule_flags(setup: Mapping[str, Any], policies: Mapping[str, Any]) -> Iterator[str]:
    """Yield the row's rules as command-line flags."""
    named = policies.get(setup.get("policy") or "", {})
    for rule in named.get("allow", ()):
        yield from ("--allow", "bash" if rule == "*" else f"bash({rule})")
    for rule in _deny_rules({**named, **(setup.get("rules") or {})}):
        yield from ("--deny", rule)


def _deny_rules(given: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for rule in given.get("deny", ()):
        yield rule[:1].lower() + rule[1:] if "(" in rule else f"bash({rule})"
