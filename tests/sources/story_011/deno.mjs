// What stands for Deno under node: its environment, and the server that a function of Supabase is.
import { createServer } from 'node:http'

globalThis.Deno = { env: { get: (name) => process.env[name] } }

export function serve(handler) {
  const server = createServer(async (asked, answer) => {
    const chunks = []
    for await (const chunk of asked) chunks.push(chunk)
    const { method, headers } = asked
    const response = await handler(
      new Request(`http://${headers.host}${asked.url}`, { method, headers, body: Buffer.concat(chunks) })
    )
    answer.writeHead(response.status, Object.fromEntries(response.headers))
    answer.end(await response.text())
  })
  server.listen(0, '127.0.0.1', () => console.log(server.address().port))
}
