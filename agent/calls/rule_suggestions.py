"""Suggests rules for a permission question, with what each would have allowed so far. Pure: decides about calls,
including past ones, as `policy` does."""

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.calls.command_rules import is_within, only_begins
from ebbtide.agent.calls.network_rules import NETWORK
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import (
    Policy,
    Rule,
    any_runs_later,
    covered_by_rules,
    decide,
    is_canonical_rule,
    parse_rule,
    server_of,
)
from ebbtide.agent.events.permissions import RuleTrial
from ebbtide.tools.commands.command_line import SimpleCommand
from ebbtide.tools.commands.known_tools import beginning_of, is_place
from ebbtide.tools.commands.launchers import tool_launch
from ebbtide.tools.commands.programs import set_of

_NEED_MORE = set_of(
    "docker docker-compose podman podman-compose nerdctl buildah skopeo kubectl helm minikube kind gh glab aws gcloud "
    "az ssh scp systemctl journalctl adb flatpak"
)
"""Programs that reach a service, keys or devices of the machine. They still need approval to run."""
MAX_OFFERS = 3
"""Most rules that a question offers."""
EXAMPLES = 3
MAX_RULE_CHARS = 200
"""Longest rule that is easy to take in, in characters."""
MAX_EXACT_RULE_CHARS = 1_000
"""Longest exact rule, in characters; the question shows the command anyway."""


def offers_for(asked: PermissionRequest, policy: Policy) -> tuple[str, ...]:
    """The rules that would answer the question, the narrowest first: an exact one, the usual one and a wider one, as
    far as they exist. Each covers the call, and its text shows everything it covers."""
    if decide(asked, policy).verdict != "ask":
        return ()
    offers = dict.fromkeys((exact_rule(asked, policy.root), *_wider(asked, policy)))
    return tuple(offer for offer in offers if offer and _answers(offer, asked, policy))[:MAX_OFFERS]


def rule_to_allow(asked: PermissionRequest, policy: Policy) -> str:
    """The usual rule that would allow a call; empty if there is none."""
    offers = offers_for(asked, policy)
    if offers:
        return offers[:2][-1]
    is_asked = decide(asked, policy).verdict == "ask"
    allowed = decide(asked, replace(policy, allow=(*policy.allow, Rule(asked.tool)))).verdict == "allow"
    return asked.tool if is_asked and allowed else ""


def offers_outside(asked: PermissionRequest, policy: Policy) -> tuple[str, ...]:
    """The rules that would make a command, as given by `with_resolved_paths`, run outside the sandbox: an exact one,
    and one for its program if that is known to need more than a sandbox allows."""
    open_ones = [one.command.texts[0] for one in covered_by_rules(asked, policy) if one.prefix is None]
    wider = [str(Rule(asked.tool, name)) for name in dict.fromkeys(open_ones) if name in _NEED_MORE]
    offers = dict.fromkeys((*offers_for(asked, policy), *wider))
    return tuple(offer for offer in offers if _answers(offer, asked, policy))[:MAX_OFFERS]


def exact_rule(asked: PermissionRequest, root: str) -> str:
    """The rule for exactly this command line or file; empty if there is none."""
    subjects = tuple(dict.fromkeys(asked.subjects))
    if len(subjects) != 1 or asked.effect not in ("run", "read", "write"):
        return ""
    return str(Rule(asked.tool, f"={subjects[0]}" if asked.effect == "run" else _from_root(subjects[0], root)))


def try_rules(
    offers: Sequence[str], asked: PermissionRequest, past: Sequence[PermissionRequest], policy: Policy
) -> tuple[RuleTrial, ...]:
    """What each rule would have allowed among past calls, separately."""
    alike = Counter(call for call in past if is_alike(call.tool, asked.tool))
    open_ones = {call: count for call, count in alike.items() if decide(call, policy).verdict == "ask"}
    total = sum(open_ones.values())
    found = []
    for offer in offers:
        wider = replace(policy, allow=(*policy.allow, parse_rule(offer)))
        allowed = {call: count for call, count in open_ones.items() if decide(call, wider).verdict == "allow"}
        others = sorted((call for call in allowed if call != asked), key=lambda call: -allowed[call])
        examples = tuple(dict.fromkeys(_call_text(call, policy.root) for call in others))[:EXAMPLES]
        found.append(RuleTrial(offer, sum(allowed.values()), total, examples))
    return tuple(found)


def is_alike(tool: str, other: str) -> bool:
    """Whether rules for one tool may apply to the other."""
    return tool == other or (bool(server_of(tool)) and server_of(tool) == server_of(other))


def _answers(offer: str, asked: PermissionRequest, policy: Policy) -> bool:
    is_exact = offer == exact_rule(asked, policy.root)
    if len(offer) > (MAX_EXACT_RULE_CHARS if is_exact else MAX_RULE_CHARS) or not is_canonical_rule(offer):
        return False
    return decide(asked, replace(policy, allow=(*policy.allow, parse_rule(offer)))).verdict == "allow"


def _wider(asked: PermissionRequest, policy: Policy) -> Iterator[str]:
    if asked.effect == "run":
        yield from _beginnings(asked, policy)
    elif asked.effect == "fetch":
        # None for all subdomains: who controls them is unknown, and often anybody can.
        yield from (str(Rule(NETWORK, place)) for place in asked.subjects)
        if not asked.subjects:
            yield asked.tool
    elif asked.effect == "serve":
        yield asked.tool
        yield server_of(asked.tool)
    elif not any_runs_later(asked, policy.root):
        folder, *others = {posixpath.dirname(path) for path in asked.subjects} or {"/"}
        if not others and folder != "/":  # a rule for the whole disk is never meant
            yield str(Rule(asked.tool, _from_root(folder, policy.root)))
        if all(path.startswith(policy.root.rstrip("/") + "/") for path in asked.subjects):
            yield str(Rule(asked.tool, "."))


def _beginnings(asked: PermissionRequest, policy: Policy) -> Iterator[str]:
    """Rules for all commands with the same beginning. In a line of several commands, only one may be uncovered."""
    is_open = [one.command for one in covered_by_rules(asked, policy) if one.prefix is None]
    beginnings = list(dict.fromkeys(beginning_of(_in_own_words(command, asked)) for command in is_open))
    if len(beginnings) != 1 or not all(only_begins(beginnings[0], command, asked.trusted) for command in is_open):
        return
    (texts,) = beginnings
    # A rule consists of words separated by blanks, so it cannot contain an empty word or a blank.
    if not texts or any(text.split() != [text] for text in texts):
        return
    yield str(Rule(asked.tool, " ".join(texts)))
    if texts[1:] and is_place(texts[-1]) and beginning_of(texts[:1]):
        yield str(Rule(asked.tool, texts[0]))


def _in_own_words(command: SimpleCommand, asked: PermissionRequest) -> Sequence[str]:
    """The words of the tool that a command launches another way; its own words if it launches none."""
    launch = tool_launch(command.words)
    if launch is None or (launch.is_in_doubt and command.texts not in asked.trusted):
        return command.texts
    return [word.text for word in launch.words]


def _from_root(path: str, root: str) -> str:
    return posixpath.relpath(path, root) if is_within(path, (root,)) else path


def _call_text(call: PermissionRequest, root: str) -> str:
    if call.effect == "run":
        return call.subjects[0] if call.subjects else call.tool
    places = (posixpath.relpath(path, root) if path.startswith(f"{root}/") else path for path in call.subjects)
    return ", ".join(places) or call.tool
