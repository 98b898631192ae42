import { appendFile } from 'node:fs/promises'
import { pipelineTask } from '@pawl/graphile-worker'
import { run } from 'graphile-worker'
import { readConfig } from './config.js'
import { createEngine } from './database.js'
import { guardOptions } from './guard-options.js'
import { migrate } from './migrate.js'
import { openPool } from './open-pool.js'
import { drainOnSignal, exitOnError } from './process.js'
import { sendReceiptWith } from './send-receipt.js'

/** The worker's process: graphile-worker, with tasks that are pipelines. */
async function main(): Promise<void> {
  const config = readConfig(process.env, { charges: false })
  const pool = openPool(config)
  await migrate(pool, config.layout)

  const { RECEIPTS_FILE: file = '' } = process.env
  const sendReceipt = sendReceiptWith(async (line) => {
    if (file === '') console.log(line)
    else await appendFile(file, `${line}\n`)
  })
  const engine = createEngine({
    pool,
    pipelines: [sendReceipt],
    namespace: 'rides',
    ...guardOptions(config),
  })
  const runner = await run({
    pgPool: pool,
    concurrency: 2,
    noHandleSignals: true,
    // In batches, even of one job: only then does stopping wait until the last jobs are marked as done.
    preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    taskList: { send_receipt: pipelineTask(engine, sendReceipt) },
  })
  let isDraining = false
  drainOnSignal(async () => {
    isDraining = true
    await runner.stop()
    await engine.close()
    await pool.end()
  })
  console.log(JSON.stringify({ msg: 'worker ready' }))
  await runner.promise
  // It gives up when it cannot tell the database what became of a job. The pool alone would keep this process from ending.
  if (!isDraining) throw new Error('graphile-worker has stopped: start this process again.')
}

await main().catch(exitOnError)
