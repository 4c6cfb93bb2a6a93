"""A step that the end of the session left unfinished at a question: the user is asked again, and what never began is
run now, if it may be."""

from agent.env import Env
from agent.execute import run_calls
from agent.messages import Conversation, ToolOutput
from agent.preflight import place_of, room_for_outputs
from agent.progress import may_begin, output_left


async def finish_calls(conversation: Conversation, env: Env) -> tuple[ToolOutput, ...]:
    """One output per open call of the conversation, in order. What had begun is not run again."""
    calls, states = conversation.unanswered, env.recorder.left_open
    env.hands.progress.go_on(
        {call.id: states[call.id] if may_begin(states.get(call.id)) else output_left(call, states) for call in calls}
    )
    return await run_calls(calls, env.hands, room_for_outputs(conversation, env), place_of(conversation, env))
