/** Made by `python -m web.tools.tables` from `dibs.rules.event_kinds`. */

/** The outcomes of runs whose claim lapsed. */
export const LAPSED = ["expired", "owner_died"];

/** The colour of each kind of event. */
export const TONES: Record<string, string> = {
  added: "green",
  claimable: "dim",
  offered: "blue",
  offer_lapsed: "amber",
  unblocked: "green",
  blocked: "amber",
  due: "green",
  claimed: "blue",
  released: "amber",
  handed: "blue",
  forgotten: "amber",
  force_released: "violet",
  expired: "amber",
  owner_died: "red",
  done: "green",
  failed: "red",
  submitted: "violet",
  approved: "green",
  sent_back: "amber",
  rejected: "red",
  parked: "amber",
  unparked: "green",
  retried: "green",
  reopened: "green",
  cancelled: "violet",
  restored: "violet",
  found: "violet",
};

/** How a run ended. */
export const MARKS: Record<string, [sign: string, tone: string, word: string]> = {
  released: ["↺", "dim", "released"],
  handed: ["→", "blue", "handed over"],
  forgotten: ["↺", "dim", "released"],
  force_released: ["⇤", "violet", "force-released"],
  expired: ["!", "amber", "lost"],
  owner_died: ["!", "amber", "lost"],
  done: ["✓", "green", "done"],
  failed: ["✕", "red", "failed"],
  submitted: ["»", "violet", "submitted"],
  rejected: ["⊗", "red", "rejected"],
  cancelled: ["–", "dim", "cancelled"],
  restored: ["!", "amber", "lost"],
};
