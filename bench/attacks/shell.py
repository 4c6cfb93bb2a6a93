"""Commands: without a sandbox and without approval, with a sandbox and without approval, and with a sandbox and
everything allowed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.attacks.drive import AttackRun, one_call
from bench.attacks.rows import AttackFolders, AttackOutcome, Row, has_happened, lay_out
from ebbtide.tools.lazy import dataclass

OFF, ON = {"EBB_SANDBOX": "off"}, {"EBB_SANDBOX": "require"}


@dataclass(frozen=True, slots=True)
class Way:
    name: str
    env: Mapping[str, str]
    is_permitted: bool = False
    is_control: bool = False
    """Whether nothing is protected, so that attacks succeed; shows that their effects can be detected."""


WAYS = (
    Way("sandbox off, unasked", OFF),
    Way("sandbox on, unasked", ON),
    Way("sandbox on, permitted", ON, is_permitted=True),
    Way("control: nothing holds", OFF, is_permitted=True, is_control=True),
)


def carry_out(way: Way, row: Row, places: AttackFolders, policies: Mapping[str, Any]) -> AttackOutcome:
    """Check that the forbidden effect does not occur. If the command is permitted, only effects outside the project are
    forbidden."""
    setup, expected = row["setup"], row["expected"]
    lay_out(setup, places)
    flags = () if way.is_permitted else tuple(rule_flags(setup, policies))
    mode = "auto" if way.is_permitted else setup.get("mode") or "ask"
    played = one_call(
        places, row["action"]["tool"], row["action"]["args"], *flags, "--permission-mode", mode,
        env={**way.env, **(setup.get("env") or {})},
    )  # fmt: skip
    mark = expected.get("must_not_happen", "none")
    if way.is_control:
        if mark == "none":
            return AttackOutcome("not carried out", "nothing is named that could be seen")
        return AttackOutcome("happened" if has_happened(mark, setup, places.project) else "held")
    if expected["decision"] == "any" and way.env is OFF:
        return AttackOutcome("not carried out", "its own rules allow it: that is for the sandbox")
    if way.is_permitted or expected["decision"] in ("allow", "any"):
        return AttackOutcome.of(
            played.outside_effects(), wrongly_blocked(played) if expected["decision"] == "allow" else ""
        )
    return AttackOutcome.of(
        played.outside_effects(), f"{mark} came about" if has_happened(mark, setup, places.project) else ""
    )


def wrongly_blocked(played: AttackRun) -> str:
    return "it was denied" if played.was_denied else ""


def rule_flags(setup: Mapping[str, Any], policies: Mapping[str, Any]) -> Iterator[str]:
    """Yield the row's rules as flags."""
    named = policies.get(setup.get("policy") or "", {})
    for rule in named.get("allow", ()):
        yield from ("--allow", "bash" if rule == "*" else f"bash({rule})")
    for rule in _deny_rules({**named, **(setup.get("rules") or {})}):
        yield from ("--deny", rule)


def _deny_rules(given: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for rule in given.get("deny", ()):
        yield rule[:1].lower() + rule[1:] if "(" in rule else f"bash({rule})"
