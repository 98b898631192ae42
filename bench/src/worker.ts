import { CREATED } from './business.js'
import { loadContender } from './contenders/registry.js'
import type { Contender, Opened } from './contender.js'
import { openHttpClient } from './run/http-client.js'
import { runLoad, sendEach } from './run/load.js'
import { type Handlers, serve } from './run/serve.js'
import type { OpenedHandle, WorkerCommands } from './run/worker-commands.js'

/** A separate process for one contender, so that its CPU time can be measured, or for the sender of HTTP requests. */
const [name = ''] = process.argv.slice(2)
let contender: Contender | undefined
const opened = new Map<number, Opened>()
let lastHandle = 0
let begun: Promise<number>[] = []

async function ownContender(): Promise<Contender> {
  contender ??= await loadContender(name)
  return contender
}

function keep(one: Opened): OpenedHandle {
  const handle = ++lastHandle
  opened.set(handle, one)
  return { handle, url: one.url ?? null, createdStatus: one.createdStatus ?? CREATED }
}

function find(handle: number): Opened {
  const one = opened.get(handle)
  if (one === undefined) throw new TypeError(`nothing was opened as ${handle}`)
  return one
}

const handlers: Handlers<WorkerCommands> = {
  async prepare({ databaseUrl }) {
    const own = await ownContender()
    await own.prepare(databaseUrl)
    return own.title
  },
  async open(options) {
    return keep(await (await ownContender()).open(options))
  },
  connect: ({ url, createdStatus }) => keep(openHttpClient(url, createdStatus)),
  load: ({ handle, plan }) => runLoad((key) => find(handle).request(key), plan),
  each: ({ handle, plan }) => sendEach((key) => find(handle).request(key), plan),
  begin({ handle, keys }) {
    const one = find(handle)
    begun = keys.map(async (key) => (await one.request(key)).status)
  },
  awaitBegun: () => Promise.all(begun),
  async control({ handle, name: control, argument }) {
    const run = find(handle).controls?.[control]
    if (run === undefined) throw new TypeError(`'${name}' has no control '${control}'`)
    return run(argument)
  },
  async close({ handle }) {
    const one = find(handle)
    opened.delete(handle)
    await one.close()
  },
  cpu() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  },
}

serve(handlers, {
  before: () => opened.forEach((one) => one.pause?.()),
  after: () => opened.forEach((one) => one.resume?.()),
})
