"""The checks of `ebb doctor` (settings, folders, network, the store and its references), and the repair of a damaged
database."""
