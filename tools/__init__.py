"""What a model can call, one tool a file with its text beside it, and what the tools share."""
