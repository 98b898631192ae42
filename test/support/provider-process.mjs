// A stand-in for the payments provider: a separate process, whose ledger no database of a test can touch. It deduplicates
// on Idempotency-Key as real ones do, and misbehaves on demand. Accounts keep tests apart.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'

/** @type {{ account: string, key: string | null, id: string, amount: number }[]} effects: what really happened */
const ledger = []
/** @type {{ account: string, key: string | null, body: string }[]} every request that arrived, executed or not */
const requests = []
/** Answers remembered by account and key, as long as this process lives. */
const answers = new Map()
/** Faults to come, by account: one is taken from the front per request. */
const faults = new Map()
/** Requests held back until they are let go, by account. */
const held = new Map()
/** Those who wait for the nth request of an account to arrive. */
const waiters = []

function wake() {
  for (const waiter of waiters) {
    const arrived = requests.filter((request) => request.account === waiter.account).length
    if (arrived >= waiter.count) waiter.arrived()
  }
}

function answerTo(account, key) {
  return key === null ? undefined : answers.get(`${account} ${key}`)
}

function remember(account, key, answer) {
  if (key !== null) answers.set(`${account} ${key}`, answer)
}

function execute(account, key, amount) {
  const known = answerTo(account, key)
  if (known !== undefined) return known
  const id = `ch_${randomUUID()}`
  ledger.push({ account, key, id, amount })
  const answer = { status: 200, body: JSON.stringify({ id, amount }) }
  remember(account, key, answer)
  return answer
}

async function charge(request, response, body) {
  const { account, amount } = JSON.parse(body)
  const key = request.headers['idempotency-key'] ?? null
  requests.push({ account, key, body })
  const fault = faults.get(account)?.shift() ?? null
  wake()
  const known = answerTo(account, key)
  switch (fault) {
    case 'never_arrives':
      return request.socket.destroy()
    case 'executes_then_cuts':
      execute(account, key, amount)
      return request.socket.destroy()
    case 'executes_then_silent':
      execute(account, key, amount)
      return undefined
    case 'silent':
      return undefined
    case 'hold_then_execute':
    case 'execute_then_hold': {
      const early = fault === 'execute_then_hold' ? execute(account, key, amount) : null
      await new Promise((resolve) => held.set(account, [...(held.get(account) ?? []), resolve]))
      return send(response, early ?? execute(account, key, amount))
    }
    case 'refuse_500':
      return send(response, known ?? { status: 500, body: '{"code":"down"}' })
    case 'stored_500': {
      const answer = known ?? { status: 500, body: '{"code":"stored"}' }
      remember(account, key, answer)
      return send(response, answer)
    }
    case 'declined': {
      const answer = known ?? { status: 402, body: '{"code":"card_declined"}' }
      remember(account, key, answer)
      return send(response, answer)
    }
    case 'too_many':
      return send(response, { status: 429, body: '{"code":"rate_limit"}' })
    case 'broken_body':
      return send(response, { status: 200, body: execute(account, key, amount).body.slice(0, 9) })
    default:
      return send(response, execute(account, key, amount))
  }
}

function send(response, { status, body }) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body)
}

async function read(request) {
  let body = ''
  for await (const chunk of request) body += chunk
  return body
}

const server = createServer((request, response) => {
  void (async () => {
    const url = new URL(request.url, 'http://provider')
    const account = url.searchParams.get('account')
    const body = await read(request)
    switch (`${request.method} ${url.pathname}`) {
      case 'POST /charges':
        return charge(request, response, body)
      case 'GET /charges': {
        const key = url.searchParams.get('key')
        const effect = ledger.find((entry) => entry.account === account && entry.key === key)
        return send(
          response,
          effect === undefined ? { status: 404, body: '{}' } : { status: 200, body: JSON.stringify(effect) },
        )
      }
      case 'GET /ledger':
        return send(response, {
          status: 200,
          body: JSON.stringify(ledger.filter((entry) => entry.account === account)),
        })
      case 'GET /requests':
        return send(response, {
          status: 200,
          body: JSON.stringify(requests.filter((entry) => entry.account === account)),
        })
      case 'POST /faults':
        faults.set(account, [...(faults.get(account) ?? []), ...JSON.parse(body)])
        return send(response, { status: 200, body: '{}' })
      case 'POST /let-go':
        for (const go of held.get(account) ?? []) go()
        held.delete(account)
        return send(response, { status: 200, body: '{}' })
      case 'GET /arrived': {
        await new Promise((arrived) => {
          waiters.push({ account, count: Number(url.searchParams.get('count')), arrived })
          wake()
        })
        return send(response, { status: 200, body: '{}' })
      }
      default:
        return send(response, { status: 404, body: '{}' })
    }
  })()
})

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address()
  process.send?.({ url: `http://127.0.0.1:${port}` })
})
// This process ends with its parent.
process.on('disconnect', () => process.exit(0))
