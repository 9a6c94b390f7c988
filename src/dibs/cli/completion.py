"""Completions for bash, zsh and fish, written from the table of commands: `eval "$(dibs completion bash)"`.

They are static text: completing a word starts no dibs.
"""

from __future__ import annotations

from dibs.cli.commands import COMMANDS, FAMILIES, GLOBAL_OPTIONS
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError, build

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("dibs", "calldibs")


def completion_options(parser: Parser) -> None:
    parser.word("shell", ", ".join(SHELLS))


def completion(cli: Cli) -> None:
    if cli.args.shell not in SHELLS:
        raise UsageError(f"there are completions for {', '.join(SHELLS)}, not for {cli.args.shell!r}", field="shell")
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[cli.args.shell]()
    return cli.answer({"completion": text}) if cli.json else cli.say(*text.splitlines())


def options() -> dict[str, dict[str, str]]:
    """Every command's options with their help, by command."""
    parsers = {name: build(name, command)[0] for name, command in COMMANDS.items()}
    return {name: {flag: one.help for flag, one in parser.options.items()} for name, parser in parsers.items()}


def first_words() -> dict[str, str]:
    """What may follow `dibs`, each with a line about it."""
    words = {name: command.summary for name, command in COMMANDS.items() if " " not in name}
    for family in sorted(FAMILIES):
        words[family] = " or ".join(name for name in COMMANDS if name.split()[0] == family)
    return words


def second_words(family: str) -> dict[str, str]:
    return {name.split()[1]: COMMANDS[name].summary for name in COMMANDS if name.startswith(family + " ")}


def _bash() -> str:
    families = "|".join(sorted(FAMILIES))
    values = "|".join(name for name, takes_value in GLOBAL_OPTIONS.items() if takes_value)
    cases = [f"        {_case('')}) words={_quoted([*first_words(), *GLOBAL_OPTIONS, '--help', '--version'])} ;;"]
    cases += [f"        {family}) words={_quoted(second_words(family))} ;;" for family in sorted(FAMILIES)]
    cases += [f"        {_case(name)}) words={_quoted(flags)} ;;" for name, flags in options().items()]
    cases.insert(1, f"        completion) words={_quoted([*SHELLS, *options()['completion']])} ;;")
    return "\n".join(
        [
            "_dibs() {",
            '    local current=${COMP_WORDS[COMP_CWORD]} command="" words="" i',
            "    for ((i = 1; i < COMP_CWORD; i++)); do",
            "        case ${COMP_WORDS[i]} in",
            f"            {values}) ((i++)) ;;",
            "            -*) ;;",
            f"            {families}) [[ -n $command ]] && break; command=${{COMP_WORDS[i]}} ;;",
            '            *) command="${command:+$command }${COMP_WORDS[i]}"; break ;;',
            "        esac",
            "    done",
            "    case $command in",
            *cases,
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            f"complete -o default -F _dibs {' '.join(PROGRAMS)}",
        ]
    )


def _zsh() -> str:
    global_options = dict.fromkeys(GLOBAL_OPTIONS, "before any command")
    lines = [
        f"#compdef {' '.join(PROGRAMS)}",
        "_dibs() {",
        '    local command="" i',
        "    local -a found",
        "    for ((i = 2; i < CURRENT; i++)); do",
        "        case ${words[i]} in",
        f"            {'|'.join(name for name, value in GLOBAL_OPTIONS.items() if value)}) ((i++)) ;;",
        "            -*) ;;",
        f"            {'|'.join(sorted(FAMILIES))}) [[ -n $command ]] && break; command=${{words[i]}} ;;",
        '            *) command="${command:+$command }${words[i]}"; break ;;',
        "        esac",
        "    done",
        "    case $command in",
        f"        {_case('')}) found=({_described(first_words() | global_options)}) ;;",
    ]
    lines += [f"        {family}) found=({_described(second_words(family))}) ;;" for family in sorted(FAMILIES)]
    for name, flags in options().items():
        words = dict.fromkeys(SHELLS, "a shell") | flags if name == "completion" else flags
        lines.append(f"        {_case(name)}) found=({_described(words)}) ;;")
    lines += [
        "    esac",
        "    _describe -t dibs dibs found || _files",
        "}",
        'if [[ $funcstack[1] == _dibs ]]; then _dibs "$@"; else compdef _dibs ' + " ".join(PROGRAMS) + "; fi",
    ]
    return "\n".join(lines)


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


def _quoted(words: object) -> str:
    assert isinstance(words, dict | list)
    return f'"{" ".join(words)}"'


def _described(words: dict[str, str]) -> str:
    return " ".join(_single(f"{word}:{about}") for word, about in words.items())


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
