# Of the agent claiming protocol. Changed: nothing.
# Usage: bead_claim <bead_id> [session_id] [--soft]
# --soft: skip atomic bd update --claim, write advisory state only
#         (used by sprint_claim which has its own intercore lock)
bead_claim() {
    local bead_id="${1:?bead_id required}"
    local session_id="${2:-${CLAUDE_SESSION_ID:-unknown}}"
    local soft=false
    [[ "${3:-}" == "--soft" ]] && soft=true
    command -v bd &>/dev/null || return 0

    if [[ "$soft" == true ]]; then
        # Sprint context: intercore lock is authoritative, just write audit trail
        bd set-state "$bead_id" "claimed_by=$session_id" >/dev/null 2>&1 || true
        bd set-state "$bead_id" "claimed_at=$(date +%s)" >/dev/null 2>&1 || true
        return 0
    fi

    # Direct claim: use atomic bd update --claim with retry
    local output retries=2 delay=1
    for (( i=0; i<retries; i++ )); do
        if output=$(bd update "$bead_id" --claim 2>&1); then
            # Atomic claim succeeded — write legacy state for discovery
            bd set-state "$bead_id" "claimed_by=$session_id" >/dev/null 2>&1 \
                || echo "WARN: bead_claim: failed to write claimed_by for $bead_id" >&2
            bd set-state "$bead_id" "claimed_at=$(date +%s)" >/dev/null 2>&1 \
                || echo "WARN: bead_claim: failed to write claimed_at for $bead_id" >&2
            return 0
        fi
        # Check if actual claim conflict (not lock contention)
        if echo "$output" | grep -qi "already claimed"; then
            echo "Bead $bead_id already claimed by another agent" >&2
            return 1
        fi
        # Lock contention — retry (do NOT fall back to soft claim)
        if (( i < retries-1 )); then
            sleep "$delay"
            delay=$(( delay * 2 ))
        fi
    done

    echo "Bead $bead_id: could not acquire claim after $retries attempts (lock contention)" >&2
    return 1
}

# Usage: bead_release <bead_id> [--keep-status]
# --keep-status: clear assignee/claim but don't reset to open (for sprint context)
bead_release() {
    local bead_id="${1:?bead_id required}"
    local keep_status=false
    [[ "${2:-}" == "--keep-status" ]] && keep_status=true
    command -v bd &>/dev/null || return 0

    # Only release if we own the claim (or claim is empty/stale)
    local current_claimer
    current_claimer=$(bd state "$bead_id" claimed_by 2>/dev/null) || current_claimer=""
    local our_session="${CLAUDE_SESSION_ID:-unknown}"
    if [[ -n "$current_claimer" \
          && "$current_claimer" != "(no claimed_by state set)" \
          && "$current_claimer" != "$our_session" ]]; then
        return 0  # Another session holds this — don't release
    fi

    if [[ "$keep_status" == false ]]; then
        bd update "$bead_id" --assignee="" --status=open >/dev/null 2>&1 || true
    else
        bd update "$bead_id" --assignee="" >/dev/null 2>&1 || true
    fi
    bd set-state "$bead_id" "claimed_by=" >/dev/null 2>&1 || true
    bd set-state "$bead_id" "claimed_at=" >/dev/null 2>&1 || true
}
