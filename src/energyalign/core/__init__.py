"""The method on arrays of NumPy or any array-API namespace. Imports nothing heavier than NumPy."""
