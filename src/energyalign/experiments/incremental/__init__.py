"""Application I of the paper: class-incremental learning."""
