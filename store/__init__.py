"""Storage of rows in SQLite, and of bytes in blobs addressed by digest. It does not interpret the content."""
