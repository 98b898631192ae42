import type { StoredResponse } from '@pawl/core'
import type { PipelineShape, Row } from '../../packages/crash-kit/src/history.js'
import { HistoryBuilder } from './history-builder.js'
import { insert, insertOwn, update } from './row-changes.js'
import { json, MISMATCH } from './sample-outcomes.js'

/** The rides pipeline of the article: a ride, its charge, and a receipt that is staged at the end. */
export const RIDES: PipelineShape = {
  name: 'create-ride',
  version: 1,
  points: ['started', 'ride_created', 'charge_created', 'finished'],
  maxAttempts: 10,
  foreign: [{ phase: 'charge_created', guarantee: 'keyed' }],
}

/** Returns the same pipeline with another guarantee. */
export function ridesWith(guarantee: PipelineShape['foreign'][number]['guarantee']): PipelineShape {
  return { ...RIDES, foreign: [{ phase: 'charge_created', guarantee }] }
}

/** What the phases of one ride write and answer. */
export class Ride {
  readonly story: HistoryBuilder
  readonly id: string
  readonly chargeId: string
  readonly jobId: string

  constructor(story: HistoryBuilder) {
    this.story = story
    this.id = story.id()
    this.chargeId = `ch_${story.id()}`
    this.jobId = story.id()
  }

  /** The row as `ride_created` inserts it. */
  get row(): Row {
    const { id, story } = this
    return { id, key_id: story.keyId, status: 'new', charge_id: null, created_at: story.now() }
  }

  get response(): StoredResponse {
    const { id, chargeId } = this
    return json(201, { id, charge: chargeId }, { location: `/rides/${id}` })
  }

  /** The body that the provider is sent. */
  get body(): string {
    return JSON.stringify({ amount: 1800, ride: this.id })
  }
}

/** A key that is reserved, and whose first phase has committed. */
export function begun(run = 1): { story: HistoryBuilder; ride: Ride; row: Row } {
  const story = new HistoryBuilder(run)
  const ride = new Ride(story)
  story.reserve('client')
  const { row } = ride
  story.advance('client', 'ride_created', insert('rides', row))
  return { story, ride, row }
}

/** Lets one actor settle the charge and finish. */
export function ended(story: HistoryBuilder, ride: Ride, row: Row, actor: string): HistoryBuilder {
  const charge = { charge_id: ride.chargeId, status: 'charged' }
  const key = { key_id: story.keyId, scope: 'user 7', key: story.row['key'] ?? null }
  const effect = { phase: 'charge_created', effect: 'charge_created', provider_key: story.providerKey }
  story.advance(
    actor,
    'charge_created',
    update('rides', row, charge),
    insertOwn('effects', { id: story.id(), ...key, ...effect, reference: ride.chargeId }),
  )
  const receipt = { id: ride.jobId, name: 'send_receipt', payload: { ride: ride.id }, key_id: story.keyId }
  return story.finish(actor, ride.response, insertOwn('staged_jobs', receipt))
}

/** Adds what follows in every case: a client comes back, another one sends a different request, and the relay runs. */
export function aftermath(story: HistoryBuilder, ride: Ride): HistoryBuilder {
  const receipt = { id: ride.jobId, name: 'send_receipt', payload: { ride: ride.id }, key_id: story.keyId }
  return story
    .returnTo('late client', story.completed(ride.response, 'replayed'), { execution: 8 })
    .returnTo('mismatch', MISMATCH, { execution: 9, otherRequest: true })
    .deliver(ride.jobId, 'send_receipt')
    .commit('relay', { ...insertOwn('staged_jobs', receipt), op: 'DELETE', before: receipt, after: null })
}

/** A ride from the request to its response, without a fault. */
export function cleanRide(run = 1): HistoryBuilder {
  const { story, ride, row } = begun(run)
  story.call('client', 'charge_created').request('client', 'charge_created', { body: ride.body })
  ended(story, ride, row, 'client').returnTo('client', story.completed(ride.response))
  return aftermath(story, ride)
}

/** A ride whose client dies once the provider has executed. A retry takes over, calls again and ends it. */
export function crashedRide(run = 3): HistoryBuilder {
  const { story, ride, row } = begun(run)
  story.call('client', 'charge_created').request('client', 'charge_created', { body: ride.body })
  story.expireLease().takeOver('retry')
  story.call('retry', 'charge_created', { execution: 2 })
  story.request('retry', 'charge_created', { executed: false, body: ride.body })
  ended(story, ride, row, 'retry').returnTo('retry', story.completed(ride.response), { execution: 2 })
  return aftermath(story, ride)
}
