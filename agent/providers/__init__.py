"""Model providers: adapters, context windows, prices, token counts, fallbacks, and requests to a model."""
