"""What waits for the session, and in which order it is taken."""

from ebbtide.agent.headless.message_queue import MAX_QUEUED_CHARS, MessageQueue, UserMessage
from ebbtide.agent.messages import Image, Text, User


def said(text: str, *, steers: bool = False) -> UserMessage:
    return UserMessage(User((Text(text),)), steers)


def test_messages_are_turns_in_their_order_and_those_that_steer_are_lent_to_the_step() -> None:
    queue = MessageQueue()
    for message in (said("a"), said("b", steers=True), said("c"), said("d", steers=True)):
        queue.add(message)
    assert [one.text for one in queue.take_steering_messages()] == ["b", "d"]
    queue.acknowledge("b")
    queue.requeue()
    assert [one and one.text for one in (queue.pop(), queue.pop(), queue.pop(), queue.pop())] == ["d", "a", "c", None]
    assert not queue.has_messages


def test_room_is_bounded_but_for_a_single_message() -> None:
    queue, large = MessageQueue(), UserMessage(User((Text("look"), Image("image/png", "A" * MAX_QUEUED_CHARS))))
    assert queue.has_room_for(large)
    queue.add(said("a"))
    assert not queue.has_room_for(large)
    assert queue.has_room_for(said("b"))
