"""Pages of the web: which addresses may be reached, and what is fetched from them within bounds; one request that hands
a server something."""
