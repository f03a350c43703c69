"""The skeleton of both applications: an experiment, from settings to rows."""
