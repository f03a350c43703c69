"""The method on arrays: NumPy or any array-API namespace, and nothing heavier at import."""
