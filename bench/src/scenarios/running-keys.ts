import type { Client } from 'pg'

/** What differs from a finished key. Half of them are held, and the others are due; they are spread over four recovery points. */
const OWN_VALUES: Readonly<Record<string, string>> = {
  id: 'gen_random_uuid()',
  key: `'running-' || n`,
  scope: `'rider-' || n % 500`,
  status: `'running'`,
  recovery_point: `(ARRAY['started', 'ride_created', 'charge_created', 'audited'])[1 + n % 4]`,
  created_at: `now() - n * interval '1 s'`,
  updated_at: 'now()',
  lease_until: `now() + CASE n % 2 WHEN 0 THEN interval '1 h' ELSE interval '-1 s' END`,
  expires_at: 'NULL',
  response_status: 'NULL',
  response_headers: 'NULL',
  response_body: 'NULL',
  holder: 'gen_random_uuid()',
}

/** Adds running keys, copied from a finished one that Pawl has written. */
export async function fillRunningKeys(observer: Client, schema: string, count: number): Promise<void> {
  const { rows } = await observer.query<{ name: string }>(
    `SELECT column_name AS name FROM information_schema.columns
      WHERE table_schema = $1 AND table_name = 'idempotency_keys' AND is_generated = 'NEVER'`,
    [schema],
  )
  const names = rows.map(({ name }) => name)
  await observer.query(
    `INSERT INTO "${schema}".idempotency_keys (${names.map((name) => `"${name}"`).join(', ')})
     SELECT ${names.map((name) => OWN_VALUES[name] ?? `model."${name}"`).join(', ')}
       FROM (SELECT * FROM "${schema}".idempotency_keys WHERE status = 'finished' LIMIT 1) AS model,
            generate_series(1, $1::integer) AS n`,
    [count],
  )
  await observer.query(`VACUUM ANALYZE "${schema}".idempotency_keys`)
}
