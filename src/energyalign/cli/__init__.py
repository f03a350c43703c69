"""The command line: parse, call, print. Bodies import what they need when they run."""
