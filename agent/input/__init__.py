"""What the user says or brings, made into messages; the system text."""
