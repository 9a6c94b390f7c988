// A dashboard of the session-task design: it listens with EventSource.onmessage, and prints the messages.
import { EventSource } from 'eventsource'

const [url, key] = process.argv.slice(2)
const withKey = (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${key}` } })

const events = new EventSource(`${url}/api/events?messages=true`, { fetch: withKey })
events.onopen = () => console.log('listening')
events.onmessage = (message) => {
  const { type, data } = JSON.parse(message.data)
  console.log(JSON.stringify({ type, data }))
}
