"""The public network: names, addresses, places, and the proxy that commands reach them by. It decides no permission."""
