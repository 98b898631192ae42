import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Story } from './story.js'

const RIDE = { origin_lat: 37.7749, origin_lon: -122.4194, target_lat: 37.6213, target_lon: -122.379 }
/** Far longer than a lease takes to run out, even on a machine that is busy with other things. */
const RETRY_FOR_MS = 240_000
const MAX_PAUSE_MS = 1_000

export interface Answer {
  readonly status: number
  readonly body: string
  readonly replayed: boolean
  readonly retryAfterMs: number
}

/** A client of the API: one key per ride, the same for every retry. */
export class Client {
  readonly key = `ride-${randomUUID().slice(0, 8)}`
  readonly token: string
  /** What it saw, in order: statuses, and connections that broke. */
  readonly seen: string[] = []
  readonly #story: Story

  constructor(story: Story, token = 'rider-1') {
    this.#story = story
    this.token = token
  }

  /** Sends the request once; null if the connection broke. */
  async send(url: string, signal?: AbortSignal): Promise<Answer | null> {
    try {
      const response = await fetch(`${url}/rides`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${this.token}`,
          'content-type': 'application/json',
          'idempotency-key': this.key,
        },
        body: JSON.stringify(RIDE),
        ...(signal === undefined ? {} : { signal }),
      })
      const answer = {
        status: response.status,
        body: await response.text(),
        replayed: response.headers.get('idempotency-replayed') === 'true',
        retryAfterMs: Number(response.headers.get('retry-after') ?? 0) * 1_000,
      }
      this.#note(`${answer.status}${answer.replayed ? ' replayed' : ''}`, answer.body)
      return answer
    } catch {
      this.#note('connection lost', '')
      return null
    }
  }

  /** A client that sends nothing more, whatever it has got. */
  leave(): void {
    this.#story.tell('client', 'gives up, and never comes back')
  }

  /** Sends it again until there is a final answer, as a good client does. `url` may change from try to try. */
  async retry(url: () => string): Promise<Answer> {
    const giveUpAt = performance.now() + RETRY_FOR_MS
    while (performance.now() < giveUpAt) {
      const answer = await this.send(url())
      if (answer !== null && answer.status !== 409 && answer.status < 500) return answer
      await sleep(Math.min(answer?.retryAfterMs ?? 200, MAX_PAUSE_MS))
    }
    throw new Error(`${this.key} got no final answer in ${RETRY_FOR_MS / 1_000} s: ${this.seen.join(', ')}`)
  }

  /** A client that waits for a lease to end sees the same answer many times; we print it once. */
  #note(what: string, body: string): void {
    if (this.seen.at(-1) === what) return
    this.seen.push(what)
    this.#story.tell('client', `POST /rides, key ${this.key} → ${what} ${summary(body)}`.trimEnd())
  }
}

/** The code of a problem or refusal; for a ride, the first characters of its ids. */
function summary(body: string): string {
  if (body === '') return ''
  const { code, id, charge_id } = JSON.parse(body) as Readonly<Record<string, string | undefined>>
  return code === undefined ? `ride ${id?.slice(0, 8)}, charge ${charge_id?.slice(0, 11)}` : `(${code})`
}
