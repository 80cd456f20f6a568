"""The user's service and model. Their code runs in separate processes."""
