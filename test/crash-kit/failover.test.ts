import { absent, found, respond, retryLater } from '@pawl/core'
import { type FakeProvider, fakeProvider, type Finding } from '@pawl/crash-kit'
import { describe, expect, onTestFinished, test } from 'vitest'
import { pipeline, type RideInput } from '../support/rides.js'
import { rideKit } from './ride-kit.js'
import { fakeStripe, stripeRide } from './stripe-ride.js'
import { onlyDeep } from '../support/amounts.js'

/** Resolves to the kit's finding; null if there is none. */
async function findIn(kit: ReturnType<typeof rideKit>, run: () => Promise<void>): Promise<Finding | null> {
  onTestFinished(() => kit.close())
  try {
    await run()
    return null
  } catch (error) {
    if (error instanceof Error && error.name === 'Finding') return error as Finding
    throw error
  }
}

describe('a request to the provider that contains an id of the database', () => {
  test('is found by a failover that loses the id, and the finding names the column', async () => {
    const provider = fakeStripe()
    const kit = rideKit({ pipeline: () => stripeRide(provider, ({ rideId }) => rideId) }, provider)
    const finding = await findIn(kit, () => kit.exhaustive({ faults: ['failover'] }))
    expect(finding?.violations[0]).toMatchObject({
      rule: 'lint',
      title: 'an outbound request does not differ between attempts under the same provider key',
      detail: expect.stringContaining(
        'It had contained rides.id, which a failover lost with its row.',
      ) as string,
    })
    // The cause, and not what follows from it.
    expect(finding?.message).toMatch(/^lint \(the pipeline is safe to resume\): /)
    expect(finding?.message).not.toContain('L1 (')
    expect(finding?.message.split('\n').length).toBeLessThan(40)
  })

  onlyDeep(() => {
    test('is not found without a failover', async () => {
      const provider = fakeStripe()
      const kit = rideKit({ pipeline: () => stripeRide(provider, ({ rideId }) => rideId) }, provider)
      expect(await findIn(kit, () => kit.exhaustive({ faults: ['crash', 'lostCommitAck'] }))).toBeNull()
    })
  })

  onlyDeep(() => {
    test('is not a finding when the provider key is the reference', async () => {
      const provider = fakeStripe()
      const referring = () => stripeRide(provider, ({ idempotencyKey }) => idempotencyKey)
      const kit = rideKit({ pipeline: referring }, provider)
      const finding = await findIn(kit, () => kit.exhaustive({ faults: ['failover'] }))
      expect(finding?.message).toBeUndefined()
      // Reserved, ride_created, charge_created and finished: one commit is lost, or two, or three, or all.
      for (const id of ['failover.1', 'failover.2', 'failover.3', 'failover.all', 'failover.crash.all'])
        expect(kit.coverage()).toContain(`\n${id.padEnd('failover.crash.all'.length)} `)
      expect(kit.coverage()).not.toContain('failover.4')
    })
  })
})

/** A ride whose only call goes to a provider that does not deduplicate. */
const undedupedRide = (provider: FakeProvider, guarantee: 'queryable' | 'at_most_once') => {
  const begun = pipeline<RideInput>({ name: 'undeduped-ride', version: 1 }).local(
    'ride_created',
    async ({ tx, input, scope }) => {
      await tx.insertInto('rides').values({ rider: scope, amount: input.amount }).execute()
    },
  )
  const call = ({ input, idempotencyKey, signal }: { readonly input: RideInput } & SendOptions) =>
    provider.send({ amount: input.amount }, { idempotencyKey, signal })
  const calling =
    guarantee === 'at_most_once'
      ? begun.foreign('charged', { guarantee, call, onError: ({ error }) => retryLater(error) })
      : begun.foreign('charged', {
          guarantee,
          call,
          reconcile: async ({ idempotencyKey }) => {
            const effect = await provider.find(idempotencyKey)
            return effect === null ? absent() : found(effect)
          },
          onError: ({ error }) => retryLater(error),
        })
  return calling.finish(() => respond(204))
}

interface SendOptions {
  readonly idempotencyKey: string
  readonly signal: AbortSignal
}

describe('a call that the provider does not deduplicate', () => {
  test.each(['queryable', 'at_most_once'] as const)(
    '%s: may be made again only if its declaration is lost',
    async (guarantee) => {
      const provider = fakeProvider({ keyOf: null })
      const kit = rideKit({ pipeline: () => undedupedRide(provider, guarantee) }, provider)
      const replay = (line: string) => findIn(kit, () => kit.replay(line))
      expect((await replay('failover.1@charged/declare_call#1:after'))?.message).toBeUndefined()
      expect((await replay('failover.crash.1@charged/call#1:after'))?.message).toBeUndefined()
      expect((await replay('failover.all@charged/call#1:after'))?.message).toBeUndefined()
    },
  )
})
