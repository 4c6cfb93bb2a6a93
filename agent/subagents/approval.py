"""What the calls of an agent may do: what those of its session may now, and no more than its own mode lets."""

from collections.abc import Callable
from dataclasses import replace

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.config.options import Mode, stricter_mode
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Event


class AgentApproval(Approver):
    """Rules, folders and the mode are its session's, whenever they change; so are the questions, and the rules
    that are kept when one of them is answered."""

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
        """`readable`: folders of its own that it may read. `label`: how questions name it, and `id`: what tells them
        from those of others that are called so; `emit` tells its session's front end what becomes of them."""
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
        """Only what was found out about the sandbox is its session's to know."""
        if changed.sandbox_problem != self._of.policy.sandbox_problem:
            self._of.policy = replace(self._of.policy, sandbox_problem=changed.sandbox_problem)

    def add_rule(self, rule: str) -> None:
        self._of.add_rule(rule)

    async def answer_to(
        self, question: PermissionAsked, asked: PermissionRequest | None, emit: Callable[[Event], None]
    ) -> Decision:
        named = replace(question, id=f"{question.id}-{self._id}", agent=self._label)
        return await self._of.answer_to(named, asked, self._emit)
