/** Every run of an item: how it ended, what it cost, and where its work is. */
import type { Detail, Run } from "../api";
import { now } from "../state/clock";
import { ago } from "../state/text";
import { Text } from "./bits";
import { SessionName } from "./words";

export function Runs({ detail }: { detail: Detail }) {
  if (!detail.runs.length) return null;
  const length = (run: Run) => (run.ended_at ?? now.value) - run.started_at;
  const longest = Math.max(1, ...detail.runs.map(length));
  return (
    <section>
      <h2>Runs</h2>
      <table class="runs">
        <thead>
          <tr>
            <th>token</th>
            <th>took</th>
            <th>outcome</th>
            <th>session</th>
            <th>reason, links, cost</th>
          </tr>
        </thead>
        <tbody>
          {detail.runs.map((run) => (
            <tr key={run.token}>
              <td>{run.token}</td>
              <td>
                <span class="took" aria-hidden="true" style={{ width: `${Math.max(2, (60 * length(run)) / longest)}px` }} />{" "}
                {ago(length(run) / 1000)}
              </td>
              <td>{run.outcome ? run.outcome.replaceAll("_", " ") : "going on"}</td>
              <td>
                <SessionName id={run.session} />
              </td>
              <td>
                <Text>{run.reason ?? ""}</Text>{" "}
                {Object.entries(run.links).map(([name, target]) => (
                  <Target key={name} name={name} target={target} />
                ))}{" "}
                {Object.entries(run.checks).map(([name, check]) => (
                  <Check key={name} name={name} check={check} />
                ))}{" "}
                {Object.entries(run.cost).map(([unit, amount]) => (
                  <span key={unit}>
                    <Text>
                      {plain(amount)} {unit}
                    </Text>{" "}
                  </span>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A value that somebody wrote as JSON. */
const plain = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** Only web addresses become links: anything else that is written there could run in this page. */
export const Target = ({ name, target }: { name: string; target: unknown }) =>
  typeof target === "string" && /^https?:\/\//.test(target) ? (
    <a class="blue" href={target} rel="noreferrer noopener" target="_blank">
      <Text>{name}</Text>{" "}
    </a>
  ) : (
    <span>
      <Text>
        {name === target ? name : `${name} ${plain(target)}`}
      </Text>{" "}
    </span>
  );

/** A check of a run's work: its name and its state, as a link to where it was made. */
const Check = ({ name, check }: { name: string; check: unknown }) => {
  const { state, url } = check as { state: string; url?: string };
  return <Target name={`${name}: ${state}`} target={url ?? ""} />;
};
