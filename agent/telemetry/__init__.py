"""What sessions do, told to OpenTelemetry: spans and metrics by its conventions for generative AI. Off unless it is
configured."""
