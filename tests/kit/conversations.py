"""Hypothesis strategies for conversations as sessions make them: valid, of any length, with any content."""

from collections.abc import Sequence

from hypothesis import strategies as st

from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Conversation,
    Image,
    Message,
    Note,
    OutputStatus,
    ProviderItem,
    Reasoning,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.view.message_text import steering_message


def output_ids(messages: Sequence[Message]) -> tuple[str, ...]:
    """The ids of the calls of all outputs, in order."""
    return tuple(output.call_id for message in messages if isinstance(message, User) for output in message.outputs)


texts = st.text(max_size=60)
filled = st.text(min_size=1, max_size=60)
images = st.builds(Image, st.just("image/png"), st.sampled_from(["aGk=", ""]))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
arguments = st.dictionaries(texts, values, max_size=3)
natives = st.dictionaries(filled, values, min_size=1, max_size=3)
notes = st.lists(st.builds(Note, filled), max_size=1)
statuses: st.SearchStrategy[OutputStatus] = st.sampled_from(["done", "failed", "denied", "cancelled", "interrupted"])


summaries = st.sampled_from([Summary(), Summary("kept", "what was before", "Files read:\n- a.py")])


@st.composite
def steps(draw: st.DrawFn, number: int, *, answered: bool = True) -> list[Message]:
    """A reply, and the outputs of its calls when it makes any."""
    parts: list[AssistantPart] = []
    if draw(st.booleans()):
        parts.append(Reasoning(draw(texts), draw(natives)))
    if draw(st.booleans()):
        parts.append(Text(draw(filled), draw(st.none() | natives)))
    if draw(st.booleans()):
        parts.append(ProviderItem(draw(natives)))
    count = draw(st.integers(0, 3))
    for index in range(count):
        source = draw(texts)
        parts.append(ToolCall(f"c{number}-{index}", draw(texts), draw(arguments), source, draw(texts)))
    if not parts:
        parts.append(Text("done"))
    step: list[Message] = [Assistant(tuple(parts), "scripted/a", is_paused=not count and draw(st.booleans()))]
    if count and answered:
        step.append(
            User(
                tuple(
                    ToolOutput(
                        f"c{number}-{index}",
                        draw(texts),
                        draw(statuses),
                        tuple(draw(st.lists(images, max_size=1))),
                        draw(st.none() | filled),
                    )
                    for index in range(count)
                )
                + tuple(draw(notes))
            )
        )
    return step


@st.composite
def conversations(draw: st.DrawFn, max_steps: int = 6) -> Conversation:
    """User messages and steps in turn, every call answered."""
    messages: list[Message] = [User((Text(draw(filled)), *draw(st.lists(images, max_size=1))))]
    for number in range(draw(st.integers(0, max_steps))):
        messages += draw(steps(number))
        if draw(st.booleans()):
            message = User((Text(draw(filled)), *draw(notes)))
            messages.append(steering_message(message) if draw(st.booleans()) else message)
    return Conversation(tuple(messages), draw(summaries))
