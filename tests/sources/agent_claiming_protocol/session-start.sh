# Of the agent claiming protocol. Changed: nothing.
# Set BD_ACTOR to distinguishable identity for beads audit trail.
# Use session ID prefix (8 chars) — unique per concurrent session.
# Only set on startup, not compact/resume (session_id may change).
if [[ "$_hook_source" == "startup" && -n "$_session_id" ]]; then
    _bd_actor="${_session_id:0:8}"
    echo "export BD_ACTOR='${_bd_actor}'" >> "$CLAUDE_ENV_FILE"
fi
