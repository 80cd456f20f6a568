"""Command options as typed values: the parser accepts the fields of a frozen dataclass, and the command reads them.

No other module reads a parser's namespace. This module imports the standard library only, and commands are imported
when they are called, so that `--help` and a wrong option answer at once.
"""

import argparse
import importlib
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_NAMES: Final = "names"
_KEYWORDS: Final = "keywords"
_FORMER: Final = "former"
_FALLBACK: Final = "fallback"
_EXCLUSIVE: Final = "exclusive"

Options = TypeVar("Options", bound="DataclassInstance")


def option(
    *names: str,
    is_exclusive: bool = False,
    former: Sequence[str] = (),
    fallback: Callable[[], object] | None = None,
    **keywords: Any,
) -> Any:
    """A field set by the command line: a positional argument, unless it has `names` such as `--dir`.

    `former` names are accepted but not shown. `fallback` returns the value of a missing option. `keywords` are passed
    to `add_argument`. Destination, type and action follow from the field's name and annotation: `bool` is a flag, a
    tuple collects. Only one of a command's exclusive options may be given.
    """
    metadata = {_NAMES: names, _KEYWORDS: keywords, _FORMER: former, _FALLBACK: fallback, _EXCLUSIVE: is_exclusive}
    return field(metadata=metadata)


def add_options(parser: argparse.ArgumentParser, options: type[Options], **given: Any) -> None:
    """Make the parser accept the options.

    `given` has keywords that replace an option's own, and the values of fields that are no options. A field that is
    itself a dataclass has the options of the parser above.
    """
    exclusive = None
    for option in fields(options):
        if _NAMES not in option.metadata:
            if option.name in given:
                parser.set_defaults(**{option.name: given[option.name]})
            continue
        keywords = _deduced(option) | option.metadata[_KEYWORDS] | given.get(option.name, {})
        target: Any = parser
        if option.metadata[_EXCLUSIVE]:
            target = exclusive = exclusive or parser.add_mutually_exclusive_group()
        if option.metadata[_NAMES]:
            target.add_argument(*option.metadata[_NAMES], dest=option.name, **keywords)
            if option.metadata[_FORMER]:
                unseen = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
                target.add_argument(*option.metadata[_FORMER], dest=option.name, **keywords | unseen)
        else:
            target.add_argument(option.name, **keywords)


def _deduced(option: Field[Any]) -> dict[str, Any]:
    """The keywords that follow from the annotation: int, float and Path convert the text."""
    kinds = [kind for kind in get_args(option.type) if kind not in (NoneType, Ellipsis, EllipsisType)] or [option.type]
    if kinds == [bool]:
        return {"action": "store_true"}
    return {} if kinds == [str] else {"type": kinds[0]}


def parse(parser: argparse.ArgumentParser, options: type[Options], arguments: Sequence[str] | None) -> Options:
    """Parse the options of a program without commands."""
    add_options(parser, options)
    return _made(options, parser.parse_args(arguments))


def parse_known(
    parser: argparse.ArgumentParser, options: type[Options], arguments: Sequence[str] | None
) -> tuple[Options, list[str]]:
    """Parse the program's own options. Returns them and the arguments to pass on."""
    add_options(parser, options)
    namespace, others = parser.parse_known_args(arguments)
    return _made(options, namespace), others


@dataclass(frozen=True)
class Command:
    """A command: `package.module:function` names a function that takes the options and returns the exit status. Its
    package may depend on this one.
    """

    options: type["DataclassInstance"]
    target: str
    ends_with_reader: bool = False
    """Whether it only prints."""

    @property
    def function(self) -> Callable[[Any], int]:
        """The function; imports its module."""
        module, _, name = self.target.partition(":")
        function: Callable[[Any], int] = getattr(importlib.import_module(module), name)
        return function


def add_command(parser: argparse.ArgumentParser, command: Command, **given: Any) -> None:
    """Make the parser accept a command's options, so that `parse_command` returns the command. `given`: see
    `add_options`.
    """
    add_options(parser, command.options, **given)
    parser.set_defaults(command=command)


def parse_command(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, shared: type[Options]
) -> tuple[Command, Any, Options]:
    """The requested command, the options for its function, and the options that all commands share."""
    namespace = parser.parse_args(arguments)
    command: Command = namespace.command
    return command, _made(command.options, namespace), _made(shared, namespace)


def add_shared_options(parser: argparse.ArgumentParser, shared: type["DataclassInstance"]) -> None:
    """Make a command's parser accept options of its program, too. Missing ones keep the program's values."""
    unset = {"default": argparse.SUPPRESS}
    add_options(parser, shared, **{option.name: unset for option in fields(shared)})


def _made(options: type[Options], namespace: argparse.Namespace) -> Options:
    return options(**{option.name: _value(option, namespace) for option in fields(options)})


def _value(option: Field[Any], namespace: argparse.Namespace) -> Any:
    if isinstance(option.type, type) and is_dataclass(option.type):
        return _made(option.type, namespace)
    value = getattr(namespace, option.name)
    fallback = option.metadata.get(_FALLBACK)
    if value is None and fallback is not None:
        return fallback()
    return tuple(value) if isinstance(value, list) else value
