"""store/operations."""
