"""What people import and run."""
