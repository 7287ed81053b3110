"""Evaluation: duplicate matches, tournaments and analyses of players."""
