// Judges hooks by the engine inside of Cursor's SDK: node cursor_hooks.mjs FOLDER, with {config, answers} on stdin.
// The engine is not exported, so its modules are taken out of the bundle.
import { readdirSync } from "node:fs"
import { createRequire } from "node:module"

const nodes = createRequire(import.meta.url)
const folder = process.argv[2]
const bundled = {}
for (const name of readdirSync(folder))
  if (/^\d+\.js$/.test(name)) Object.assign(bundled, (await import(`${folder}/${name}`)).__webpack_esm_modules__)

const loaded = {}
const load = (id) => {
  if (!(id in bundled)) return nodes(id)
  if (!(id in loaded)) {
    const module = (loaded[id] = { exports: {} })
    bundled[id].call(module.exports, module, module.exports, load)
  }
  return loaded[id].exports
}
load.d = (to, getters) => {
  for (const name in getters) Object.defineProperty(to, name, { enumerable: true, get: getters[name] })
}
load.r = () => {}

const engine = load("../hooks/dist/index.js")
const saying = (text) => Object.values(engine).find((one) => typeof one === "function" && String(one).includes(text))
const judgeConfig = saying("Config version must be a number")
const judgeAnswer = saying("success:!0,data")

let given = ""
for await (const data of process.stdin) given += data
const { config, answers } = JSON.parse(given)
const judged = answers.map(([step, answer]) => judgeAnswer(step, answer))
process.stdout.write(JSON.stringify({ config: judgeConfig(config), answers: judged }))
