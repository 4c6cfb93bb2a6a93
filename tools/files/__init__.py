"""Files and their text: path resolution, reading, comparison and atomic changes."""
