"""Permissions of a sub-agent: those of its parent session, limited to its own mode."""

from collections.abc import Callable
from dataclasses import replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.config.options import Mode, stricter_mode
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Event


class AgentApproval(Approver):
    """Approval for a sub-agent. It uses the rules, folders and mode of the parent session. The parent session also asks
    the user, and stores the rules that the user adds."""

    __slots__ = ("_ceiling", "_emit", "_id", "_label", "_of", "_readable")

    def __init__(
        self,
        parent: Approver,
        most_permissive_mode: Mode,
        readable: tuple[str, ...],
        label: str,
        id: str,
        emit: Callable[[Event], None],
    ) -> None:
        """`readable`: additional folders that the sub-agent may read. `label`: the sub-agent's name in questions. `id`:
        makes the ids of its questions unique. `emit`: emits events about answers in the parent session."""
        self._of, self._ceiling, self._readable, self._emit = parent, most_permissive_mode, readable, emit
        self._label, self._id = label, id
        super().__init__(
            parent.policy,
            parent.ask,
            parent.recent_calls,
            parent.project_rules,
            session_rules=parent.session_rules,
            can_ask=parent.can_ask,
            why_unsandboxed=parent.why_unsandboxed,
            added_folders=parent.added_folders,
        )

    @property
    def policy(self) -> Policy:
        parent_policy = self._of.policy
        mode = stricter_mode(parent_policy.mode, self._ceiling)
        return replace(parent_policy, mode=mode, readable_folders=(*parent_policy.readable_folders, *self._readable))

    @policy.setter
    def policy(self, changed: Policy) -> None:
        """Pass findings about the sandbox on to the parent session; ignore other changes."""
        if changed.sandbox_problem != self._of.policy.sandbox_problem:
            self._of.policy = replace(self._of.policy, sandbox_problem=changed.sandbox_problem)

    def add_rule(self, rule: str) -> None:
        self._of.add_rule(rule)

    async def answer_or_approval(
        self, question: PermissionAsked, request: PermissionRequest | None, emit: Callable[[Event], None]
    ) -> Decision:
        agent_question = replace(question, id=f"{question.id}-{self._id}", agent=self._label)
        return await self._of.answer_or_approval(agent_question, request, self._emit)
