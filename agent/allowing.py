"""What the user has allowed for good: rules that are kept for the folder that a session works in, and what new ones are
tried on."""

from dataclasses import replace
from functools import partial

from agent.config import Config
from agent.earlier import earlier_calls
from agent.parts import Parts
from agent.permissions import Rule, parse_rule
from agent.project_rules import ProjectRules
from agent.storethread import StoreThread
from store.sessions import SessionStore


def with_rules(
    parts: Parts, thread: StoreThread, store: SessionStore, project: str, config: Config, kept_here: list[Rule]
) -> Parts:
    """The parts of a session in which somebody is there to allow something, with what was allowed before: in the
    project, and in this session since the program was started (`kept_here`, which grows). Scripts are told what they
    may do by their settings and flags alone."""
    if not parts.interactive:
        return parts
    rules = ProjectRules(config.folders.config, parts.workspace.root)
    kept = rules.read()
    allow = (*parts.policy.allow, *map(parse_rule, kept.allow), *kept_here)
    return replace(
        parts,
        policy=replace(parts.policy, allow=allow),
        rules=rules,
        kept_here=kept_here,
        earlier=partial(earlier_calls, thread, store, project, parts.recorder.session),
        notices=(*parts.notices, kept.problem) if kept.problem else parts.notices,
    )
