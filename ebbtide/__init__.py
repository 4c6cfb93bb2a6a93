"""The public API of Ebbtide: `Agent`, tools and answers to questions (`ebbtide.sdk`), and session events
(`ebbtide.events`).

`ebbtide.agent`, `ebbtide.tui`, `ebbtide.tools` and `ebbtide.store` are internal and may change in any version. Names
are imported lazily, because `ebb` also starts through this module.
"""

TYPE_CHECKING = False  # True for type checkers; importing `typing` would take longer than the rest of this module

if TYPE_CHECKING:
    from ebbtide.sdk import *  # noqa: F403  # the names in its `__all__`
else:

    def __getattr__(name: str) -> object:
        if not name.startswith("_") and name not in ("agent", "store", "tools", "tui"):  # folders, which are imported
            import ebbtide.sdk as sdk  # noqa: PLC0415  # deferred: names are imported lazily

            if name in sdk.__all__:
                return getattr(sdk, name)
        raise AttributeError(f"module 'ebbtide' has no attribute '{name}'")
