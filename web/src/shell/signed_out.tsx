/** How to get in. */
import "../core";

export const SignedOut = () => (
  <section class="view out" aria-label="Signed out">
    <h1>You are signed out</h1>
    <p>
      Type <code>dibs open</code>. Or type <code>dibs key link</code> where the server runs and open the link that it
      prints. The link works once; this browser then stays signed in while the page is used.
    </p>
  </section>
);
