"""Approves a sub-agent's calls with the permissions of its parent session, limited to the sub-agent's mode."""

from collections.abc import Callable
from dataclasses import replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.config.options import PermissionMode, stricter_mode
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Event


class AgentApprover(Approver):
    """Approves a sub-agent's calls, using the parent session's rules, folders and mode. The parent also asks the user
    and stores any rules that the user adds."""

    __slots__ = ("_emit", "_id_suffix", "_label", "_max_mode", "_parent", "_readable_folders")

    def __init__(
        self,
        parent: Approver,
        max_mode: PermissionMode,
        readable_folders: tuple[str, ...],
        label: str,
        id_suffix: str,
        emit: Callable[[Event], None],
    ) -> None:
        """`readable_folders`: additional folders that the sub-agent may read. `label`: the sub-agent's name in
        questions. `id_suffix`: makes the ids of its questions unique. `emit`: emits events about answers in the parent
        session."""
        self._parent = parent
        self._max_mode = max_mode
        self._readable_folders = readable_folders
        self._emit = emit
        self._label, self._id_suffix = label, id_suffix
        super().__init__(
            parent.policy,
            parent.ask_user,
            parent.get_recent_calls,
            parent.project_rules,
            session_rules=parent.session_rules,
            can_ask=parent.can_ask,
            get_sandbox_problem=parent.get_sandbox_problem,
            added_folders=parent.added_folders,
        )

    @property
    def policy(self) -> Policy:
        parent_policy = self._parent.policy
        mode = stricter_mode(parent_policy.mode, self._max_mode)
        return replace(
            parent_policy, mode=mode, readable_folders=(*parent_policy.readable_folders, *self._readable_folders)
        )

    @policy.setter
    def policy(self, new_policy: Policy) -> None:
        """If the sandbox problem has changed, pass it on to the parent session. Ignore other changes."""
        if new_policy.sandbox_problem != self._parent.policy.sandbox_problem:
            self._parent.policy = replace(self._parent.policy, sandbox_problem=new_policy.sandbox_problem)

    @property
    def can_change_mode(self) -> bool:
        """False, because the mode belongs to the parent session."""
        return False

    def add_rule(self, rule: str) -> None:
        self._parent.add_rule(rule)

    async def wait_for_decision(
        self, question: PermissionAsked, request: PermissionRequest | None, emit: Callable[[Event], None]
    ) -> Decision:
        agent_question = replace(question, id=f"{question.id}-{self._id_suffix}", agent=self._label)
        return await self._parent.wait_for_decision(agent_question, request, self._emit)
