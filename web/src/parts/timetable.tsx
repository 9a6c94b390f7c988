/** The timeline as a table: runs, and claims that were refused, the latest first. */
import type { Refused, Span } from "../state/window";
import { seats } from "../state/board";
import { ago, moment, number, words } from "../state/text";
import { Text } from "./bits";
import { ItemLink, SessionText } from "./words";

const ROWS_MAX = 300;
const COLUMNS = ["began", "took", "item", "session", "agent", "outcome"];

interface Row {
  start: number;
  took: string;
  item: string;
  session: string;
  agent: string;
  outcome: string;
}

const rowOf = (run: Span, at: number): Row => ({
  ...run,
  took: ago(((run.end ?? at) - run.start) / 1000),
  outcome: words(run.outcome ?? "going on"),
});

const refusalOf = ({ at, item, session, code }: Refused): Row => ({
  ...{ start: at, took: "–", item, session, agent: seats.get(session)?.agent ?? "", outcome: `refused: ${code}` },
});

export function Table({ runs, refused, at }: { runs: Span[]; refused: Refused[]; at: number }) {
  const rows = [...runs.map((run) => rowOf(run, at)), ...refused.map(refusalOf)].sort((a, b) => b.start - a.start);
  return (
    <>
      <table class="runs">
        <thead>
          <tr>
            {COLUMNS.map((name) => (
              <th key={name}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, ROWS_MAX).map((row) => (
            <tr key={`${row.start} ${row.item} ${row.session}`}>
              <td>{moment(row.start, at)}</td>
              <td>{row.took}</td>
              <td>
                <ItemLink id={row.item} />
              </td>
              <td>
                <SessionText id={row.session} />
              </td>
              <td>
                <Text>{row.agent}</Text>
              </td>
              <td>{row.outcome}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > ROWS_MAX && <p class="dim">{number(rows.length - ROWS_MAX)} earlier ones are not listed; choose a shorter span.</p>}
    </>
  );
}
