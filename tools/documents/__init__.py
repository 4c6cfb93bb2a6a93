"""Documents of somebody else turned into text by programs of ours, which may take only so much time and memory."""
