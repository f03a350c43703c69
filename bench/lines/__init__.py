"""The lines of the table: a file for each subject, each with a function `lines` that measures them."""
