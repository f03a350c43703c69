"""HTML pages in a single file: results, live part, tables, figures, and how to reproduce them."""
