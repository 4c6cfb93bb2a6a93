"""The command line, and what each subcommand prints."""
