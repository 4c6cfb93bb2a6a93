"""`ebb key sign-in`: signs in to a subscription. The browser opens only if the user presses Enter."""

import asyncio
import os
import select
import sys
import time
import webbrowser
from collections.abc import Sequence
from threading import Thread

from ebbtide.agent.config.clouds import SUBSCRIPTIONS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ProviderError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.integrations.sign_in.browser_flow import BrowserSignIn
from ebbtide.agent.integrations.sign_in.device_flow import DeviceCode
from ebbtide.agent.integrations.sign_in.services import SignedIn, sign_in_with_browser, sign_in_with_code
from ebbtide.agent.integrations.sign_in.stored_tokens import store_tokens
from ebbtide.agent.providers.factory import fetch_subscription_models
from ebbtide.agent.providers.keys import add_stored_keys, url_origin
from ebbtide.agent.providers.registry import store_served_models
from ebbtide.agent.providers.setup import find_base_url, key_variable, uses_key_command
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.text.sanitise import sanitise_line

MAX_PASTE_BYTES = 16_384


def run(arguments: Sequence[str]) -> int:
    """Run `ebb key sign-in PROVIDER`; return the exit code. Raises `AgentError`."""
    parser = create_subcommand_parser(
        "key sign-in",
        "Sign in to a subscription. It shows an address, opens it if you press Enter, and waits until you have allowed "
        "access there. The tokens are stored like keys.",
    )
    parser.add_argument("provider", choices=tuple(SUBSCRIPTIONS))
    options = parse_subcommand_args(parser, arguments, "JSON")
    _, config = read_settings(options)
    provider, folder = options.provider, config.folders.config
    settings, subscription = config.provider_config(provider), SUBSCRIPTIONS[options.provider]
    origin = url_origin(find_base_url(provider, settings, os.environ))
    terminal = SignInPrompt()
    try:
        if provider == "copilot":
            signed_in = sign_in_with_code(settings, terminal.show_code, terminal.wait)
        else:
            signed_in = sign_in_with_browser(settings, folder, terminal.show_page, terminal.wait_for_browser)
    except KeyboardInterrupt:
        terminal.print("\nThe sign-in was cancelled. Nothing was stored.")
        return 130
    storage = store_tokens(folder, provider, origin, signed_in.tokens, signed_in.account or "an account")
    if not options.json:
        print(_success_text(subscription.title, signed_in, origin), flush=True)
    models = _fetch_models(config, provider)
    if options.json:
        fields: dict[str, object] = {
            "provider": provider,
            "account": signed_in.account,
            "place": storage,
            "origin": origin,
        }
        fields["models"] = [f"{provider}/{name}" for name in models]
        print_json(sys.stdout, fields)
        return 0
    if models:
        example = sanitise_line(f"{provider}/{models[0]}")
        print(f"{len(models)} models, such as {example}; `ebb models {provider}` lists them")
    else:
        print(f"its list of models is not available now; use one with `-m {provider}/NAME`")
    variable = key_variable(provider, settings)
    if variable and os.environ.get(variable):
        print(f"{variable} is also set and takes precedence")
    elif uses_key_command(provider, settings, os.environ):
        print(f"`providers.{provider}.key_command` is also set and takes precedence")
    return 0


def _fetch_models(config: Config, provider: str) -> tuple[str, ...]:
    """Fetch the subscription's models and store them for `ebb models` and `/model`. Returns the models' names."""
    environment = add_stored_keys(config.folders.config, os.environ)
    try:
        models = asyncio.run(fetch_subscription_models(provider, config, environment))
    except ProviderError:  # the list is a convenience; the sign-in is complete
        return ()
    if models:
        store_served_models(provider, models, config.folders.model_table_folder)
    return tuple(models)


def _success_text(title: str, signed_in: SignedIn, origin: str) -> str:
    account = f" as {sanitise_line(signed_in.account)}" if signed_in.account else ""
    return f"signed in to {title}{account}; the tokens are sent only to {sanitise_line(origin)}"


class SignInPrompt:
    """Shows sign-in URLs and codes on stderr. If stdin is a terminal, reads Enter or a pasted URL."""

    def __init__(self) -> None:
        self._has_input = sys.stdin is not None and sys.stdin.isatty()
        self._page = ""
        """The URL that Enter opens; empty once it has been opened."""

    def print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def show_code(self, code: DeviceCode) -> None:
        self._page = code.page_with_code
        self.print(f"Open {sanitise_line(code.page)} and type the code {sanitise_line(code.user_code)}")
        self.print(f"{self._enter_hint()}Waiting for you … Ctrl-C cancels. Never give the code to anybody else.")

    def show_page(self, sign_in: BrowserSignIn) -> None:
        self._page = sign_in.authorization_url
        self.print(f"Open this address and allow access:\n\n{sanitise_line(sign_in.authorization_url)}\n")
        if self._has_input:
            self.print(
                "If that browser runs on another machine, it ends at an address that it cannot open: paste that one "
                "here."
            )
        self.print(f"{self._enter_hint()}Waiting for you … Ctrl-C cancels.")

    def _enter_hint(self) -> str:
        return "Enter opens it in a browser here. " if self._has_input else ""

    def wait(self, seconds: float) -> None:
        """Wait for this many seconds. If the user presses Enter during that time, open the URL."""
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            if select.select(self._input_descriptors(), [], [], remaining)[0]:
                self._read_line()

    def wait_for_browser(self, sign_in: BrowserSignIn, seconds: float) -> None:
        """Wait for at most `seconds`, until the browser connects or the user types a line."""
        ready = select.select([*self._input_descriptors(), sign_in.fileno()], [], [], max(seconds, 0))[0]
        if sign_in.fileno() in ready:
            sign_in.handle_browser()
        has_line = any(number in ready for number in self._input_descriptors())
        if has_line and (line := self._read_line()) and not sign_in.accept_callback_url(line):
            self.print("This is not the address at which that browser ended. Copy the whole address.")

    def _input_descriptors(self) -> list[int]:
        return [sys.stdin.fileno()] if self._has_input else []

    def _read_line(self) -> str:
        """Read a typed line. An empty line opens the URL."""
        line = os.read(sys.stdin.fileno(), MAX_PASTE_BYTES)
        self._has_input = bool(line)  # nothing means the end of input
        text = line.decode("utf-8", "replace").strip()
        if line and not text and self._page:
            page, self._page = self._page, ""
            Thread(target=self._open, args=(page,), daemon=True).start()
        return text

    def _open(self, page: str) -> None:
        """Open a page. With a text-mode browser, this blocks until the user quits the browser."""
        if not webbrowser.open(page):
            self.print("No browser can be opened here. Open the address yourself.")
