"""The codes of the problems that every kind of file can have, by kind; a code is for ever."""

from typing import NamedTuple

from reconciler.model.names import Kind


class Codes(NamedTuple):
    """What can be wrong with the shape of one kind of file."""

    unknown_key: str
    missing_key: str
    wrong_value: str
    wrong_name: str  # it is no legal name, or not the one that the path gives
    duplicate: str  # two files claim one name


CODES = {
    Kind.INTERFACE: Codes("I101", "I102", "I103", "I104", "I105"),
    Kind.CONNECTOR: Codes("C101", "C102", "C103", "C104", "C105"),
    Kind.BINDING: Codes("B101", "B102", "B103", "B104", "B105"),
    Kind.PROJECT: Codes("P101", "P102", "P103", "P104", "P105"),
    Kind.AGENT: Codes("A101", "A102", "A103", "A104", "A105"),
    Kind.POLICY: Codes("S501", "S502", "S503", "", ""),  # of one file alone: its name is not compared
    Kind.APPROVAL: Codes("S521", "S522", "S523", "", ""),
    Kind.PROFILE: Codes("D101", "D102", "D103", "D104", "D105"),
    Kind.DIALECT: Codes("D111", "D112", "D113", "D114", "D115"),
    Kind.CHAIN: Codes("H101", "", "H103", "H104", "H105"),
    Kind.CONFIG: Codes("S101", "", "S103", "", ""),  # handler.toml has no name, and no key that must be there
}

BOTH_OR_NEITHER = "B106"  # a binding names exactly one of connector and addon
REFERENCE_FORM = "B107"  # a reference to a secret has exactly one form
TOO_MANY = "S199"  # more problems in one file than a person reads at once
LEAK = "S223"  # a secret stands in the text; its line is never shown
