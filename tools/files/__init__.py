"""Files and the texts in them: found by path, read, compared, and changed as a whole or not at all."""
