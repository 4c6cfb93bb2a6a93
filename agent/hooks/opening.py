"""Sets up the hooks of a session."""

from collections.abc import Callable
from dataclasses import replace

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.options import Mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.session_trust import SessionTrust
from ebbtide.agent.hooks.approval import HookApproval
from ebbtide.agent.hooks.claude_rules import claude_rules
from ebbtide.agent.hooks.declarations import declared_hooks
from ebbtide.agent.hooks.session_hooks import KeepFiles, SessionHooks, StartSource
from ebbtide.agent.hooks.transcript import HookTranscript, ReadMessages
from ebbtide.tools.base import Workspace


def session_hooks(
    config: Config,
    session: str,
    workspace: Workspace,
    channel: Channel,
    read: ReadMessages,
    mode: Callable[[], Mode],
    source: StartSource | None,
    trust: SessionTrust,
    keep_files: KeepFiles,
) -> SessionHooks | None:
    """Return None if there are no hooks, no project rules and no problems to report, and the client cannot add any."""
    declared, rules = declared_hooks(config), claude_rules(config)
    declared = replace(declared, problems=(*declared.problems, *rules.problems))
    if not (declared.hooks or declared.problems or rules.rules or config.takes_hooks):
        return None
    transcript = HookTranscript(workspace.outputs / "transcript.jsonl", session, workspace.root, read)
    approval = HookApproval(config, channel, trust)
    of_project = [hook.file.item for hook in declared.hooks if hook.owner == "project" and hook.file is not None]
    trust.add(tuple(dict.fromkeys(of_project)))
    return SessionHooks(
        declared,
        session,
        config.project,
        workspace,
        channel,
        transcript,
        mode=mode,
        approval=approval,
        source=source,
        keep_files=keep_files,
        rules=rules,
    )
