"""The lines of the table, a file for each subject; each has a function `lines` that measures them."""
