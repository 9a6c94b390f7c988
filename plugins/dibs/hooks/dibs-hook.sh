#!/bin/sh
# The first part of every hook: dibs-hook.sh EVENT [CLIENT [DIBS]], with the client's payload on stdin.
#
# Most tool calls need nothing but a look at the session's state folder, which this script does in a few milliseconds.
# Everything else is left to `dibs hook EVENT`. Whatever goes wrong, the exit code is 0 and the tool runs, unless the
# state folder has a loss of the session: then a tool that dibs did not decide about in time is denied here.
#
# No special built-in (`:`, `.`, `exec`) is redirected here: if that fails, a POSIX shell exits with 2, which denies.

event=$1
client=${2:-}
given=${3:-}
# Whether the event is before a tool, and whether the tool is one that a loss denies.
before=
fenced=
case ${XDG_STATE_HOME:-} in
/*) root=$XDG_STATE_HOME/dibs/agents ;;
*) root=${HOME:-}/.local/state/dibs/agents ;;
esac
payload=$(cat) || exit 0
[ "$event" = Wake ] && [ "${DIBS_WAKE:-}" != on ] && exit 0

# Sets `dibs` to the command that was given, else the one that was installed with this script, else that of the PATH.
find_dibs() {
    for dibs in "$given" "${0%/*}/../../../../../../../../bin/dibs"; do
        case $dibs in
        */*) [ -x "$dibs" ] && return ;;
        esac
    done
    dibs=dibs
    command -v dibs >/dev/null 2>&1
}

# Prints the answer of dibs, which is JSON and comes with exit code 0. Anything else is of another program that is called
# dibs, or of an older one that has no hooks. Only to wake an agent, dibs exits with 2 and says why on stderr.
locale=${LC_ALL-}
ask_dibs() {
    find_dibs || exit 0
    LC_ALL=$locale
    if [ "$event" = Wake ]; then
        printf '%s' "$payload" | "$dibs" hook "$event" >/dev/null
        [ $? -eq 2 ] && exit 2
        exit 0
    fi
    # A client waits for five seconds, and then runs the tool.
    in_time=
    [ -n "$before" ] && command -v timeout >/dev/null 2>&1 && in_time='timeout 4'
    # All of it without stderr: a shell says there which signal ended a program.
    answer=$(
        {
            printf '%s' "$payload" | $in_time "$dibs" hook "$event" ${client:+--client "$client"}
        } 2>/dev/null
    ) || deny_if_lost
    case $answer in
    '{'*) printf '%s\n' "$answer" ;;
    esac
    exit 0
}

# Denies a tool, in the client's own words, if the session is known to have lost a claim, or the one that a subagent
# works for. An item's id has no character that JSON would escape.
deny_if_lost() {
    case $fenced${DIBS_FENCE:-} in
    yes[Oo][Ff][Ff] | yes0 | yes[Nn][Oo]) exit 0 ;;
    yes*) ;;
    *) exit 0 ;;
    esac
    for loss in "$state"/lost-* "$root/$session"/lost-*; do
        [ -s "$loss" ] || continue
        item=${loss##*/lost-}
        case $item in
        *[!A-Za-z0-9._-]*) continue ;;
        esac
        why="dibs: your claim of $item is lost, and the board cannot be asked. Stop working on it. Run: dibs release $item"
        case $client in
        gemini) printf '{"decision": "deny", "reason": "%s"}\n' "$why" ;;
        cursor) printf '{"permission": "deny", "agent_message": "%s", "user_message": "%s"}\n' "$why" "$why" ;;
        copilot) printf '{"permissionDecision": "deny", "permissionDecisionReason": "%s"}\n' "$why" ;;
        *)
            decision='"permissionDecision": "deny", "permissionDecisionReason"'
            printf '{"hookSpecificOutput": {"hookEventName": "%s", %s: "%s"}}\n' "$event" "$decision" "$why"
            ;;
        esac
        exit 0
    done
    exit 0
}

case $event in
PreToolUse | BeforeTool | preToolUse) before=yes ;;
PostToolUse | PostToolUseFailure | AfterTool | postToolUse) before= ;;
*) ask_dibs ;;
esac

