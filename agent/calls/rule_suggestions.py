"""Suggests rules for a permission question, and finds the past calls that each would have allowed. Does no I/O."""

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ebbtide.agent.calls.command_rules import is_partial_cover, is_within
from ebbtide.agent.calls.network_rules import NETWORK_TOOL
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import (
    Policy,
    Rule,
    changes_autorun_file,
    command_coverage,
    decide,
    is_canonical_rule,
    parse_rule,
    server_prefix,
)
from ebbtide.agent.events.permissions import RuleTrial
from ebbtide.tools.commands.command_line import SimpleCommand
from ebbtide.tools.commands.known_tools import looks_like_path, rule_prefix
from ebbtide.tools.commands.launchers import find_tool_launch
from ebbtide.tools.commands.programs import split_words

_PROGRAMS_BEYOND_SANDBOX = split_words(
    "docker docker-compose podman podman-compose nerdctl buildah skopeo kubectl helm minikube kind gh glab aws gcloud "
    "az ssh scp systemctl journalctl adb flatpak"
)
"""Programs that need services, keys or devices of the machine, which the sandbox blocks. The user is offered a rule
that runs them outside the sandbox. Even with that rule, running them needs approval."""
MAX_OFFERED_RULES = 3
"""Maximum number of rules that a question offers."""
MAX_EXAMPLES = 3
MAX_RULE_CHARS = 200
"""Maximum length of an offered rule, in characters; longer ones are hard to read."""
MAX_EXACT_RULE_CHARS = 1_000
"""Maximum length of an exact rule, in characters. It may be longer than others, because the question shows the command
anyway."""


def suggest_rules(request: PermissionRequest, policy: Policy) -> tuple[str, ...]:
    """Return the rules that would allow the call, narrowest first: an exact rule, the usual one and a wider one, if
    they exist. The text of a rule shows everything that it covers."""
    if decide(request, policy).verdict != "ask":
        return ()
    offers = dict.fromkeys((exact_rule(request, policy.root), *_wider_rules(request, policy)))
    return tuple(offer for offer in offers if offer and _is_valid_offer(offer, request, policy))[:MAX_OFFERED_RULES]


def suggest_allow_rule(request: PermissionRequest, policy: Policy) -> str:
    """Return the usual rule that would allow a call; empty if there is none."""
    offers = suggest_rules(request, policy)
    if offers:
        return offers[:2][-1]
    is_asked = decide(request, policy).verdict == "ask"
    allowed = decide(request, replace(policy, allow_rules=(*policy.allow_rules, Rule(request.tool)))).verdict == "allow"
    return request.tool if is_asked and allowed else ""


def suggest_unsandboxed_rules(request: PermissionRequest, policy: Policy) -> tuple[str, ...]:
    """Return the rules that would make a command run outside the sandbox: an exact rule and, if the command's program
    is known to need more than the sandbox allows, a rule for that program. `request` and `policy` are those returned by
    `unsandboxed_variant`."""
    uncovered_programs = [
        coverage.command.texts[0] for coverage in command_coverage(request, policy) if coverage.prefix is None
    ]
    program_rules = [
        str(Rule(request.tool, name)) for name in dict.fromkeys(uncovered_programs) if name in _PROGRAMS_BEYOND_SANDBOX
    ]
    offers = dict.fromkeys((*suggest_rules(request, policy), *program_rules))
    return tuple(offer for offer in offers if _is_valid_offer(offer, request, policy))[:MAX_OFFERED_RULES]


def exact_rule(request: PermissionRequest, root: str) -> str:
    """Return the rule for exactly this command line or file; empty if there is none."""
    subjects = tuple(dict.fromkeys(request.subjects))
    if len(subjects) != 1 or request.effect not in ("run", "read", "write"):
        return ""
    return str(
        Rule(request.tool, f"={subjects[0]}" if request.effect == "run" else _relative_to_root(subjects[0], root))
    )


