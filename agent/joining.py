"""Servers, when a turn begins. Their tools join the model's list at once as long as no request holds it; what the
user's message names of them is read."""

from dataclasses import replace

from agent.context.beside import needs_fitting
from agent.env import Env
from agent.messages import Conversation, User
from agent.preflight import begin_session


async def settle_tools(conversation: Conversation, env: Env) -> Conversation:
    """The conversation, once servers had their say. Before the first request their tools are offered; later they wait
    until the view is rewritten."""
    if env.servers is None:
        return conversation
    first = not env.watch.has_sent
    await env.interrupt.race(env.servers.settle(first=first))
    return begin_session(conversation, env) if first and env.served.has_changed else conversation


async def with_named(said: User, env: Env) -> User:
    """What the user said, with the prompts and resources of servers and the files that it names. Raises
    `UsageError`."""
    with_files = said
    if "@" in said.text or needs_fitting(said):
        from agent.attaching import fitted, with_attached  # noqa: PLC0415  # deferred: most messages bring nothing

        said = fitted(said, env)  # also when the user is faster than what follows
        with_files = await env.interrupt.race(with_attached(said, env)) or said
    if env.servers is None:
        return with_files
    named = await env.interrupt.race(env.servers.with_named(said)) or said
    return replace(with_files, parts=(*with_files.parts, *named.parts[len(said.parts) :]))
