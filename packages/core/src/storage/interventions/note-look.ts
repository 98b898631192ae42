import { uuidV7 } from '../../uuid-v7.js'
import { defineStatement, NOW, type Store } from '../statement.js'

const noteLookStatement = defineStatement(
  'note_look',
  ({ interventions }) => `
  INSERT INTO ${interventions} (id, key_id, scope, key, action, actor, reason, detail, created_at)
  VALUES ($1::uuid, $2::uuid, $3, $4, 'reveal', $5, $6, NULL, ${NOW})`,
)

/** Notes that somebody is about to look at what a client sent and got. */
export async function noteLook(
  store: Store,
  key: { readonly id: string; readonly scope: string; readonly key: string },
  because: { readonly actor: string; readonly reason: string },
): Promise<void> {
  const { id, scope, key: name } = key
  await noteLookStatement(store, [uuidV7(), id, scope, name, because.actor, because.reason])
}
