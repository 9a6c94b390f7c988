// An agent that asks for so many items, one after the other, and prints what it is given.
import { claimNextItem } from './workItems.js'

for (let asked = 0; asked < Number(process.argv[2]); asked++) console.log(JSON.stringify(await claimNextItem('bug')))
