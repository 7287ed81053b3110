"""Training: open-hand self-play with tree search, and learning from it (ScrofaZero, section 3)."""
