"""Files: atomic writes, strict JSON, bounded reads."""
