"""`upheaval completion`: a script by which a shell completes commands, options and their choices.

It is made from the parser of the commands, and runs without Python. Where no choice is known, files are completed.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from upheaval.cli.build_commands import CompletionOptions
from upheaval.cli.main import make_parser

_BASH: Final = """\
_upheaval() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} place=upheaval word words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$place $word" in
            {places}) place="$place $word" ;;
        esac
    done
    case "$place $previous" in
{choices}
        *)
            case "$place" in
{words}
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _upheaval upheaval
"""
_ZSH: Final = """\
#compdef upheaval
_upheaval() {{
    local current=${{words[CURRENT]}} previous=${{words[CURRENT-1]}} place=upheaval word choices
    for word in ${{words[2,CURRENT-1]}}; do
        case "$place $word" in
            ({places}) place="$place $word" ;;
        esac
    done
    case "$place $previous" in
{choices}
        (*)
            case "$place" in
{words}
            esac ;;
    esac
    [[ -n $choices ]] && compadd -- ${{=choices}}
    [[ $current == -* ]] || _files
}}
compdef _upheaval upheaval
"""
_FISH: Final = """\
function __upheaval_place
    set -l place upheaval
    for word in (commandline -opc)[2..]
        if contains -- "$place $word" {places}
            set place "$place $word"
        end
    end
    test "$place" = "$argv"
end
{lines}
"""


@dataclass(frozen=True)
class Place:
    """A command, or a word before it such as `client`: what can follow, with its help, and the choices of options."""

    words: str
    commands: dict[str, str]
    options: dict[str, str]
    choices: dict[str, tuple[str, ...]]


def completion(options: CompletionOptions) -> int:
    """Print the script; returns the exit status."""
    places = list(_places(make_parser(), "upheaval"))
    print({"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[options.shell](places), end="")
    return 0


def bash_script(places: list[Place]) -> str:
    """To be sourced, or a file in bash-completion's folder."""
    return _BASH.format(
        places="|".join(f'"{place.words}"' for place in places[1:]),
        choices="\n".join(f'        {cases}) words="{words}" ;;' for cases, words in _choices(places)),
        words="\n".join(f'                "{place.words}") words="{_following(place)}" ;;' for place in places),
    )


def zsh_script(places: list[Place]) -> str:
    """To be sourced after `compinit`, or the file `_upheaval` in a folder of `fpath`."""
    return _ZSH.format(
        places="|".join(f'"{place.words}"' for place in places[1:]),
        choices="\n".join(f'        ({cases}) choices="{words}" ;;' for cases, words in _choices(places)),
        words="\n".join(f'                ("{place.words}") choices="{_following(place)}" ;;' for place in places),
    )


def fish_script(places: list[Place]) -> str:
    """To be sourced, or a file in fish's folder of completions."""
    lines = []
    for place in places:
        here = f"complete -c upheaval -n '__upheaval_place {place.words}'"
        lines += [f"{here} -f -a {command} -d {_quoted(text)}" for command, text in place.commands.items()]
        for name, text in place.options.items():
            known = place.choices.get(name)
            values = "" if known is None else f" -x -a {_quoted(' '.join(known))}"
            flag = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            lines.append(f"{here} {flag}{values} -d {_quoted(text)}")
    return _FISH.format(places=" ".join(_quoted(place.words) for place in places[1:]), lines="\n".join(lines))


def _places(parser: argparse.ArgumentParser, words: str) -> Iterator[Place]:
    # argparse has no public way to ask a parser what it accepts.
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS or _is_command(action)]
    below = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    parsers = {name: parser for action in below for name, parser in action.choices.items()}
    options = {name: action for action in actions for name in action.option_strings}
    yield Place(
        words,
        commands={name: below.description or "" for name, below in parsers.items()}
        or {str(choice): "" for action in actions if not action.option_strings for choice in action.choices or ()},
        options={name: action.help or "" for name, action in options.items()},
        choices={name: tuple(map(str, action.choices)) for name, action in options.items() if action.choices},
    )
    for name, parser_below in parsers.items():
        yield from _places(parser_below, f"{words} {name}")


def _is_command(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _choices(places: list[Place]) -> Iterator[tuple[str, str]]:
    for place in places:
        for name, choices in place.choices.items():
            yield f'"{place.words} {name}"', " ".join(choices)


def _following(place: Place) -> str:
    return " ".join([*place.commands, *place.options])


def _quoted(text: str) -> str:
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'") + "'"
