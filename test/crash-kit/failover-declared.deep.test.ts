import { absent, found, respond, retryLater } from '@pawl/core'
import { type FakeProvider, fakeProvider, type Finding } from '@pawl/crash-kit'
import { expect, onTestFinished, test } from 'vitest'
import { pipeline, type RideInput } from '../support/rides.js'
import { rideKit } from './ride-kit.js'

interface Sent {
  readonly input: RideInput
  readonly idempotencyKey: string
  readonly signal: AbortSignal
}

const onError = ({ error }: { readonly error: unknown }) => retryLater(error)

/** A ride whose only call goes to a provider that does not deduplicate. */
const rideOf = (provider: FakeProvider, guarantee: 'queryable' | 'at_most_once') => {
  const begun = pipeline<RideInput>({ name: 'declared-ride', version: 1 }).local(
    'ride_created',
    async ({ tx, input, scope }) => {
      await tx.insertInto('rides').values({ rider: scope, amount: input.amount }).execute()
    },
  )
  const call = ({ input, idempotencyKey, signal }: Sent) =>
    provider.send({ amount: input.amount }, { idempotencyKey, signal })
  const reconcile = async ({ idempotencyKey }: { readonly idempotencyKey: string }) => {
    const effect = await provider.find(idempotencyKey)
    return effect === null ? absent() : found(effect)
  }
  const calling =
    guarantee === 'at_most_once'
      ? begun.foreign('charged', { guarantee, call, onError })
      : begun.foreign('charged', { guarantee, call, reconcile, onError })
  return calling.finish(() => respond(204))
}

test.each(['queryable', 'at_most_once'] as const)(
  'a %s call is made once, however many commits before its declaration a failover loses',
  async (guarantee) => {
    const provider = fakeProvider({ keyOf: null })
    const kit = rideKit({ pipeline: () => rideOf(provider, guarantee) }, provider)
    onTestFinished(() => kit.close())
    const finding = await kit.exhaustive({ faults: ['failover'] }).catch((error: unknown) => error as Finding)
    expect(finding?.message).toBeUndefined()
  },
)
