"""What other coding agents have kept, read in place and made ours: servers, settings, transcripts. A reader a file."""
