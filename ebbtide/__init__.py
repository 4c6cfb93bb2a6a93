"""Ebbtide in a Python program: an `Agent`, its tools, the answers to its questions (`ebbtide.sdk`), and what happens in
`ebbtide.events`.

`ebbtide.agent`, `ebbtide.tui`, `ebbtide.tools` and `ebbtide.store` are the program itself and may change with every
version. What is imported from here is loaded when it is first used, since `ebb` starts through this module, too."""

TYPE_CHECKING = False  # to readers of types it is true; to import `typing` would take longer than all of this

if TYPE_CHECKING:
    from ebbtide.sdk import *  # noqa: F403  # what its `__all__` names
else:

    def __getattr__(name: str) -> object:
        if not name.startswith("_"):
            import ebbtide.sdk as sdk  # noqa: PLC0415  # deferred: as said above

            if name in sdk.__all__:
                return getattr(sdk, name)
        raise AttributeError(f"module 'ebbtide' has no attribute '{name}'")
