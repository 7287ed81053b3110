"""Speed, measured side by side: every figure is a ratio of things timed in turn in one process."""
