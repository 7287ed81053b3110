"""Exact cases of the written rules: what one seat captured, and its points."""

HEARTS = "H2 H3 H4 H5 H6 H7 H8 H9 H10 HJ HQ HK HA"

EXACT_CASES: list[tuple[str, int]] = [
    ("", 0),
    ("C10", 50),
    ("C10 H2", 0),
    ("SQ DJ C10", 0),
    ("SQ C10", -200),
    ("DJ C10", 200),
    ("HA HK SQ C10", -380),
    (HEARTS.removeprefix("H2 "), -200),
    (HEARTS, 200),
    (HEARTS + " C10", 400),
    (HEARTS + " SQ", 100),
    (HEARTS + " DJ", 300),
    (HEARTS + " DJ C10", 600),
    (HEARTS + " SQ DJ C10", 400),
    ("SQ HA HK H5", -200),
    ("H5 H6", -20),
]
