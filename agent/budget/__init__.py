"""The size of a request: its parts, the window it must fit, its cached prefix, and token counts from servers."""
