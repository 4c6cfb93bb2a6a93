"""Web access: permitted addresses, pages fetched within limits, and a single POST request."""
