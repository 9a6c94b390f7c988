/** What is read here is no longer what the board has. */
export const Changed = ({ renew }: { renew: () => void }) => (
  <p class="amber" role="alert">
    This has changed since you opened it; a decision about it would be refused. <button onClick={renew}>show it as it is now</button>
  </p>
);
