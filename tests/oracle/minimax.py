"""Perfect play with open hands, by trying everything."""

import copy

from tests.oracle.gongzhu import Game


def minimax(truth: Game, team: int) -> int:
    """The margin of a team at the end of the deal with best play by both."""
    if truth.over:
        return truth.margin() * (1 if team == 0 else -1)
    outcomes = [minimax(after(truth, card), team) for card in truth.legal()]
    return max(outcomes) if truth.mover % 2 == team else min(outcomes)


def after(truth: Game, card: int) -> Game:
    """The game one card later."""
    played = copy.deepcopy(truth)
    played.play(card)
    return played
