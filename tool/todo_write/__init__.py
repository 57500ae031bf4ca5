"""The model-facing tool, the session log, and the fold of what the tool writes."""
