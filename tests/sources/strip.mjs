// Takes the types off TypeScript, which node does not do by itself before version 22: x.ts becomes x.js beside it.
import { readFileSync, writeFileSync } from 'node:fs'
import amaro from 'amaro'

for (const path of process.argv.slice(2)) {
  const { code } = amaro.transformSync(readFileSync(path, 'utf8'), { mode: 'strip-only' })
  writeFileSync(path.replace(/\.ts$/, '.js'), code)
}
