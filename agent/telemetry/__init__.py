"""Export of sessions to OpenTelemetry: spans and metrics by its conventions for generative AI. Off unless
configured."""
