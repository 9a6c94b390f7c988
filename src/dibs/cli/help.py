"""Help about the commands as a whole: the overview, and shell completions.

Completions (`eval "$(dibs completion bash)"`) are static text: completing a word does not start dibs.
"""

from __future__ import annotations

import sys

from dibs import __version__
from dibs.cli.commands import COMMANDS, FAMILIES, GLOBAL_OPTIONS, GROUPS
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError, build

ABOUT = """\
dibs: a work board for fleets of agents; no two of them work on the same item.

usage: dibs COMMAND [options]; without a command: what you hold and what is next
"""
AFTER = """
Every command accepts --store URL, --json, --brief and --no-color, before or
after its name. For the options of a command, and examples: dibs COMMAND --help

Commands that claim act as a session: --session ID, else DIBS_SESSION, else that
of the coding agent or the terminal that runs them. Without any state in the
environment: dibs next --session ID --agent NAME, and the same with every command

Exit codes: 0 done, 1 error, 2 usage or no session, 3 nothing to claim,
4 taken or lost, 5 not found, 6 not allowed, 75 try again later
"""
SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("dibs", "calldibs")
#: The options before a command that take a value, and the first words of two-word commands, as shell patterns.
VALUE_OPTIONS = "|".join(name for name, takes_value in GLOBAL_OPTIONS.items() if takes_value)
FAMILY_WORDS = "|".join(sorted(FAMILIES))


def without_command(name: str | None, rest: list[str]) -> int:
    """Print the help or the version that was asked for; otherwise refuse, and say what to type."""
    if name in (None, "help") and ("--version" in rest or "-V" in rest):
        sys.stdout.write(f"dibs {__version__}\n")
        return 0
    if name == "help" and rest:
        from dibs.cli.main import main

        return main([*rest, "--help"])
    if name == "help" or (name in (None, *FAMILIES) and ("--help" in rest or "-h" in rest)):
        sys.stdout.write(overview(name if name in FAMILIES else None))
        return 0
    if name is None and not [word for word in rest if not word.startswith("-")]:
        return refuse_without_command()
    from dibs.cli import words

    raise UsageError(words.hint(name or rest[0], rest), field="command")


def refuse_without_command() -> int:
    sys.stderr.write(overview())
    return UsageError.exit_code


def overview(family: str | None = None) -> str:
    """Every command with its summary, by group; or only the commands of a family like `session`."""
    lines = [ABOUT]
    for group, title in GROUPS.items():
        names = [name for name in COMMANDS if COMMANDS[name].group == group]
        if family:
            names = [name for name in names if name.split()[0] == family]
        if names:
            lines.append(f"\n{title}:\n")
            lines += [f"  {name:<15}{COMMANDS[name].summary}\n" for name in names]
    return "".join([*lines, AFTER])


def completion_options(parser: Parser) -> None:
    parser.argument("shell", ", ".join(SHELLS))


def completion(cli: Cli) -> None:
    if cli.args.shell not in SHELLS:
        raise UsageError(f"no completions for {cli.args.shell!r}; choose {', '.join(SHELLS)}", field="shell")
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[cli.args.shell]()
    return cli.reply({"completion": text}, *text.splitlines())


def options() -> dict[str, dict[str, str]]:
    """Every command's options and their help, by command."""
    parsers = {name: build(name, command)[0] for name, command in COMMANDS.items()}
    return {name: {flag: one.help for flag, one in parser.options.items()} for name, parser in parsers.items()}


def first_words() -> dict[str, str]:
    """The words that may follow `dibs`, each with a description."""
    words = {name: command.summary for name, command in COMMANDS.items() if " " not in name}
    from dibs.cli.words import family_commands

    return words | {family: family_commands(family) for family in sorted(FAMILIES)}


def second_words(family: str) -> dict[str, str]:
    return {name.split()[1]: COMMANDS[name].summary for name in COMMANDS if name.startswith(family + " ")}


def _bash() -> str:
    cases = [f"        {_case('')}) words={_quoted([*first_words(), *GLOBAL_OPTIONS, '--help', '--version'])} ;;"]
    cases += [f"        {family}) words={_quoted(list(second_words(family)))} ;;" for family in sorted(FAMILIES)]
    for name, flags in options().items():
        words = [*SHELLS, *flags] if name == "completion" else list(flags)
        cases.append(f"        {_case(name)}) words={_quoted(words)} ;;")
    return "\n".join(
        [
            "_dibs() {",
            '    local current=${COMP_WORDS[COMP_CWORD]} command="" words="" i',
            *_find_command("COMP_WORDS", "i = 1; i < COMP_CWORD"),
            *cases,
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            f"complete -o default -F _dibs {' '.join(PROGRAMS)}",
        ]
    )


def _zsh() -> str:
    global_options = dict.fromkeys(GLOBAL_OPTIONS, "before any command")
    cases = [f"        {_case('')}) found=({_described(first_words() | global_options)}) ;;"]
    cases += [f"        {family}) found=({_described(second_words(family))}) ;;" for family in sorted(FAMILIES)]
    for name, flags in options().items():
        words = dict.fromkeys(SHELLS, "a shell") | flags if name == "completion" else flags
        cases.append(f"        {_case(name)}) found=({_described(words)}) ;;")
    return "\n".join(
        [
            f"#compdef {' '.join(PROGRAMS)}",
            "_dibs() {",
            '    local command="" i',
            "    local -a found",
            *_find_command("words", "i = 2; i < CURRENT"),
            *cases,
            "    esac",
            "    _describe -t dibs dibs found || _files",
            "}",
            'if [[ $funcstack[1] == _dibs ]]; then _dibs "$@"; else compdef _dibs ' + " ".join(PROGRAMS) + "; fi",
        ]
    )


def _find_command(words: str, loop: str) -> list[str]:
    """Shell code, for bash and zsh, that finds the command among the words and opens a `case` on it."""
    return [
        f"    for (({loop}; i++)); do",
        f"        case ${{{words}[i]}} in",
        f"            {VALUE_OPTIONS}) ((i++)) ;;",
        "            -*) ;;",
        f"            {FAMILY_WORDS}) [[ -n $command ]] && break; command=${{{words}[i]}} ;;",
        f'            *) command="${{command:+$command }}${{{words}[i]}}"; break ;;',
        "        esac",
        "    done",
        "    case $command in",
    ]


def _fish() -> str:
    lines = ["complete -c calldibs -w dibs"]
    for word, about in first_words().items():
        lines.append(f"complete -c dibs -f -n __fish_use_subcommand -a {word} -d {_single(about)}")
    for family in sorted(FAMILIES):
        seconds = second_words(family)
        here = f"__fish_seen_subcommand_from {family}; and not __fish_seen_subcommand_from {' '.join(seconds)}"
        for word, about in seconds.items():
            lines.append(f"complete -c dibs -f -n '{here}' -a {word} -d {_single(about)}")
    for name, flags in options().items():
        here = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        for flag, about in flags.items():
            spelled = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"complete -c dibs -n '{here}' {spelled} -d {_single(about)}")
    shells = "__fish_seen_subcommand_from completion"
    return "\n".join([*lines, f"complete -c dibs -f -n '{shells}' -a '{' '.join(SHELLS)}'"])


def _case(name: str) -> str:
    return f"'{name}'" if " " in name or not name else name


def _quoted(words: list[str]) -> str:
    return f'"{" ".join(words)}"'


def _described(words: dict[str, str]) -> str:
    return " ".join(_single(f"{word}:{about}") for word, about in words.items())


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
