"""Errors of atc: an id of the vendor's, and one sentence."""

from __future__ import annotations

TITLES = {
    "E10001": "Invalid_Argument", "E10002": "Invalid_Argument", "E10003": "Invalid_Argument",
    "E10004": "Invalid_Argument", "E10007": "Missing_Argument", "E10054": "Missing_Argument",
    "E13001": "File_Operation_Error", "E10501": "Unsupported_Operator",
}


class AtcError(Exception):
    """Why a model cannot be compiled.

    Args:
        id: Such as `E10001`.
        text: One sentence.
        solution: What to do, or "".
    """

    def __init__(self, id: str, text: str, solution: str = "") -> None:
        super().__init__(text)
        self.id = id
        self.text = text
        self.solution = solution
