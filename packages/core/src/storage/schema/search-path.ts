import { findFirstSchema } from './find-first-schema.js'
import type { SessionFacts } from './read-session.js'
import type { Store } from '../statement.js'

/** Whether tables that the application creates without naming a schema would go into the framework's. */
export async function isFirstOnPath(
  store: Store,
  { searchPaths, role }: Pick<SessionFacts, 'searchPaths' | 'role'>,
): Promise<boolean> {
  for (const path of searchPaths) {
    if ((await findFirstSchema(store, schemasOn(path, role))) === store.tables.schema) return true
  }
  return false
}

/** What is wrong, and what to do. */
export function firstOnPath({ tables: { schema } }: Pick<Store, 'tables'>, role: string) {
  return {
    detail:
      `Schema '${schema}', which is Pawl's, comes first on the search path of role '${role}'${schema === role ? ' (as the schema with the same name)' : ''}: ` +
      `tables created without naming a schema go there, and Pawl's own (keys, effects, migrations, …) hide others of the same name.`,
    remedy: `ALTER ROLE "${role}" SET search_path = public; or give the role, or Pawl's schema, another name.`,
  }
}

/** The names in a value of `search_path`, as PostgreSQL reads it. */
function schemasOn(path: string, role: string): string[] {
  return [...path.matchAll(/"((?:[^"]|"")*)"|([^\s,"]+)/g)].map(([, quoted, plain = '']) => {
    const name = quoted?.replaceAll('""', '"') ?? plain.toLowerCase()
    return name === '$user' ? role : name
  })
}
