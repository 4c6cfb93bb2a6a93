"""Reads the replies of models that write calls as text, or only show code instead of calling a tool."""

from collections.abc import Collection

from ebbtide.agent.calls.call_resolution import is_callable_name, known_argument_names, matches_tool_exactly
from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.integrations.small_models.shown_calls import refuse_truncating_writes, with_calls_from_code_blocks
from ebbtide.agent.integrations.small_models.text_calls import convert_text_calls
from ebbtide.agent.messages import Assistant, Conversation, User
from ebbtide.agent.prompt.build import Prompt
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.view.message_text import message_text


class TextReplyReader:
    def __init__(self, model_facts: ModelFacts) -> None:
        self._facts = model_facts

    def parse_calls_in_text(
        self,
        original: Assistant,
        conversation: Conversation,
        prompt: Prompt,
        offered_tools: Collection[str],
        runner: CallRunner,
    ) -> Assistant:
        """Add the tool calls written in the reply's text. For a small model, code that is only shown also becomes a
        call."""
        reply = original
        if self._facts.writes_calls_as_text:
            reply = convert_text_calls(
                reply,
                lambda call: (matches_tool_exactly if call.is_ambiguous else is_callable_name)(
                    call.name, call.arguments, runner.tools, offered_tools
                ),
                lambda: (
                    prompt.system,
                    *(message_text(message) for message in prompt.messages if isinstance(message, User)),
                ),
                lambda: known_argument_names(runner.tools, offered_tools),
                is_small_model=self._facts.is_small,
            )
        return with_calls_from_code_blocks(reply, original, conversation, runner) if self._facts.is_small else reply

    def refuse_mistaken_calls(self, reply: Assistant, conversation: Conversation, runner: CallRunner) -> Assistant:
        """Refuse calls that a small model makes by mistake: writes that would truncate a file."""
        return refuse_truncating_writes(reply, conversation, runner) if self._facts.is_small else reply
