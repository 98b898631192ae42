import { randomBytes } from 'node:crypto'

/** The schemas of one kit. Their names need no quotes. */
export interface KitSchemas {
  /** `crash_` and 16 hexadecimal digits: part of every name that the kit gives to something on the server. */
  readonly id: string
  /** The business tables. */
  readonly business: string
  /** The framework's tables. */
  readonly pawl: string
  /** What the triggers write. */
  readonly audit: string
}

/** Finds a kit's id in the name of any of its schemas, in PostgreSQL's own syntax. */
export const KIT_SCHEMA_PATTERN = '^(crash_[0-9a-f]{16})(?:_pawl|_audit)?$'

const ID_BYTES = 8

export function newKitSchemas(): KitSchemas {
  return kitSchemasOf(`crash_${randomBytes(ID_BYTES).toString('hex')}`)
}

export function kitSchemasOf(id: string): KitSchemas {
  return { id, business: id, pawl: `${id}_pawl`, audit: `${id}_audit` }
}
