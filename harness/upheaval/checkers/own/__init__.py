"""The user's service and model: its code runs in processes of its own."""
