"""Independent plain-Python oracle: rules, uniform worlds and reference opponents (standard library only)."""
