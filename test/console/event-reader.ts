import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { AsJson, StreamEvents } from '../../packages/console/src/api.js'

/** One event, or a heartbeat. */
export type Heard =
  | {
      readonly [Name in keyof StreamEvents]: {
        readonly event: Name
        readonly data: AsJson<StreamEvents[Name]>
      }
    }[keyof StreamEvents]
  | { readonly event: 'comment'; readonly data: string }
  | { readonly event: 'retry'; readonly data: string }

/** A browser that listens to a console, as `EventSource` does. */
export class EventReader {
  readonly response: IncomingMessage
  readonly #heard: Heard[] = []
  #wake: (() => void) | null = null
  #text = ''

  private constructor(response: IncomingMessage) {
    this.response = response
    response.setEncoding('utf8')
    response.on('data', (text: string) => this.#take(text))
    response.on('close', () => this.#wake?.())
    response.on('error', () => {})
  }

  static async open(origin: string, headers: Readonly<Record<string, string>>): Promise<EventReader> {
    return new EventReader(await openStream(origin, headers))
  }

  /** The first event from here on that is of that kind and fits. */
  async next<Name extends Heard['event']>(
    event: Name,
    fits: (heard: Extract<Heard, { event: Name }>) => boolean = () => true,
  ): Promise<Extract<Heard, { event: Name }>> {
    for (;;) {
      const heard = this.#heard.shift()
      if (heard === undefined) {
        if (this.response.closed) throw new Error('The stream has ended.')
        await new Promise<void>((resolve) => (this.#wake = resolve))
      } else if (heard.event === event) {
        const found = heard as Extract<Heard, { event: Name }>
        if (fits(found)) return found
      }
    }
  }

  close(): void {
    this.response.destroy()
  }

  #take(text: string): void {
    this.#text += text
    const frames = this.#text.split('\n\n')
    this.#text = frames.pop() ?? ''
    for (const frame of frames) this.#heard.push(read(frame))
    this.#wake?.()
  }
}

function read(frame: string): Heard {
  if (frame.startsWith(':')) return { event: 'comment', data: frame }
  if (frame.startsWith('retry: ')) return { event: 'retry', data: frame.slice(7) }
  const [, event = '', data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(frame) ?? []
  return { event, data: JSON.parse(data) } as Heard
}

/** The answer, of which nothing is read yet. */
export async function openStream(
  origin: string,
  headers: Readonly<Record<string, string>>,
): Promise<IncomingMessage> {
  const sent = request(`${origin}/api/events`, { headers, agent: false }).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return response
}
