"""The size of a request: its parts, the window that it must fit, the prefix that is cached, and token counts from
servers."""
