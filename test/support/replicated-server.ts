import { execFile } from 'node:child_process'
import { appendFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type DevPostgres, startPostgres } from '@pawl/dev-postgres'
import pg from 'pg'

const run = promisify(execFile)

/** A primary and its streaming replicas, each a PostgreSQL of its own. */
export class ReplicatedServer {
  readonly primary: Server
  readonly replicas: readonly Server[]

  private constructor(primary: Server, replicas: readonly Server[]) {
    this.primary = primary
    this.replicas = replicas
  }

  static async start(replicaCount: number): Promise<ReplicatedServer> {
    // Nothing is to write to the log but the tests.
    const settings = { autovacuum: 'off' }
    const servers = await Promise.all(
      Array.from({ length: 1 + replicaCount }, () => startPostgres({ settings })),
    )
    const [primary, ...copies] = servers as [DevPostgres, ...DevPostgres[]]
    const allowed = 'host replication all 127.0.0.1/32 scram-sha-256\n'
    await appendFile(join(primary.directory, 'data', 'pg_hba.conf'), allowed)
    // What a stopped server leaves behind can be copied as it is, with its log.
    await Promise.all(servers.map((server) => server.kill()))
    for (const copy of copies) await copyData(primary, copy)
    await primary.restart()
    const { password } = new URL(primary.url)
    const of = (server: DevPostgres) => new Server(server, password)
    const replicas = copies.map(of)
    await Promise.all(replicas.map((replica) => replica.follow(primary.port)))
    return new ReplicatedServer(of(primary), replicas)
  }

  get replica(): Server {
    return this.replicas[0] as Server
  }

  /** Resolves when the replicas have replayed everything that the primary has written. */
  async caughtUp(replicas: readonly Server[] = this.replicas): Promise<void> {
    // A commit that waits for the disk has everything before it sent, too.
    await this.primary.rows(`SELECT pg_logical_emit_message(true, 'pawl', '')`)
    const [written] = await this.primary.rows<{ lsn: string }>('SELECT pg_current_wal_flush_lsn() AS lsn')
    await Promise.all(replicas.map((replica) => replica.replayed(written?.lsn ?? '')))
  }

  async stop(): Promise<void> {
    const servers = [this.primary, ...this.replicas]
    await Promise.all(servers.map((server) => server.stop()))
  }
}

/** One of them, with a pool to ask and to steer it. */
export class Server {
  readonly server: DevPostgres
  readonly url: string
  readonly #password: string
  readonly #admin: pg.Pool

  constructor(server: DevPostgres, password: string) {
    this.server = server
    const url = new URL(server.url)
    // A copy has the password of what it was copied from.
    url.password = password
    this.url = url.href
    this.#password = password
    this.#admin = new pg.Pool({ connectionString: this.url, max: 2 })
    this.#admin.on('error', () => {})
  }

  async rows<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.#admin.query<Row>(sql, values)).rows
  }

  /** Makes it a replica of the server on that port, from its next start on, and starts it again. */
  async follow(port: number): Promise<void> {
    const data = join(this.server.directory, 'data')
    const from = `host=127.0.0.1 port=${port} user=postgres password=${this.#password}`
    await appendFile(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${from}'\n`)
    await this.server.restart()
  }

  async replayed(lsn: string): Promise<void> {
    const sql = 'SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS done FROM pg_sleep(0.005)'
    while ((await this.rows<{ done: boolean }>(sql, [lsn]))[0]?.done !== true);
  }

  /** Resolves when it replays nothing any more, whatever it receives. */
  async pauseReplay(): Promise<void> {
    await this.rows('SELECT pg_wal_replay_pause()')
    const sql = 'SELECT pg_get_wal_replay_pause_state() AS state FROM pg_sleep(0.005)'
    while ((await this.rows<{ state: string }>(sql))[0]?.state !== 'paused');
  }

  async resumeReplay(): Promise<void> {
    await this.rows('SELECT pg_wal_replay_resume()')
  }

  /** Sends a signal to all of its processes that talk to clients. */
  async signalBackends(signal: NodeJS.Signals): Promise<() => void> {
    const sql = `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`
    const pids = (await this.rows<{ pid: number }>(sql)).map(({ pid }) => pid)
    // The server itself last: it would accept connections, and start others.
    const all = [...pids, ...(this.server.pid === null ? [] : [this.server.pid])]
    const send = (sent: NodeJS.Signals) => {
      for (const pid of all) process.kill(pid, sent)
    }
    send(signal)
    return () => send('SIGCONT')
  }

  async stop(): Promise<void> {
    await this.#admin.end()
    await this.server.stop()
  }
}

async function copyData(from: DevPostgres, to: DevPostgres): Promise<void> {
  const data = join(to.directory, 'data')
  await rm(data, { recursive: true })
  await run('cp', ['-a', join(from.directory, 'data'), data])
  await rm(join(data, 'postmaster.pid'), { force: true })
  // Any file with this name will do, and it has to belong to the server's user.
  await run('cp', ['-a', join(data, 'PG_VERSION'), join(data, 'standby.signal')])
}
