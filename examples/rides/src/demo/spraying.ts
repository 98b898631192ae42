import { type Answer, Client } from './client.js'
import type { Stage } from './scenarios.js'
import { Story } from './story.js'
import { judge, type Verdict } from './verdict.js'

const LIMIT_PER_MINUTE = 5
const MINUTE_MS = 60_000
const SPRAYED = 40
/** How many rides another rider requests meanwhile. */
const OTHERS = 3

/** One rider sends very many requests, each with a key of its own. What that rider may not have, the others do. */
export async function sprayedKeys({ world, story }: Stage): Promise<Verdict> {
  story.chapter('A client that sprays keys, while the rides of another go on')
  const limited = await world.startApi({ limitNewPerMinute: LIMIT_PER_MINUTE })
  story.tell(
    'api',
    `a second process is up, pid ${limited.pid}, with LIMIT_NEW_PER_MINUTE=${LIMIT_PER_MINUTE}`,
  )
  story.tell('client', `rider-2 sends ${SPRAYED} requests at once, each with a key of its own`)
  const beganAt = performance.now()
  const sprayers = Array.from({ length: SPRAYED }, () => new Client(new Story(true), 'rider-2'))
  const spraying = Promise.all(sprayers.map((sprayer) => sprayer.send(limited.url)))
  const others = Array.from({ length: OTHERS }, () => new Client(story, 'rider-1'))
  const answers: (Answer | null)[] = []
  for (const other of others) answers.push(await other.send(limited.url))
  const sprayed = await spraying
  // A token comes back every twelve seconds: on a machine that is very slow, somewhat more are let in.
  const refilled = Math.ceil(((performance.now() - beganAt) * LIMIT_PER_MINUTE) / MINUTE_MS)
  const admitted = sprayers.filter((_, nth) => sprayed[nth]?.status === 201)
  const refused = sprayed.filter((answer) => answer?.status === 429)
  const [first] = refused
  story.tell(
    'api',
    `${admitted.length} of them became rides; ${refused.length} got 429, come back in ${(first?.retryAfterMs ?? 0) / 1_000} s`,
  )
  const again = await admitted[0]?.send(limited.url)
  const how = again?.replayed === true ? ' replayed' : ''
  story.tell('client', `rider-2 sends one of those rides again → ${again?.status ?? 'nothing'}${how}`)
  const { rows } = await world.db.query<{ count: number }>(
    `SELECT count(*)::int FROM pawl.idempotency_keys WHERE key = ANY ($1)`,
    [sprayers.map(({ key }) => key)],
  )
  const stored = rows[0]?.count ?? 0
  story.tell('database', `${stored} rows for these ${SPRAYED} keys: what was refused has left nothing`)
  const verdicts: Verdict[] = []
  for (const [nth, other] of others.entries())
    verdicts.push(await judge(world, '', other, answers[nth]?.status ?? 0))
  await limited.end('SIGTERM')
  const wrong = [
    ...verdicts.flatMap((verdict) => verdict.wrong),
    admitted.length + refused.length === SPRAYED ? '' : 'a request got neither a ride nor 429',
    admitted.length >= LIMIT_PER_MINUTE && admitted.length <= LIMIT_PER_MINUTE + refilled
      ? ''
      : `${admitted.length} were let in, not ${LIMIT_PER_MINUTE}`,
    stored === admitted.length ? '' : `${stored} keys are stored, not ${admitted.length}`,
    again?.replayed === true ? '' : 'a retry was not replayed',
  ].filter((text) => text !== '')
  const sum = (what: 'charges' | 'rides') => verdicts.reduce((total, { [what]: count }) => total + count, 0)
  const done = `another rider sprays ${SPRAYED} keys`
  const saw = verdicts.map((verdict) => verdict.saw).join(', ')
  return { done, saw, charges: sum('charges'), rides: sum('rides'), ok: wrong.length === 0, wrong }
}
