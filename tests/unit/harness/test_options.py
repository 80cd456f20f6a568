"""Typed options: each command's function takes what its parser makes, and each value has the type of its field."""

import argparse
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from upheaval.cli.main import make_parser
from upheaval_chaos.options import Command, option, parse, parse_known


@dataclass(frozen=True)
class Options:
    folder: Path = option(metavar="FOLDER")  # noqa: RUF009 - a field
    numbers: tuple[int, ...] = option("--number", action="append", default=[])
    rate: float | None = option("--rate", is_exclusive=True)
    is_fast: bool = option("--fast", is_exclusive=True)
    name: str = option("--name", default="it")


def parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog="it", exit_on_error=False)


def command_parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, Command]]:
    if (command := parser.get_default("command")) is not None:
        yield parser, command
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from command_parsers(below)


COMMANDS = {below.prog: (below, command) for below, command in command_parsers(make_parser())}


def test_types_and_flags_follow_from_the_annotations() -> None:
    given = parse(parser(), Options, ["here", "--number", "1", "--number", "2", "--rate", "0.5"])
    assert given == Options(Path("here"), (1, 2), 0.5, False, "it")
    with pytest.raises(FrozenInstanceError):
        given.name = "other"  # type: ignore[misc]


def test_what_is_not_given_has_the_default() -> None:
    assert parse(parser(), Options, ["here"]) == Options(Path("here"), (), None, False, "it")


def test_exclusive_options_exclude_each_other() -> None:
    with pytest.raises(argparse.ArgumentError, match="not allowed with argument"):
        parse(parser(), Options, ["here", "--rate", "1", "--fast"])


def test_arguments_of_another_program_are_passed_on() -> None:
    assert parse_known(parser(), Options, ["here", "--other", "1"]) == (
        Options(Path("here"), (), None, False, "it"),
        ["--other", "1"],
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_called_with_its_options(name: str) -> None:
    command = COMMANDS[name][1]
    hints = get_type_hints(command.function)
    assert hints.pop("return") is int
    assert list(hints.values()) == [command.options]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_parser_makes_values_of_the_annotated_types(name: str) -> None:
    below, command = COMMANDS[name]
    of_fields = {field.name: field.type for field in fields(command.options)}
    later = {field.name for field in fields(command.options) if field.metadata.get("fallback") is not None}
    for action in below._actions:
        if action.dest in of_fields:
            allowed = {*get_args(of_fields[action.dest])} or {of_fields[action.dest]}
            made: Any = bool if action.nargs == 0 else action.type or str
            assert (made if isinstance(made, type) else get_type_hints(made)["return"]) in allowed
            if not isinstance(action.default, list) and action.default != argparse.SUPPRESS:
                unset = [type(None)] if action.required or action.dest in later else []
                assert type(action.default) in {*allowed, *unset}


PRINT_FILES = {"upheaval completion", "upheaval export"}
"""What they print is itself a file."""


def options_with_those_above(prog: str) -> set[str]:
    """Of a command, and of the commands whose action it is."""
    parsers = {COMMANDS[prog][0].prog: COMMANDS[prog][0], **{p.prog: p for p in all_parsers(make_parser())}}
    above = [parser for name, parser in parsers.items() if prog == name or prog.startswith(f"{name} ")]
    return {option for parser in above for action in parser._actions for option in action.option_strings}


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from all_parsers(below)


def test_every_command_has_json_but_those_that_print_files() -> None:
    assert {prog for prog in COMMANDS if "--json" not in options_with_those_above(prog)} == PRINT_FILES
