"""Rules that a question offers, and what each would have allowed so far. Pure: it decides about calls as `permissions`
does, those of the past among them."""

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.events import Tried
from agent.permissions import Asked, Policy, Rule, Ruling, decide, parse_rule, says_itself, server_of
from tools.anything import runs_anything
from tools.commandline import simple_commands

MOST = 3
"""Rules that a question offers."""
EXAMPLES = 3
LONGEST = 200
"""Characters of a rule that can be taken in at a glance."""


def offers_for(asked: Asked, ruling: Ruling, policy: Policy) -> tuple[str, ...]:
    """The rules that would answer the question: the usual one, one for exactly this, and a wider one, as far as there
    are such. Each covers the call, and says in words all that it covers."""
    if ruling.verdict != "ask" or not ruling.offers:
        return ()
    offers = dict.fromkeys((*ruling.offers, *_more(asked, policy)))
    return tuple(offer for offer in offers if _answers(offer, asked, policy))[:MOST]


def tried(offers: Sequence[str], asked: Asked, past: Sequence[Asked], policy: Policy) -> tuple[Tried, ...]:
    """What each rule would have allowed among the calls of the past, one by one."""
    alike = Counter(call for call in past if is_alike(call.tool, asked.tool))
    open_ones = {call: count for call, count in alike.items() if decide(call, policy).verdict == "ask"}
    total = sum(open_ones.values())
    found = []
    for offer in offers:
        wider = replace(policy, allow=(*policy.allow, parse_rule(offer)))
        allowed = {call: count for call, count in open_ones.items() if decide(call, wider).verdict == "allow"}
        others = sorted((call for call in allowed if call != asked), key=lambda call: -allowed[call])
        examples = tuple(dict.fromkeys(_shown(call, policy.root) for call in others))[:EXAMPLES]
        found.append(Tried(offer, sum(allowed.values()), total, examples))
    return tuple(found)


def is_alike(tool: str, other: str) -> bool:
    """Whether rules for one tool may be about the other."""
    return tool == other or (bool(server_of(tool)) and server_of(tool) == server_of(other))


def _answers(offer: str, asked: Asked, policy: Policy) -> bool:
    if len(offer) > LONGEST or not says_itself(offer):
        return False
    return decide(asked, replace(policy, allow=(*policy.allow, parse_rule(offer)))).verdict == "allow"


def _more(asked: Asked, policy: Policy) -> Iterator[str]:
    if asked.effect == "run":
        commands = [words for subject in asked.subjects for words in simple_commands(subject)]
        if len(commands) == 1:
            texts = [word.text for word in commands[0]]
            yield str(Rule(asked.tool, " ".join(texts)))
            if len(texts) > 1 and _is_place(texts[1]) and not runs_anything(texts):
                yield str(Rule(asked.tool, texts[0]))
    elif asked.effect in ("read", "write") and len(set(asked.subjects)) == 1:
        path, root = asked.subjects[0], policy.root
        is_inside = path.startswith(root.rstrip("/") + "/")
        yield str(Rule(asked.tool, posixpath.relpath(path, root) if is_inside else path))
        if is_inside:
            yield str(Rule(asked.tool, "."))


def _is_place(word: str) -> bool:
    """Whether a word is the name of a file, as far as that shows, and no part of a program's own language."""
    return "/" in word or "." in word


def _shown(call: Asked, root: str) -> str:
    if call.effect == "run":
        return call.subjects[0] if call.subjects else call.tool
    places = (posixpath.relpath(path, root) if path.startswith(f"{root}/") else path for path in call.subjects)
    return ", ".join(places) or call.tool
