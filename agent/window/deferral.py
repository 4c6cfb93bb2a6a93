"""The deferred tools of one session, and when each tool was last used. `ebbtide.agent.prompt.tool_selection` decides
what to defer."""

import time
from collections.abc import Callable, Mapping, Sequence

from ebbtide.agent.calls.policy import server_prefix
from ebbtide.agent.events.session import Event, Noticed, ToolFinished
from ebbtide.agent.prompt.small_window import SMALL_LIMIT_TOKENS, is_omitted, tools_for_window
from ebbtide.agent.prompt.tool_selection import choose_deferred_tools, count_definition_tokens, select_tools
from ebbtide.agent.tool_specs import CALL_TOOL, SEARCH_TOOL, HostedSearch, ToolSpec
from ebbtide.tools.base import Deferrable, Tool


class ToolDeferral:
    """Tracks the deferred tools. They change only when `choose_tools` is called: at the start of a session and at a
    rewrite."""

    def __init__(
        self,
        share: float = 0.10,
        last_uses: Mapping[str, float] | None = None,
        now: Callable[[], float] = time.time,
        *,
        offers_search: bool = False,
        reduces_tools: bool = False,
    ) -> None:
        """`share`: maximum share of the effective window for tool definitions. `last_uses`: when each tool was last
        used, in Unix seconds. `offers_search`: whether to offer the search tools from the start, because more tools may
        be added later. `reduces_tools`: whether to offer fewer built-in tools, with shorter descriptions, in a small
        window."""
        self.deferred_names: frozenset[str] = frozenset()
        """Names of the tools whose definitions the model does not see."""
        self.deferred_tokens = 0
        """Tokens that the definitions of deferred tools would take."""
        self.user_deferred: frozenset[str] = frozenset()
        """Names of the tools that the user wants deferred."""
        self.hosted_search: HostedSearch = "none"
        """How the provider searches for deferred tools. `none` if Ebbtide's own search tools are used."""
        self._share = self._configured_share = share
        self._offers_search = offers_search
        self._reduces_tools = reduces_tools
        self._effective_window = SMALL_LIMIT_TOKENS
        self._is_small_model = False
        self._max_tools: int | None = None
        self._has_warned = False
        self._are_deferred_findable = True
        self._last_uses = dict(last_uses or {})
        self._now = now
        self._unsaved_uses: dict[str, float] = {}
        self._deferrable: frozenset[str] = frozenset()
        self._offered_cache: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] | None = None

    @property
    def deferred_state(self) -> tuple[int, bool]:
        """The number of deferred tools that can be found, and whether the provider's search is used."""
        return len(self.deferred_names) if self._are_deferred_findable else 0, self.hosted_search != "none"

    def offered_tools(self, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Return the tools to offer. Returns the same object until the next choice, so that values cached for it stay
        valid."""
        if self._offered_cache is None or self._offered_cache[0] != tuple(specs):
            self._offered_cache = tuple(specs), self._select(specs, self.deferred_names, self.hosted_search)
        return self._offered_cache[1]

    def choose_tools(
        self,
        specs: Sequence[ToolSpec],
        window_tokens: int,
        count_tokens: Callable[[ToolSpec], int],
        emit: Callable[[Event], None],
        search: HostedSearch = "none",
        max_tools: int | None = None,
        *,
        is_small_model: bool = False,
    ) -> None:
        """Choose the tools to defer, and whether the provider's search or Ebbtide's own finds them. Ebbtide's search is
        used if the provider's would take too many tokens. If the choice fails, all tools are offered, and the user is
        notified. `window_tokens`: room in the window. `max_tools`: maximum number of definitions that the provider
        accepts."""
        self._deferrable = frozenset(spec.name for spec in specs if spec.kind != "builtin")
        self._offered_cache = None
        self._effective_window = window_tokens
        self._max_tools = max_tools
        self._is_small_model = is_small_model
        try:
            self.deferred_names, self.hosted_search = self._choose_deferred(
                specs, int(self._share * window_tokens), count_tokens, search
            )
            self._are_deferred_findable = self.hosted_search != "none" or {SEARCH_TOOL, CALL_TOOL} <= {
                spec.name for spec in specs
            }
            self._warn_of_limit(specs, emit)
            self.deferred_tokens = sum(count_tokens(spec) for spec in specs if spec.name in self.deferred_names)
        except (TypeError, ValueError, RecursionError) as error:
            self.deferred_names, self.deferred_tokens, self.hosted_search = frozenset(), 0, "none"
            emit(Noticed(f"choosing the tools to defer failed, so all of them are offered: {error}"))

    def _warn_of_limit(self, specs: Sequence[ToolSpec], emit: Callable[[Event], None]) -> None:
        """If there are more tools than the provider accepts, tell the user once, and explain how to use the others."""
        names = {spec.name for spec in specs}
        if self._max_tools is None or len(names) <= self._max_tools or not self.deferred_names or self._has_warned:
            return
        self._has_warned = True
        advice = (
            "a search finds them"
            if self._are_deferred_findable
            else "add `tool_search` and `call_tool` to `tools.allowed`"
        )
        problem = f"{len(names)} tools exceed the {self._max_tools} that the provider accepts in a request"
        emit(Noticed(f"{problem}: {len(self.deferred_names)} are deferred; {advice}"))

    def deferrable_share(
        self,
        specs: Sequence[ToolSpec],
        available_specs: Sequence[ToolSpec],
        window_tokens: int,
        count_tokens: Callable[[ToolSpec], int],
    ) -> float:
        """Return what share of the current definitions could still be deferred, in a window with room for
        `window_tokens` tokens. `available_specs`: the tools that will be deferred or offered then; they lack those that
        servers no longer offer."""

        def min_definition_tokens(specs: Sequence[ToolSpec]) -> int:
            max_deferred = self._choose_deferred(specs, 0, count_tokens, self.hosted_search)
            return count_definition_tokens(self._select(specs, *max_deferred, window_tokens), count_tokens)

        try:
            current_tokens = count_definition_tokens(self.offered_tools(specs), count_tokens)
            if min_definition_tokens(specs) >= current_tokens:
                return 0.0
            min_tokens = min_definition_tokens(available_specs)
        except (TypeError, ValueError, RecursionError):
            return 0.0  # `choose` has already reported the error
        return max(current_tokens - min_tokens, 0) / max(current_tokens, 1)

    def _choose_deferred(
        self,
        specs: Sequence[ToolSpec],
        max_definition_tokens: int,
        count_tokens: Callable[[ToolSpec], int],
        search: HostedSearch,
    ) -> tuple[frozenset[str], HostedSearch]:
        """Choose the tools to defer, and the search that finds them. The provider's search is used if its definitions
        fit, or if Ebbtide's own search would not take fewer tokens."""
        deferred = self._choose_deferred_tools(self.user_deferred, specs, max_definition_tokens, count_tokens, search)
        total_tokens = count_definition_tokens(self._select(specs, deferred, search), count_tokens)
        if not deferred or search == "none" or total_tokens <= max_definition_tokens:
            return deferred, search if deferred else "none"
        own_deferred = self._choose_deferred_tools(
            self.user_deferred, specs, max_definition_tokens, count_tokens, "none"
        )
        return (
            (own_deferred, "none")
            if count_definition_tokens(self._select(specs, own_deferred, "none"), count_tokens) < total_tokens
            else (deferred, search)
        )

    def _choose_deferred_tools(
        self,
        user_deferred: frozenset[str],
        specs: Sequence[ToolSpec],
        max_definition_tokens: int,
        count_tokens: Callable[[ToolSpec], int],
        search: HostedSearch,
    ) -> frozenset[str]:
        offers_search, max_tools = self._offers_search, self._max_tools
        if self._is_small_model:  # the search must not find tools that are never offered
            specs = self._tools_for_window(specs, self._effective_window)
        return choose_deferred_tools(
            specs,
            max_definition_tokens,
            count_tokens,
            self._last_uses,
            search,
            offers_search=offers_search,
            user_deferred=user_deferred,
            max_tools=max_tools,
        )

    def size_with_deferred(
        self,
        user_deferred: frozenset[str],
        specs: Sequence[ToolSpec],
        window_tokens: int,
        count_tokens: Callable[[ToolSpec], int],
    ) -> int:
        """Return how many tokens the offered definitions would take if the user deferred the tools `user_deferred`."""
        deferred = self._choose_deferred_tools(
            user_deferred, specs, int(self._share * window_tokens), count_tokens, self.hosted_search
        )
        return count_definition_tokens(
            self._select(specs, deferred, self.hosted_search if deferred else "none"), count_tokens
        )

    def _select(
        self,
        specs: Sequence[ToolSpec],
        deferred: frozenset[str],
        search: HostedSearch,
        window_tokens: int | None = None,
    ) -> tuple[ToolSpec, ...]:
        window_tokens = self._effective_window if window_tokens is None else window_tokens
        return select_tools(
            self._tools_for_window(specs, window_tokens), deferred, search, offers_search=self._offers_search
        )

    def _tools_for_window(self, specs: Sequence[ToolSpec], window_tokens: int) -> Sequence[ToolSpec]:
        return (
            tools_for_window(specs, window_tokens, is_small_model=self._is_small_model)
            if self._reduces_tools
            else specs
        )

    def is_offered(self, name: str) -> bool:
        """Whether a built-in tool is offered according to the last choice."""
        return not (
            self._reduces_tools and is_omitted(name, self._effective_window, is_small_model=self._is_small_model)
        )

    def defer_all(self) -> None:
        """Defer every deferrable tool from the next choice on, if that saves tokens."""
        self._share = 0.0

    def reset_share(self) -> None:
        """From the next choice on, use the usual share again."""
        self._share = self._configured_share

    def record_tool_use(self, event: Event) -> None:
        """Record the use of a deferrable tool, including tools of servers added since the last choice."""
        if not isinstance(event, ToolFinished) or event.status != "done":
            return
        if event.name in self._deferrable or server_prefix(event.name):
            self._last_uses[event.name] = self._unsaved_uses[event.name] = self._now()

    def take_new_uses(self) -> Mapping[str, float]:
        """Return the tool uses since the previous call."""
        uses, self._unsaved_uses = self._unsaved_uses, {}
        return uses


def create_specs(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """Convert tools to the form that the model sees."""
    return tuple(
        ToolSpec(tool.name, tool.description, tool.schema, tool.kind if isinstance(tool, Deferrable) else "builtin")
        for tool in tools
    )