def try_rules(
    offers: Sequence[str], request: PermissionRequest, past_requests: Sequence[PermissionRequest], policy: Policy
) -> tuple[RuleTrial, ...]:
    """For each rule, find the past calls that it alone would have allowed."""
    similar_counts = Counter(
        past_request for past_request in past_requests if is_same_tool_or_server(past_request.tool, request.tool)
    )
    asked_counts = {
        past_request: count
        for past_request, count in similar_counts.items()
        if decide(past_request, policy).verdict == "ask"
    }
    asked_count = sum(asked_counts.values())
    trials = []
    for offer in offers:
        wider_policy = replace(policy, allow_rules=(*policy.allow_rules, parse_rule(offer)))
        allowed = {
            past_request: count
            for past_request, count in asked_counts.items()
            if decide(past_request, wider_policy).verdict == "allow"
        }
        other_requests = sorted(
            (past_request for past_request in allowed if past_request != request),
            key=lambda past_request: -allowed[past_request],
        )
        examples = tuple(dict.fromkeys(_request_text(past_request, policy.root) for past_request in other_requests))[
            :MAX_EXAMPLES
        ]
        trials.append(RuleTrial(offer, sum(allowed.values()), asked_count, examples))
    return tuple(trials)


def is_same_tool_or_server(tool: str, other_tool: str) -> bool:
    """Whether rules for one of the tools can apply to the other."""
    return tool == other_tool or (bool(server_prefix(tool)) and server_prefix(tool) == server_prefix(other_tool))


def _is_valid_offer(offer: str, request: PermissionRequest, policy: Policy) -> bool:
    is_exact = offer == exact_rule(request, policy.root)
    if len(offer) > (MAX_EXACT_RULE_CHARS if is_exact else MAX_RULE_CHARS) or not is_canonical_rule(offer):
        return False
    return decide(request, replace(policy, allow_rules=(*policy.allow_rules, parse_rule(offer)))).verdict == "allow"


def _wider_rules(request: PermissionRequest, policy: Policy) -> Iterator[str]:
    if request.effect == "run":
        yield from _prefix_rules(request, policy)
    elif request.effect == "fetch":
        # No rule for all subdomains is offered, because often anyone can create a subdomain.
        yield from (str(Rule(NETWORK_TOOL, place)) for place in request.subjects)
        if not request.subjects:
            yield request.tool
    elif request.effect == "serve":
        yield request.tool
        yield server_prefix(request.tool)
    elif not changes_autorun_file(request, policy.root):
        folder, *other_folders = {posixpath.dirname(path) for path in request.subjects} or {"/"}
        if not other_folders and folder != "/":  # a rule for the whole disk is never intended
            yield str(Rule(request.tool, _relative_to_root(folder, policy.root)))
        if all(path.startswith(policy.root.rstrip("/") + "/") for path in request.subjects):
            yield str(Rule(request.tool, "."))


def _prefix_rules(request: PermissionRequest, policy: Policy) -> Iterator[str]:
    """Yield rules for all commands that begin with the same words. Yield nothing if the commands that need a rule begin
    with different words."""
    uncovered_commands = [coverage.command for coverage in command_coverage(request, policy) if coverage.prefix is None]
    prefixes = list(dict.fromkeys(rule_prefix(_launched_words(command, request)) for command in uncovered_commands))
    if len(prefixes) != 1 or not all(
        is_partial_cover(prefixes[0], command, request.trusted_launches) for command in uncovered_commands
    ):
        return
    (prefix,) = prefixes
    # A rule consists of words separated by spaces, so it cannot contain an empty word or one with a space.
    if not prefix or any(word.split() != [word] for word in prefix):
        return
    yield str(Rule(request.tool, " ".join(prefix)))
    if prefix[1:] and looks_like_path(prefix[-1]) and rule_prefix(prefix[:1]):
        yield str(Rule(request.tool, prefix[0]))


def _launched_words(command: SimpleCommand, request: PermissionRequest) -> Sequence[str]:
    """Return the words of the tool that a command launches indirectly, or the command's own words if it launches no
    tool."""
    launch = find_tool_launch(command.words)
    if launch is None or (launch.needs_file_check and command.texts not in request.trusted_launches):
        return command.texts
    return [word.text for word in launch.words]


def _relative_to_root(path: str, root: str) -> str:
    return posixpath.relpath(path, root) if is_within(path, (root,)) else path


def _request_text(request: PermissionRequest, root: str) -> str:
    if request.effect == "run":
        return request.subjects[0] if request.subjects else request.tool
    paths = (posixpath.relpath(path, root) if path.startswith(f"{root}/") else path for path in request.subjects)
    return ", ".join(paths) or request.tool
