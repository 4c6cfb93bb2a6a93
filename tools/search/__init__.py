"""Files and kept outputs searched, by processes that can be ended."""
