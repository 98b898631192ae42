import type { Charge, FindCharge } from './ride-of.js'

/** Charges over HTTP. `fields` go into every request, such as the account at a provider that others share. */
export function chargeAt(url: string, fields: Readonly<Record<string, string>> = {}): Charge {
  return async (request, { idempotencyKey, signal }) => {
    const response = await fetch(`${url}/charges`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      body: JSON.stringify({ ...request, ...fields }),
      ...(signal === undefined ? {} : { signal }),
    })
    const { id } = (await response.json()) as { id: string }
    if (response.ok) return { id }
    throw Object.assign(new Error(`the provider answered ${response.status}`), { status: response.status })
  }
}

/** Asks over HTTP. */
export function findAt(url: string, fields: Readonly<Record<string, string>> = {}): FindCharge {
  return async (key) => {
    const response = await fetch(`${url}/charges?${new URLSearchParams({ ...fields, key }).toString()}`)
    if (response.status === 404) return null
    const { id } = (await response.json()) as { id: string }
    return { id }
  }
}
