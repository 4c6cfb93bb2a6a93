"""User messages at the beginning of a turn or step: mentions are expanded, hooks run, and notes added."""

from dataclasses import replace

from ebbtide.agent.context.attachments import needs_fitting
from ebbtide.agent.context.job_notes import job_notes, news_notes
from ebbtide.agent.context.mask import HOOK_NOTE_PREFIX
from ebbtide.agent.context.message_text import steering_message
from ebbtide.agent.errors import HookRefused, UsageError
from ebbtide.agent.events.session import Noticed, Steered
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.window.model_choice import begin_session
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.agent.window.turn_model import with_requested_model


async def take_pending_messages(conversation: Conversation, env: SessionContext) -> Conversation:
    """Add the messages sent since the last step, after its outputs. They are stored before the model sees them. After
    an interrupt, pending messages stay queued."""
    if env.interrupt.is_requested():
        return conversation
    for said in env.pending_messages():
        try:
            message = steering_message(await with_hooks(await _try_expand_mentions(said, env), env))
        except HookRefused as error:
            env.emit(Noticed(f"your message was not sent: {error}"))
            continue
        await env.recorder.record_user_message(message)
        if env.call_runner.loop_guard is not None:
            env.call_runner.loop_guard.begin()
        env.emit(Steered(said.text))
        conversation = await with_requested_model(conversation.plus(message), env)
    return conversation


async def _try_expand_mentions(said: User, env: SessionContext) -> User:
    """Expand the mentions, or return the message unchanged with a notice if that fails."""
    try:
        return await expand_mentions(said, env)
    except UsageError as error:
        env.emit(Noticed(str(error)))
        return said


async def with_hooks(said: User, env: SessionContext) -> User:
    """Return the message with what hooks add to it. Raises `HookRefused`."""
    if env.hooks is None or all(isinstance(part, Note) for part in said.parts):
        return said
    await env.hooks.session_begins()
    answer = await env.hooks.prompt(said.text)
    if answer.verdict == "deny":
        raise HookRefused(f"a hook refuses it: {answer.reason}")
    notes = (Note(f"{HOOK_NOTE_PREFIX}`UserPromptSubmit` notes:]\n{answer.context}"),) if answer.context else ()
    return replace(said, parts=(*said.parts, *notes))


def pending_notes(env: SessionContext) -> tuple[Note, ...]:
    """Return notes from hooks since the last message, and on finished background jobs."""
    said = env.hooks.take_pending() if env.hooks is not None else ()
    by_hooks = tuple(Note(f"{HOOK_NOTE_PREFIX}`{event}` notes:]\n{text}") for event, text in said)
    jobs = env.call_runner.workspace.jobs
    return (*by_hooks, *job_notes(jobs.ended.values()), *news_notes(jobs.take_news()))


async def continuation_after_answer(
    conversation: Conversation, answer: str, env: SessionContext
) -> Conversation | None:
    """Return the conversation with the reason why the model has to continue although it has answered; None if there is
    none."""
    if env.provider.facts.is_small and (asked := _work_reminder(conversation)) is not None:
        await env.recorder.record_user_message(asked)
        env.emit(Noticed("the model has not changed anything yet and is asked to"))
        return conversation.plus(asked)
    objection = await env.hooks.stops(answer) if env.hooks is not None else ""
    if not objection:
        return None
    note = User((Note(f"{HOOK_NOTE_PREFIX}`Stop` says that you are not done:]\n{objection}"),))
    await env.recorder.record_user_message(note)
    env.emit(Noticed(f"a hook makes the model continue: {objection.splitlines()[0]}"))
    return conversation.plus(note)


def _work_reminder(conversation: Conversation) -> User | None:
    from ebbtide.agent.context.unfinished_task import work_reminder  # noqa: PLC0415  # deferred: for some models only

    return work_reminder(conversation)


async def sync_server_tools(conversation: Conversation, env: SessionContext) -> Conversation:
    """Ask the user about trust, wait for the servers, and return the conversation.

    Before the first request the tools of servers are added to the list; later they wait for a rewrite. They also wait
    if a resumed session is still in the provider's cache with its current tools: a server that was late then and is
    ready now would invalidate all of it.
    """
    if env.trust is not None:
        await env.interrupt.race(env.trust.settle())
    if env.servers is None:
        return conversation
    first = not env.watch.has_sent
    await env.interrupt.race(env.servers.settle(first=first))
    if not first or not env.server_tools.has_changed:
        return conversation
    is_warm = not env.watch.is_cold(env.provider.facts)
    if is_warm and env.watch.has_same_prefix(env.instructions.text, env.offered_tools):
        return conversation
    return begin_session(conversation, env)


async def expand_mentions(said: User, env: SessionContext) -> User:
    """Expand what the message mentions: commands, skills, files, and prompts and resources of servers. Raises
    `UsageError`."""
    if env.extensions is not None:
        from ebbtide.agent.input.named_extensions import with_extensions  # noqa: PLC0415  # deferred: few users have these

        said = await env.interrupt.race(with_extensions(said, env.extensions, env)) or said
    with_files = said
    if "@" in said.text or needs_fitting(said):
        from ebbtide.agent.input.attach import fit_user_message, with_attached  # noqa: PLC0415  # deferred: rarely needed

        said = fit_user_message(said, env)  # even if the user interrupts what follows
        with_files = await env.interrupt.race(with_attached(said, env)) or said
    if env.provider.facts.is_small and said.text.strip():
        from ebbtide.agent.input.first_look import with_first_look  # noqa: PLC0415  # deferred: for some models only

        with_files = await env.interrupt.race(with_first_look(with_files, env)) or with_files
    if env.servers is None:
        return with_files
    named = await env.interrupt.race(env.servers.expand_mentions(said)) or said
    return replace(with_files, parts=(*with_files.parts, *named.parts[len(said.parts) :]))
