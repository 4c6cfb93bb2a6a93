"""What the user says while a turn runs, heard where a step begins. It knows no front end and no provider."""

from agent.context.meanwhile import said_meanwhile
from agent.env import Env
from agent.errors import UsageError
from agent.events import Noticed, Steered
from agent.joining import with_named
from agent.messages import Conversation, User


async def hear(conversation: Conversation, env: Env) -> Conversation:
    """The conversation with what the user has said since the step before, behind its outputs. It is on disk before the
    model sees it. In a turn that is interrupted nothing is heard any more: whoever sent it still has it."""
    if env.interrupt.requested():
        return conversation
    for said in env.meanwhile():
        message = said_meanwhile(await _with_named(said, env))
        await env.recorder.said(message)
        env.emit(Steered(said.text))
        conversation = conversation.plus(message)
    return conversation


async def _with_named(said: User, env: Env) -> User:
    """What the user said, with the prompts and resources of servers that it names, as far as there are such."""
    try:
        return await with_named(said, env)
    except UsageError as error:
        env.emit(Noticed(str(error)))
        return said
