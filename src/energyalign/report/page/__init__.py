"""One HTML file that opens from disk: verdict, live part, tables, figures, and how to run it again."""
