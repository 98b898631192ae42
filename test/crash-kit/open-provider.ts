import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import {
  controlsOf,
  type FakeProvider,
  fakeProvider,
} from '../../packages/crash-kit/src/provider/fake-provider.js'
import type { ProviderControls } from '../../packages/crash-kit/src/provider/provider-controls.js'
import type { FakeProviderOptions } from '../../packages/crash-kit/src/provider/provider-options.js'

export interface OpenedProvider {
  readonly provider: FakeProvider
  readonly controls: ProviderControls
  readonly url: string
}

/** Opens a provider that listens until the test is over. */
export async function openProvider(options?: FakeProviderOptions): Promise<OpenedProvider> {
  const provider = fakeProvider(options)
  onTestFinished(() => provider.close())
  await provider.start()
  return { provider, controls: controlsOf(provider), url: provider.url }
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

/** Sends a request as a user's own client does, over connections that fetch keeps. */
export async function post(
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return answerOf(await fetch(url, { method: 'POST', body: JSON.stringify(body), headers }))
}

export async function answerOf(response: Response): Promise<Answer> {
  return { status: response.status, headers: response.headers, body: await response.text() }
}

export const underKey = (key: string) => ({ 'idempotency-key': key })

/** Returns a client with one kept connection, which reports whether each answer came over a connection that was used before. */
export function keptConnection(): (
  url: string,
  body: unknown,
) => Promise<{ status: number; reused: boolean }> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())
  return (url, body) =>
    new Promise((resolve, reject) => {
      const sent = request(url, { method: 'POST', agent })
      sent.on('error', reject)
      sent.on('response', (response) => {
        response.on('error', reject)
        void text(response).then(() =>
          resolve({ status: response.statusCode ?? 0, reused: sent.reusedSocket }),
        )
      })
      sent.end(JSON.stringify(body))
    })
}
