"""Completions for bash, zsh and fish: `eval "$(dibs completion bash)"`.

Commands and options are part of the script, so that completing one starts no process. The ids of items are asked for:
`dibs completion ids fix --for claim` prints those that begin so and that the command can be about.
"""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.commands import COMMANDS, FAMILIES, GLOBAL_OPTIONS
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError, build
from dibs.cli.words import OWN, family_commands
from dibs.errors import DibsError
from dibs.model import DONE, FAILED, IN_PROGRESS, PARKED, PENDING_APPROVAL, READY

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("dibs", "calldibs")
#: The options before a command that take a value, and the first words of two-word commands, as shell patterns.
VALUE_OPTIONS = "|".join(name for name, takes_value in GLOBAL_OPTIONS.items() if takes_value)
FAMILY_WORDS = "|".join(sorted(FAMILIES))
#: The statuses of the items that a command can be about, where not every item will do.
STATUSES = {
    "claim": (READY, IN_PROGRESS),
    "exec": (READY, IN_PROGRESS),
    "wait": (READY, IN_PROGRESS),
    "approve": (PENDING_APPROVAL,),
    "send-back": (PENDING_APPROVAL,),
    "unpark": (PARKED,),
    "retry": (FAILED,),
    "reopen": (DONE, "cancelled", "rejected"),
    "force-release": (IN_PROGRESS,),
}
#: Options that take the id of an item.
ITEM_OPTIONS = ("--needs", "--add-needs", "--remove-needs", "--item")
#: The most ids that a shell is given, and the most items that are looked at for them.
IDS_MAX, ITEMS_MAX = 100, 1000


def completion_options(parser: Parser) -> None:
    parser.argument("shell", ", ".join(SHELLS) + "; or ids, for the ids of items")
    parser.argument("prefix", "with ids: how they begin", optional=True)
    parser.option("--for", metavar="COMMAND", help="with ids: the command that is typed", default="show")


def completion(cli: Cli) -> None:
    shell = cli.args.shell
    if shell == "ids":
        return cli.print(*_ids(cli, cli.args.prefix or "", getattr(cli.args, "for")))
    if shell not in SHELLS:
        raise UsageError(f"no completions for {shell!r}; choose {', '.join(SHELLS)}", field="shell")
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()
    return cli.reply({"completion": text}, *text.splitlines())


def _ids(cli: Cli, prefix: str, command: str) -> list[str]:
    """The ids that begin so. A shell that completes shows no errors, so there are none."""
    try:
        if command in OWN:
            session = identity.caller(cli).session
            claims = [(line.item.id, line.claim or line.soft) for line in cli.board.who()]
            found = [item for item, claim in claims if claim is not None and claim.session == session]
        elif command in STATUSES:
            found = [item.id for item in cli.board.list(statuses=STATUSES[command], limit=ITEMS_MAX)]
        else:
            found = list(cli.board.ids(prefix, limit=IDS_MAX))
    except DibsError:
        return []
    return [item for item in found if item.startswith(prefix)][:IDS_MAX]


def item_commands() -> list[str]:
    """The commands that name an item first."""
    parsers = {name: build(name, command)[0] for name, command in COMMANDS.items()}
    return [name for name, parser in parsers.items() if [one.attribute for one in parser.arguments][:1] == ["item"]]


def options() -> dict[str, dict[str, str]]:
    """Every command's options and their help, by command."""
    parsers = {name: build(name, command)[0] for name, command in COMMANDS.items()}
    return {name: {flag: one.help for flag, one in parser.options.items()} for name, parser in parsers.items()}


def first_words() -> dict[str, str]:
    """The words that may follow `dibs`, each with a description."""
    words = {name: command.summary for name, command in COMMANDS.items() if " " not in name}
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
            "    local -a store=()",
            *_find_command("COMP_WORDS", "i = 1; i < COMP_CWORD"),
            *cases,
            "    esac",
            *_ask_ids("COMP_WORDS", "COMP_CWORD", "i = 1", "words=$({})"),
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
            '    local current=${words[CURRENT]} command="" i',
            "    local -a found store",
            *_find_command("words", "i = 2; i < CURRENT"),
            *cases,
            "    esac",
            *_ask_ids("words", "CURRENT", "i = 2", 'found=(${{(f)"$({})"}})'),
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


def _ask_ids(words: str, at: str, first: str, put: str) -> list[str]:
    """Shell code, for bash and zsh, that asks dibs for ids where the word can be one."""
    ask = put.format('dibs completion ids "$current" --for "${command:-show}" "${store[@]}" 2>/dev/null')
    return [
        f"    for (({first}; i < {at}; i++)); do",
        f'        [[ ${{{words}[i]}} == --store ]] && store=(--store "${{{words}[i + 1]}}")',
        "    done",
        f"    case ${{{words}[{at} - 1]}} in",
        f"        {'|'.join(ITEM_OPTIONS)}) command=show; {ask} ;;",
        "        *) case $current in",
        "            -*) ;;",
        "            *) case $command in",
        f"                {'|'.join(map(_case, item_commands()))}) {ask} ;;",
        "            esac ;;",
        "        esac ;;",
        "    esac",
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
    for name in item_commands():
        here = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        ask = f'(dibs completion ids (commandline -ct) --for "{name}" 2>/dev/null)'
        lines.append(f"complete -c dibs -f -n '{here}' -a {_single(ask)}")
    for option in ITEM_OPTIONS:
        ask = "(dibs completion ids (commandline -ct) 2>/dev/null)"
        lines.append(f"complete -c dibs -x -l {option[2:]} -a {_single(ask)}")
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
