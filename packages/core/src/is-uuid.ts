const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/**
 * Whether PostgreSQL would accept it as an id. We check before we send it, because PostgreSQL would raise an error of its
 * own.
 */
export function isUuid(value: unknown): boolean {
  return typeof value === 'string' && UUID.test(value)
}
