"""Prepares user messages at the beginning of a turn or step: expands mentions, runs hooks and adds notes."""

from dataclasses import replace

from ebbtide.agent import input
from ebbtide.agent.errors import HookRefused, UsageError
from ebbtide.agent.events.session import Noticed, Steered
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.prompt.attachments import needs_fitting
from ebbtide.agent.prompt.reminder_notes import job_change_notes, job_notes
from ebbtide.agent.request.fit import begin_session
from ebbtide.agent.request.reply_reader import small_model_support_for
from ebbtide.agent.request.turn_model import switch_to_requested_model
from ebbtide.agent.view.message_text import steering_message
from ebbtide.agent.view.stubs import HOOK_NOTE_PREFIX
from ebbtide.agent.window.session_context import CallContext, ModelContext, SessionContext, TurnContext


async def take_pending_messages(conversation: Conversation, ctx: SessionContext) -> Conversation:
    """Add the messages that the user has sent since the last step, after that step's outputs. They are stored before
    the model sees them. After an interrupt, pending messages stay queued."""
    if ctx.turn.interrupt.is_requested():
        return conversation
    for pending in ctx.turn.get_pending_messages():
        try:
            message = steering_message(await add_hook_context(await _try_expand_mentions(pending, ctx), ctx.turn))
        except HookRefused as error:
            ctx.turn.emit(Noticed(f"your message was not sent: {error}"))
            continue
        await ctx.records.recorder.record_user_message(message)
        if ctx.calls.runner.loop_guard is not None:
            ctx.calls.runner.loop_guard.reset()
        ctx.turn.emit(Steered(pending.text))
        conversation = await switch_to_requested_model(conversation.plus(message), ctx.window, ctx.turn)
    return conversation


async def _try_expand_mentions(message: User, ctx: SessionContext) -> User:
    """Expand the mentions. If that fails, notify the user and return the message unchanged."""
    try:
        return await expand_mentions(message, ctx)
    except UsageError as error:
        ctx.turn.emit(Noticed(str(error)))
        return message


async def add_hook_context(message: User, turn: TurnContext) -> User:
    """Run `UserPromptSubmit` hooks, and add their context to the message. Raises `HookRefused` if a hook objects."""
    if turn.hooks is None or all(isinstance(part, Note) for part in message.parts):
        return message
    await turn.hooks.run_session_start()
    answer = await turn.hooks.ask_about_prompt(message.text)
    if answer.verdict == "deny":
        raise HookRefused(f"a hook refuses it: {answer.reason}")
    notes = (Note(f"{HOOK_NOTE_PREFIX}`UserPromptSubmit` notes:]\n{answer.context}"),) if answer.context else ()
    return replace(message, parts=(*message.parts, *notes))


def take_pending_notes(calls: CallContext, turn: TurnContext) -> tuple[Note, ...]:
    """Take the pending notes: context added by hooks since the last message, and changes in background jobs. Each note
    is returned only once."""
    hook_contexts = turn.hooks.take_pending_context() if turn.hooks is not None else ()
    hook_context_notes = tuple(Note(f"{HOOK_NOTE_PREFIX}`{event}` notes:]\n{text}") for event, text in hook_contexts)
    jobs = calls.runner.workspace.jobs
    return (
        *hook_context_notes,
        *job_notes(jobs.unreported_ends.values()),
        *job_change_notes(jobs.take_pending_notes()),
    )


async def continue_after_answer(
    conversation: Conversation, answer: str, model: ModelContext, turn: TurnContext
) -> Conversation | None:
    """Add a message that makes the model continue after its answer. None if the model may stop."""
    small_model_support = small_model_support_for(model.facts)
    if (
        small_model_support is not None
        and (reminder := small_model_support.unfinished_work_reminder(conversation)) is not None
    ):
        await turn.recorder.record_user_message(reminder)
        turn.emit(Noticed("the model has not changed anything yet, so it is asked to"))
        return conversation.plus(reminder)
    objection = await turn.hooks.ask_before_stop(answer) if turn.hooks is not None else ""
    if not objection:
        return None
    continue_message = User((Note(f"{HOOK_NOTE_PREFIX}`Stop` says that you are not done:]\n{objection}"),))
    await turn.recorder.record_user_message(continue_message)
    turn.emit(Noticed(f"a hook makes the model continue: {objection.splitlines()[0]}"))
    return conversation.plus(continue_message)


async def sync_server_tools(conversation: Conversation, ctx: SessionContext) -> Conversation:
    """Ask the user about untrusted extensions, wait for MCP servers, and update the tool list if that does not
    invalidate the cache.

    Before the first request, the servers' tools are added to the list. Later, they are added only at the next rewrite.
    If a resumed session is still in the provider's cache, even the first request adds no tools: new ones would
    invalidate the whole cache.
    """
    window, calls, race = ctx.window, ctx.calls, ctx.turn.interrupt.race
    if calls.trust is not None:
        await race(calls.trust.ask_about_items())
    if calls.servers is None:
        return conversation
    is_first_request = not window.prefix_watch.has_sent
    await race(calls.servers.prepare_turn(is_first=is_first_request))
    if not is_first_request or not window.tools.server_tools.has_changed:
        return conversation
    is_cache_warm = not window.prefix_watch.is_cache_cold(window.model.facts)
    if is_cache_warm and window.prefix_watch.has_same_prefix(window.instructions.text, window.tools.offered_specs):
        return conversation
    return begin_session(conversation, window, ctx.turn.emit)


async def expand_mentions(message: User, ctx: SessionContext) -> User:
    """Expand everything that the message mentions: commands, skills, files, and server prompts and resources. Raises
    `UsageError`."""
    window = ctx.window
    calls = ctx.calls
    emit = ctx.turn.emit
    race = ctx.turn.interrupt.race
    if calls.extensions is not None:
        message = await race(input.named_extensions.expand_invocation(message, calls.extensions, ctx)) or message
    expanded = message
    if "@" in message.text or needs_fitting(message):
        message = input.attach.fit_user_message(message, window)  # first, as attaching may be interrupted
        expanded = await race(input.attach.attach_mentioned_files(message, calls.runner, window.model, emit)) or message
    small_model_support = small_model_support_for(window.model.facts)
    if small_model_support is not None and message.text.strip():
        expanded = await race(small_model_support.add_initial_files(expanded, calls.runner, window, emit)) or expanded
    if calls.servers is None:
        return expanded
    server_message = await race(calls.servers.expand_mentions(message)) or message
    return replace(expanded, parts=(*expanded.parts, *server_message.parts[len(message.parts) :]))
