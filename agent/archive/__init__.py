"""What was kept, looked up by reference, words or meaning; the library of sessions, forks, export."""
