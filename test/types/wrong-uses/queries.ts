import { type Given, pawl } from '@pawl/core'
import type { Kysely, Transaction } from 'kysely'
import { type Database, other } from './database.js'

declare const tx: Transaction<Database>
declare const dbOfOther: Kysely<{ invoices: { id: string } }>

const { query } = pawl<Database>()
const findRide = query((db, given: Given<{ id: string }>) =>
  db.selectFrom('rides').selectAll().where('id', '=', given.id),
)
const allRides = query((db) => db.selectFrom('rides').selectAll())

// The values of a query:

// error: Expected 2 arguments, but got 1
findRide(tx)
// error: Type 'number' is not assignable to type 'string'
findRide(tx, { id: 1 })
// error: Type 'null' is not assignable to type 'string'
findRide(tx, { id: null })
// error: Property 'id' is missing
findRide(tx, {})
// error: 'name' does not exist in type 'Readonly<{ id: string; }>'
findRide(tx, { id: '1', name: 'x' })
// error: Expected 1 arguments, but got 2
allRides(tx, {})

// What executes it:

// error: 'Kysely<{ invoices: { id: string; }; }>' is not assignable to parameter of type 'Kysely<Database>'
findRide(dbOfOther, { id: '1' })
// error: Argument of type '"rides"' is not assignable
other.query((db) => db.selectFrom('rides').selectAll())

// Its rows:

// error: Property 'rider' does not exist
void findRide(tx, { id: '1' })
  .executeTakeFirstOrThrow()
  .then((ride) => ride.rider)

// What a definition does with its parameters:

// error: Property 'other' does not exist on type 'Given<{ id: string; }>'
query((db, given: Given<{ id: string }>) => db.selectFrom('rides').where('id', '=', given.other))
// error: Argument of type 'GivenValue<number>' is not assignable to parameter of type
query((db, given: Given<{ id: number }>) => db.selectFrom('rides').where('id', '=', given.id))
// error: Property 'length' does not exist on type 'GivenValue<string>'
query((db, given: Given<{ id: string }>) => db.selectFrom('rides').limit(given.id.length))
// error: Operator '>' cannot be applied to types 'GivenValue<number>' and 'number'
query((db, given: Given<{ n: number }>) => (given.n > 1 ? db.selectFrom('rides') : db.selectFrom('rides')))
// error: This comparison appears to be unintentional
query((db, given: Given<{ id: string }>) => db.selectFrom('rides').limit(given.id === '1' ? 1 : 2))
// error: Argument of type 'GivenValue<string[]>' is not assignable to parameter of type
query((db, given: Given<{ ids: string[] }>) => db.selectFrom('rides').where('id', 'in', given.ids))
// error: a parameter always has a value: use null, or define a second query without it
query((db, given: Given<{ id?: string }>) => db.selectFrom('rides').where('id', '=', given.id))
// error: a parameter always has a value: use null, or define a second query without it
query((db, given: Given<{ id: string | undefined }>) => db.updateTable('rides').set({ id: given.id }))

// What it returns:

// error: Property 'compile' is missing in type 'Promise<
query((db) => db.selectFrom('rides').selectAll().execute())
// error: Property 'compile' is missing in type 'Promise<
query(async (db) => db.selectFrom('rides').selectAll())
