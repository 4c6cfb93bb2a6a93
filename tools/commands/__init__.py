"""Static analysis of command lines: what a line may do, judged by its text."""
