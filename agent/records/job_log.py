"""What is done once a background job is over: whoever listens is told, and it is written down."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from agent.channel import Channel
from agent.context.secret_tokens import SecretTokens
from agent.errors import StoreFailed
from agent.events.session import JobEnded
from agent.records.recorder import Recorder
from tools.process.jobs import EndedJob


def job_listener(channel: Channel, recorder: Recorder, secrets: SecretTokens) -> Callable[[EndedJob], Awaitable[None]]:
    """Takes each job that is over of which the model does not know it."""

    async def tell(ended: EndedJob) -> None:
        lines = tuple(map(secrets.hide, ended.last_lines))
        channel.tell(JobEnded(ended.id, secrets.hide(ended.command), ended.how, lines))
        with suppress(StoreFailed):  # it is written down with the next message
            await recorder.keep_jobs()

    return tell
