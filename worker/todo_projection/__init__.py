"""The worker, what it publishes, and the carriers that follow it."""
