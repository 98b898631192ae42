export { startPostgres } from './start-postgres.js'
export type { DevPostgres, StartPostgresOptions } from './start-postgres.js'
