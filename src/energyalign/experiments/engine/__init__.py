"""What both applications share: one experiment from settings to rows."""
