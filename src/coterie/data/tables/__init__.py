"""Tables with a label column: what they hold, and how their rows become samples."""
