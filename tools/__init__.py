"""The tools that a model can call, one per file with its description beside it, and the code they share."""
