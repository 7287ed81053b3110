"""What a player's parts are worth: ``python -m eval.analysis`` (ScrofaZero, section 5)."""
