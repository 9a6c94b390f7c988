// A client of the session-task design: it fetches what it reads, a line of JSON for each request, and prints the answers.
import { createInterface } from 'node:readline'

const [url, key] = process.argv.slice(2)

for await (const line of createInterface({ input: process.stdin })) {
  const [method, path, body] = JSON.parse(line)
  const headers = { 'Authorization': `Bearer ${key}`, 'Content-Type': 'application/json' }
  const response = await fetch(`${url}${path}`, { method, headers, body: body && JSON.stringify(body) })
  console.log(JSON.stringify([response.status, await response.json()]))
}
