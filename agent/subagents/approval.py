"""Permissions of a sub-agent: those of its parent session, limited by its own mode."""

from collections.abc import Callable
from dataclasses import replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.config.options import Mode, stricter_mode
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Event


class AgentApproval(Approver):
    """Rules, folders and the mode follow the parent session, and so do questions and the rules added by answering
    them."""

    __slots__ = ("_ceiling", "_emit", "_id", "_label", "_of", "_readable")

    def __init__(
        self,
        of: Approver,
        ceiling: Mode,
        readable: tuple[str, ...],
        label: str,
        id: str,
        emit: Callable[[Event], None],
    ) -> None:
        """`readable`: additional folders that it may read. `label`: its name in questions; `id`: distinguishes its
        questions from those of agents with the same name; `emit`: the parent's event sink, for answers."""
        self._of, self._ceiling, self._readable, self._emit = of, ceiling, readable, emit
        self._label, self._id = label, id
        super().__init__(
            of.policy,
            of.ask,
            of.earlier,
            of.rules,
            session_rules=of.session_rules,
            can_ask=of.can_ask,
            why_unsandboxed=of.why_unsandboxed,
            roots=of.roots,
        )

    @property
    def policy(self) -> Policy:
        now = self._of.policy
        mode = stricter_mode(now.mode, self._ceiling)
        return replace(now, mode=mode, readable=(*now.readable, *self._readable))

    @policy.setter
    def policy(self, changed: Policy) -> None:
        """Only findings about the sandbox are passed on to the parent session."""
        if changed.sandbox_problem != self._of.policy.sandbox_problem:
            self._of.policy = replace(self._of.policy, sandbox_problem=changed.sandbox_problem)

    def add_rule(self, rule: str) -> None:
        self._of.add_rule(rule)

    async def answer_to(
        self, question: PermissionAsked, asked: PermissionRequest | None, emit: Callable[[Event], None]
    ) -> Decision:
        named = replace(question, id=f"{question.id}-{self._id}", agent=self._label)
        return await self._of.answer_to(named, asked, self._emit)
