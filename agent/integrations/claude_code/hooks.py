"""Hooks that run as callbacks in the client program: parses their declarations, and exchanges requests and answers with
the client."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from ebbtide.agent.config.hook_tables import HOOK_EVENTS, ClientAction, HookEntry, HookEvent
from ebbtide.agent.headless.stream_events import HookCallCancelled, HookCalled, OutputEvent
from ebbtide.agent.hooks.declarations import DeclaredHook

_BLOCKING_EVENTS = frozenset({"UserPromptSubmit", "PreToolUse", "PermissionRequest"})
"""Events for which a missing answer blocks the action."""


class ClientHooks:
    """Pending hook requests of one run."""

    def __init__(self, show: Callable[[OutputEvent], None]) -> None:
        self._show = show
        self._pending_answers: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._has_client_exited = False

    async def ask(self, callback_id: str, payload: bytes) -> bytes:
        """Ask the client's hook. Implements `CallClient`."""
        request: Mapping[str, Any] = json.loads(payload)
        if self._has_client_exited:
            return _answer_without_client(request)
        request_id = f"hook-{uuid4().hex[:12]}"
        answer_future = self._pending_answers[request_id] = asyncio.get_running_loop().create_future()
        try:
            self._show(HookCalled(request_id, callback_id, request))
            return json.dumps(await answer_future).encode()
        except _ClientExited:
            return _answer_without_client(request)
        except asyncio.CancelledError:
            self._show(HookCallCancelled(request_id))
            raise
        finally:
            del self._pending_answers[request_id]

    def handle_response(self, request_id: str, response: Mapping[str, Any]) -> bool:
        """Handle a response; return whether it answers a hook request."""
        answer_future = self._pending_answers.get(request_id)
        if answer_future is None:
            return False
        if answer_future.done():
            return True
        result = response.get("response") or {}
        if response.get("subtype") != "success" or not isinstance(result, Mapping):
            answer_future.set_exception(
                ValueError(f"it failed: {response.get('error', 'it did not return an object')}")
            )
        else:
            answer_future.set_result(result)
        return True

    def end_input(self) -> None:
        """Fail all pending requests after the client has exited."""
        self._has_client_exited = True
        for answer_future in self._pending_answers.values():
            if not answer_future.done():
                answer_future.set_exception(_ClientExited())


class _ClientExited(Exception):
    """The client exited without an answer."""


def _answer_without_client(request: Mapping[str, Any]) -> bytes:
    """Return an answer that blocks the action, because the client that should decide has exited. Raises `ValueError`
    for events that hooks cannot block."""
    reason = "the program that decides about this has exited"
    if request.get("hook_event_name") not in _BLOCKING_EVENTS:
        raise ValueError(reason)
    return json.dumps({"decision": "block", "reason": reason}).encode()


def parse_hooks(hook_declarations: object) -> tuple[Sequence[DeclaredHook], Sequence[str]]:
    """Parse the hooks declared in an `initialize` request. Also return the problems found, each as a clause."""
    problems = list[str]()
    hooks = [*_declared_hooks(hook_declarations, problems)]
    problems += filter(None, (hook.unusable_reason for hook in hooks))
    return hooks, problems


def _declared_hooks(hook_declarations: object, problems: list[str]) -> Iterator[DeclaredHook]:
    if not hook_declarations:
        return
    if not isinstance(hook_declarations, Mapping):
        problems.append("`hooks` is not an object")
        return
    for event, groups in hook_declarations.items():
        if not groups:
            continue
        if event not in HOOK_EVENTS:
            problems.append(f"hooks for `{event}` are not supported")
            continue
        for group in groups if isinstance(groups, list) else [groups]:
            match group:
                case {"hookCallbackIds": list(ids)}:
                    yield from _group_hooks(cast(HookEvent, event), ids, group, problems)
                case _:
                    problems.append(f"a hook for `{event}` has no list `hookCallbackIds`")


def _group_hooks(
    event: HookEvent, callback_ids: Sequence[object], group: Mapping[str, Any], problems: list[str]
) -> Iterator[DeclaredHook]:
    matcher, timeout = group.get("matcher") or "", group.get("timeout")
    if not isinstance(matcher, str) or not (timeout is None or (isinstance(timeout, int | float) and timeout > 0)):
        problems.append(f"the matcher or the timeout of a hook for `{event}` is invalid")
        return
    for callback_id in callback_ids:
        call = ClientAction(str(callback_id), must_answer=group.get("onFailure") not in (None, "continue"))
        yield DeclaredHook(HookEntry(event, matcher, call, timeout), "user", "the program that drives the session")