# By bytes: patterns match the same everywhere, and bash is quick with a payload of a megabyte.
LC_ALL=C

# Only the part before the tool's own input: the input may contain the same names.
head=${payload%%\"tool_input\"*}
head=${head%%\"toolArgs\"*}

# Sets `value` to the text of a field.
field() {
    value=
    case $head in
    *"\"$1\":"*)
        value=${head#*"\"$1\":"}
        value=${value# }
        value=${value#\"}
        value=${value%%\"*}
        ;;
    esac
}

# Exits unless `value` can be the name of a folder: ids come from outside.
require_name() {
    case $value in
    '' | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*) exit 0 ;;
    esac
}

field session_id
[ -n "$value" ] || field sessionId
[ -n "$value" ] || field conversation_id
require_name
session=$value
state=$root/$session
[ -d "$state" ] || exit 0

# Sets `nameless` if the client's shell does not tell dibs the session: that of a subagent has its parent's id, that of
# Gemini CLI has none.
nameless=
[ "$event" = BeforeTool ] && nameless=yes
field agent_id
if [ -n "$value" ]; then
    require_name
    state=$root/$session-$value
    nameless=yes
    if [ ! -d "$state" ]; then
        state=$root/$value
        nameless=
        [ -d "$state" ] || ask_dibs
    fi
fi
{ true >"$state/active"; } 2>/dev/null

field tool_name
[ -n "$value" ] || field toolName
tool=$value
case $before$tool in
yesTaskUpdate | yescreate_goal | TaskUpdate | TaskList) ask_dibs ;;
esac
[ -n "$before" ] || exit 0

# tests/hooks/test_script.py compares these names with those of `dibs.agents.payload` and `dibs.mcp.tools`.
case $tool in
Edit | Write | MultiEdit | NotebookEdit | apply_patch) fenced=yes && ask_dibs ;;
write_file | replace | edit | write | patch | create | str_replace_editor | Delete | StrReplace) fenced=yes && ask_dibs ;;
Bash | bash | shell | Shell | run_shell_command | exec_command | Monitor | write_stdin) ;;
mcp__plugin_dibs_dibs__* | mcp__dibs__* | mcp_dibs_* | dibs-* | dibs_*)
    name=${tool#mcp__plugin_dibs_dibs__}
    name=${name#mcp__dibs__}
    name=${name#mcp_dibs_}
    name=${name#dibs[-_]}
    case $name in
    next | claim | claim_subject | hand | progress | release | done | fail | submit | show | list | add | who | why | wait) ask_dibs ;;
    esac
    exit 0
    ;;
*) exit 0 ;;
esac

# A single call of dibs needs nobody's approval. Where the shell is nameless, every call needs the session.
input=${payload#"$head"}
for name in dibs calldibs; do
    fenced=
    case $input in
    *"\"command\":\"$name "* | *"\"command\": \"$name "* | *"\"cmd\":\"$name "*)
        call=${input#*"\"$name "}
        case ${call%%\"*} in
        *[\;\&\|\`\$\\]*) fenced=yes ;;
        esac
        ask_dibs
        ;;
    esac
    fenced=yes
    [ -n "$nameless" ] || continue
    case $input in
    *[!A-Za-z0-9._-]"$name"[!A-Za-z0-9._/-]* | *\\[nt]"$name"[!A-Za-z0-9._/-]*) ask_dibs ;;
    esac
done

# A patch names the files that it writes, also in a command.
case $input in
*apply_patch* | *applypatch*) ask_dibs ;;
esac

# Any other command: nothing may be lost, by the session or by the one that a subagent works for, and the state must be
# fresh. No keeper vouches for more than 90 seconds: if there are more, the clock was set back.
for loss in "$state"/lost-* "$root/$session"/lost-*; do
    [ -e "$loss" ] && ask_dibs
done
until=
[ -f "$state/until" ] && { read -r until <"$state/until"; } 2>/dev/null
now=$(date +%s)
[ "$until" -gt "$now" ] 2>/dev/null && [ "$until" -le $((now + 90)) ] && exit 0
ask_dibs
