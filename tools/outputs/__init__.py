"""What calls give: how much of it one answer shows, and what is kept apart of it, as tools read it."""
