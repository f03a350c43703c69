"""Application I: class-incremental learning."""
