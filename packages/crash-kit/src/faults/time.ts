import { isOver } from '../case/is-over.js'
import { Actor } from '../cast/actor.js'
import type { Scene } from '../cast/scene.js'
import { visit } from '../cast/visit.js'
import { wasRenewed } from '../cast/watch.js'
import { LONG_TIME_MS, RENEWED_LEASE_MS, RIVAL_LOCK_TIMEOUT_MS, SKEW_MS } from '../limits.js'
import { type Fault, isBoundary, isCall, type Strike } from './fault.js'

/** A rival that does not wait for what the other has locked: it would, and try again, for as long as that stands still. */
async function visitInPassing(scene: Scene): Promise<void> {
  const impatient = { lockTimeoutMs: RIVAL_LOCK_TIMEOUT_MS, transactionRetries: 0 }
  const settings = Object.fromEntries(scene.theatre.shape.points.map((point) => [point, impatient]))
  await visit(scene, 'rival', { settings })
}

/** The process stands still until its lease is over and another has had the key, then goes on as if nothing had been. */
export const freeze: Fault = {
  id: 'freeze',
  title: 'freeze past the lease',
  appliesTo: () => true,
  async strike({ scene, actor, fired }) {
    actor.disturbed = true
    await scene.note(actor.name, 'freezes')
    await scene.expireLease()
    await visitInPassing(scene)
    fired()
    await scene.note(actor.name, 'wakes')
  },
}

/** The provider executes, and answers only when this has happened. */
function whileAnswerWaits(
  { scene, fired, meanwhile, until, cleanUp }: Strike,
  happen: () => Promise<unknown>,
): void {
  const { provider } = scene.theatre
  if (provider === null) return
  const armed = provider.arm('hold')
  cleanUp(() => {
    armed.disarm()
    provider.letGo()
  })
  meanwhile(async () => {
    await until(armed.struck)
    await happen()
    fired()
    provider.letGo()
  })
}

/** The provider does not answer before the lease is over and another has had the key. */
export const leaseExpiry: Fault = {
  id: 'leaseExpiry',
  title: 'lease over during the call',
  appliesTo: isCall,
  needsProvider: true,
  strike(strike) {
    const { scene, actor } = strike
    actor.disturbed = true
    whileAnswerWaits(strike, async () => {
      await scene.expireLease()
      await visitInPassing(scene)
    })
  },
}

/** The provider takes longer than the lease: it has to be renewed, so that a duplicate is not let in. */
export const slowProvider: Fault = {
  id: 'slowProvider',
  title: 'call longer than the lease',
  appliesTo: isCall,
  needsProvider: true,
  settings: () => ({ leaseMs: RENEWED_LEASE_MS }),
  strike(strike) {
    const { scene, actor } = strike
    whileAnswerWaits(strike, async () => {
      if (!(await wasRenewed(scene))) {
        scene.violations.push({
          rule: 'I1',
          title: 'a lease is renewed for as long as its call runs',
          detail: `The lease of ${actor.name} ran out while its call was under way: nothing renewed it.`,
        })
      }
      await visit(scene, 'duplicate')
    })
  },
}

/** Machines whose clocks are an hour off ask for a key that is held. */
export const clockSkew: Fault = {
  id: 'clockSkew',
  title: 'duplicates with clocks an hour off',
  appliesTo: ({ step, when }) => when === 'before' && (step === 'begin' || step === 'call'),
  async strike({ scene, fired }) {
    for (const skewMs of [SKEW_MS, -SKEW_MS]) {
      const name = skewMs > 0 ? 'duplicate (an hour ahead)' : 'duplicate (an hour behind)'
      await visit(scene, name, { skewMs, disturbed: false })
    }
    fired()
  },
}

/** The reaper comes by when the key is old by any measure, and not finished: one that has finished it may delete. */
export const reaper: Fault = {
  id: 'reaper',
  title: 'reaper a year later',
  appliesTo: (position) => isBoundary(position) && position.phase !== 'finished',
  async strike({ scene, fired }) {
    // A phase that responds ends the request early.
    if (isOver(await scene.theatre.database.keyRow(scene.scope, scene.key))) return fired()
    await scene.passTime(LONG_TIME_MS, 'a year and more passes')
    const reaping = new Actor(scene, 'reaper')
    await reaping.reap()
    await reaping.leave()
    await scene.passTime(-LONG_TIME_MS, 'and is taken back')
    fired()
  },
}
