const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Whether PostgreSQL would take it for an id: asked before it is, which would be an error of its own. */
export function isUuid(value: unknown): boolean {
  return typeof value === 'string' && UUID.test(value)
}
