"""The command line: parse, call, print. Modules are imported where they are needed, not at startup."""
