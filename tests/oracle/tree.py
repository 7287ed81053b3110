"""Tree search in plain Python, node by node and card by card, for any game of two teams with open hands."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Protocol

from .gongzhu import Game


class Position(Protocol):
    """What is searched."""

    over: bool
    team: int
    """Whose turn it is: team 0 or 1."""
    margin: float
    """Points of team 0 so far, minus those of team 1."""

    def legal(self) -> list[int]: ...

    def after(self, card: int) -> Position: ...


class Deal:
    """A deal of Gongzhu as a Position."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.over, self.team, self.margin = game.over, game.mover % 2, game.margin()

    def legal(self) -> list[int]:
        return self.game.legal()

    def after(self, card: int) -> Deal:
        played = copy.deepcopy(self.game)
        played.play(card)
        return Deal(played)


Evaluate = Callable[[Position], tuple[Mapping[int, float], float]]
"""Policy numbers by card, and points that the mover's team will still win over the other's."""


class Node:
    """A position, what was found below it (total: for the root's team), and its visited cards."""

    def __init__(self, position: Position, evaluate: Evaluate) -> None:
        self.position = position
        self.children: dict[int, Node] = {}
        self.visits, self.total = 0, 0.0
        self.priors: dict[int, float] = {}
        self.value = float(position.margin)  # for team 0
        if not position.over:
            policy, future = evaluate(position)
            powers = {card: math.exp(policy[card]) for card in position.legal()}
            self.priors = {card: power / sum(powers.values()) for card, power in powers.items()}
            self.value += future if position.team == 0 else -future

    @property
    def mean(self) -> float:
        return self.total / self.visits


def search(position: Position, simulations: int, rule: str, c: float, evaluate: Evaluate) -> Node:
    """The root after some simulations by UCB or PUCT, each of which makes one node or ends at the end of the deal."""
    root = Node(position, evaluate)
    for _ in range(simulations):
        path, made = [root], False
        while not made and not path[-1].position.over:
            node = path[-1]
            card = choose(node, node is root, root.position.team, rule, c)
            made = card not in node.children
            if made:
                node.children[card] = Node(node.position.after(card), evaluate)
            path.append(node.children[card])
        value = path[-1].value if root.position.team == 0 else -path[-1].value
        for node in path:
            node.visits += 1
            node.total += value
    return root


def choose(node: Node, is_root: bool, root_team: int, rule: str, c: float) -> int:
    """The card to follow at a node."""
    legal = node.position.legal()
    sign = 1 if node.position.team == root_team else -1
    if rule == "ucb":
        for card in legal:
            if card not in node.children:
                return card
        return max(legal, key=lambda card: (ucb(node, node.children[card], sign, c), -card))
    if is_root and len(node.children) < len(legal):
        return max(
            (card for card in legal if card not in node.children), key=lambda card: (node.priors[card], -card)
        )
    return max(legal, key=lambda card: (puct(node, card, sign, c), node.priors[card], -card))


def ucb(node: Node, child: Node, sign: int, c: float) -> float:
    return sign * child.mean + c * math.sqrt(math.log(node.visits) / child.visits)


def puct(node: Node, card: int, sign: int, c: float) -> float:
    child = node.children.get(card)
    mean, visits = (child.mean, child.visits) if child else (node.mean, 0)
    return sign * mean + c * node.priors[card] * math.sqrt(node.visits) / (1 + visits)
