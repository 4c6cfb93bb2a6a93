"""`ebb mcp serve`: what other agents may ask of this one, over the Model Context Protocol on standard input and output:
to recall what sessions said and saw, and to do a task. It draws nothing and imports no Textual."""
