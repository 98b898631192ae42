import {
  CamelCasePlugin,
  DeduplicateJoinsPlugin,
  type KyselyPlugin,
  ParseJSONResultsPlugin,
  WithSchemaPlugin,
} from 'kysely'

/** Those of Kysely that make the same of a query each time: they look neither at its values nor at anything outside it. */
const KNOWN: ReadonlySet<unknown> = new Set([
  CamelCasePlugin,
  DeduplicateJoinsPlugin,
  ParseJSONResultsPlugin,
  WithSchemaPlugin,
])

/**
 * Whether a query can be compiled once with this plugin. Any other may add the tenant of this request, or the time, or write
 * another SQL for null: what it made of the first use must not be sent with the second. A class that extends a known one is
 * another plugin.
 */
export function isKnownPlugin(plugin: KyselyPlugin): boolean {
  return KNOWN.has(plugin.constructor) && !Object.hasOwn(plugin, 'transformQuery')
}
