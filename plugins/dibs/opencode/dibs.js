// dibs for opencode: runs the hooks' script with payloads in the shape of Claude Code. Written by `dibs setup opencode`,
// which fills in the two paths. Whatever goes wrong here, the tool runs: only an answer of dibs denies one.
import { spawn } from "node:child_process"

const SCRIPT = ""
const DIBS = ""
const MILLISECONDS_MAX = 5000

export const Dibs = async ({ directory }) => {
  const contexts = new Map()

  const hook = (event, session, fields = {}) =>
    new Promise((resolve) => {
      const child = spawn("sh", [SCRIPT, event, "opencode", DIBS], {
        cwd: directory,
        stdio: ["pipe", "pipe", "ignore"],
        timeout: MILLISECONDS_MAX,
      })
      let answer = ""
      child.stdout.on("data", (data) => (answer += data))
      child.stdin.on("error", () => {})
      child.on("error", () => resolve({}))
      child.on("close", () => {
        try {
          resolve(JSON.parse(answer).hookSpecificOutput ?? {})
        } catch {
          resolve({})
        }
      })
      child.stdin.end(JSON.stringify({ session_id: session, cwd: directory, hook_event_name: event, ...fields }))
    })

  const start = async (session) => {
    if (!contexts.has(session)) {
      contexts.set(session, "")
      const answer = await hook("SessionStart", session, { source: "startup" })
      contexts.set(session, answer.additionalContext ?? "")
    }
  }

  return {
    "chat.message": async ({ sessionID }) => {
      await start(sessionID)
      await hook("UserPromptSubmit", sessionID)
    },
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      const context = contexts.get(sessionID)
      if (context) output.system.push(context)
    },
    "shell.env": async ({ sessionID }, output) => {
      if (sessionID) output.env.DIBS_SESSION = sessionID
    },
    "tool.execute.before": async ({ tool, sessionID }, { args }) => {
      const answer = await hook("PreToolUse", sessionID, { tool_name: tool, tool_input: args })
      if (answer.permissionDecision === "deny") throw new Error(answer.permissionDecisionReason)
      if (answer.updatedInput) Object.assign(args, answer.updatedInput)
    },
    "tool.execute.after": async ({ tool, sessionID }) => {
      await hook("PostToolUse", sessionID, { tool_name: tool })
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") await hook("Stop", event.properties.sessionID)
      if (event.type === "session.deleted") await hook("SessionEnd", event.properties.info.id, { reason: "deleted" })
    },
  }
}
