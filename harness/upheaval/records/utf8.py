"""Texts with names of files in them, which on Linux are any bytes."""


def storable(text: str) -> str:
    """The text as UTF-8 can have it: a lone surrogate, which is a byte of a name that is not UTF-8, is spelt out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
