"""Ids of calls, over replies of servers that count as they like."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Assistant, Text, ToolCall
from ebbtide.agent.view.message_text import has_unique_ids, with_unique_ids

ids = st.sampled_from(["c", "c-2", "c-3", "d", ""])
replies = st.lists(ids, max_size=4, unique=True).map(
    lambda names: Assistant((Text("so"), *(ToolCall(name, "read", {"path": name}) for name in names)), "m/a")
)


@given(st.lists(replies, max_size=6))
def test_every_call_has_an_id_of_its_own_and_stays_otherwise_as_it_was(all_replies: list[Assistant]) -> None:
    renamed: list[Assistant] = []
    for reply in all_replies:
        earlier = {call.id for message in renamed for call in message.calls}
        own = with_unique_ids(reply, earlier)
        renamed.append(own)
        assert has_unique_ids(renamed)
        assert [(call.name, call.arguments) for call in own.calls] == [(c.name, c.arguments) for c in reply.calls]
        assert len(own.parts) == len(reply.parts)
        assert with_unique_ids(own, earlier) is own
        if has_unique_ids([*renamed[:-1], reply]):
            assert own is reply
