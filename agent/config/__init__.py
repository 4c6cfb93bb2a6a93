"""Files, environment and flags become one frozen `Config`; the user's file and the files for each project are changed
here."""
