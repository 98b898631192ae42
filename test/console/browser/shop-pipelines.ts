import { absent, respond, retryLater } from '@pawl/core'
import { sql } from 'kysely'
import { pipeline } from '../../support/rides.js'
import { gate } from '../../support/signals.js'

/** What clients, providers and phases hand around: pages must show none of it unless somebody asks. */
export const SECRETS = {
  input: 'card-4242',
  state: 'token-4242',
  payload: 'mail-4242',
  body: 'receipt-4242',
} as const

interface Trip {
  readonly card: string
}
export const TRIP: Trip = { card: SECRETS.input }

/** What is wrong in the world outside at the moment. */
export type Weather = 'well' | 'away' | 'asks for patience' | 'has a bug' | 'slow'

/** The pipelines of one test, and the world that they run in. */
export class Shop {
  weather: Weather = 'well'
  /** Calls that are under way wait for it. */
  readonly #calls = gate()
  #charges = 0
  #callsUnderWay = 0
  #onCall = (): void => {}

  /** The one before: without a seat. */
  readonly createRideBefore = pipeline<Trip>({ name: 'create-ride', version: 1 })
    .local('ride_created', () => ({ token: SECRETS.state }))
    .foreign('charge_created', {
      call: () => this.#charge(),
      settle: ({ result }) => ({ chargeId: result.id }),
      reference: (result) => result.id,
    })
    .finish(() => respond(201, { receipt: SECRETS.body }))

  readonly createRide = pipeline<Trip>({ name: 'create-ride', version: 2 })
    .local('ride_created', () => ({ token: SECRETS.state }))
    .foreign('charge_created', {
      call: () => this.#charge(),
      settle: ({ result }) => ({ chargeId: result.id }),
      reference: (result) => result.id,
      onError: ({ error }) =>
        retryLater(error, this.weather === 'asks for patience' ? { afterMs: 3_600_000 } : {}),
    })
    .local('seat_taken', () => {
      if (this.weather === 'has a bug')
        throw new TypeError("Cannot read properties of undefined (reading '<seat>')")
    })
    .finish(async ({ stage }) => {
      await stage('send_receipt', { to: SECRETS.payload })
      return respond(201, { receipt: SECRETS.body })
    })

  readonly faxPermit = pipeline<Trip>({ name: 'fax-permit', version: 1 })
    .foreign('permit_faxed', {
      guarantee: 'at_most_once',
      call: async (): Promise<{ readonly id: string }> => {
        throw new Error('line broke after 2 of 3 pages')
      },
      settle: ({ result }) => ({ faxId: result.id }),
      reference: (result) => result.id,
    })
    .finish(({ state }) => respond(201, { fax: state.faxId }))

  readonly payDriver = pipeline<Trip>({ name: 'pay-driver', version: 4 })
    .local('payout_booked', () => ({ token: SECRETS.state }))
    .foreign('transfer_sent', {
      guarantee: 'queryable',
      call: () => this.#charge('tr'),
      reconcile: () => absent(),
      settle: ({ result }) => ({ transferId: result.id }),
      reference: (result) => result.id,
    })
    .foreign('driver_told', { call: () => ({ told: true }), settle: () => ({}) })
    .local('bonus_paid', () => undefined, { when: () => false })
    .finish(() => respond(200, { receipt: SECRETS.body }))

  readonly closeDay = pipeline<Trip>({ name: 'close-day', version: 1 })
    .local('ledger_closed', async ({ tx }) => {
      await sql`/* at once */ COMMIT`.execute(tx).catch(() => {})
      throw new Error('the ledger was closed twice')
    })
    .finish(() => respond(204))

  /** No engine records it. */
  readonly legacyImport = pipeline<Trip>({ name: 'legacy-import', version: 3 })
    .local('file_read', () => ({ rows: 7 }))
    .local('rows_written', () => retryLater(new Error('the disk is full'), { afterMs: 3_600_000 }))
    .finish(() => respond(204))

  readonly recorded = [this.createRideBefore, this.createRide, this.faxPermit, this.payDriver, this.closeDay]

  /** Resolves once so many more calls are under way. They wait until `letGo`; those that come after them do not. */
  callsUnderWay(count: number): Promise<void> {
    this.weather = 'slow'
    const wanted = this.#callsUnderWay + count
    return new Promise((resolve) => {
      this.#onCall = () => {
        if (this.#callsUnderWay < wanted) return
        this.weather = 'well'
        resolve()
      }
    })
  }

  /** Every call that waits goes on. */
  letGo(): void {
    this.#calls.open()
  }

  async #charge(kind = 'ch'): Promise<{ readonly id: string }> {
    const isSlow = this.weather === 'slow'
    this.#callsUnderWay++
    this.#onCall()
    if (isSlow) await this.#calls.opened
    if (this.weather === 'away') throw new Error('connect ETIMEDOUT 10.0.0.7:443')
    if (this.weather === 'asks for patience') throw new Error('503, come back in an hour')
    return { id: `${kind}_${++this.#charges}` }
  }
}
