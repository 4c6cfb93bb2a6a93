"""Models: their wires, windows, prices, tokens and fallbacks; one request and its reply."""
