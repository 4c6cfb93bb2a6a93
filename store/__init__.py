"""Storage of rows in SQLite and of bytes in blobs named by their digest. It does not interpret the content."""
