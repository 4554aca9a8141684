"""Sessions behind a product: plugins with hooks around requests and calls. Knows no HTTP, and is tested without it."""
