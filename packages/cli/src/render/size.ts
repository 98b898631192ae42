import type { Bound } from '../size/advise.js'
import type { Estimate, Workload } from '../size/estimate.js'
import { bytesText, numberText, percentText } from './amount.js'
import type { Paint } from './paint.js'
import { facts, table } from './table.js'
import { durationText } from './time.js'

/** The estimate as a person reads it. */
export function renderSize(
  load: Workload,
  estimate: Estimate,
  bounds: readonly Bound[],
  advice: readonly string[],
  paint: Paint,
): readonly string[] {
  return [
    `${paint('bold', 'Size')} for ${numberText(load.rate)} new requests/s, kept for ${durationText(load.retentionSeconds * 1_000)}`,
    '',
    ...table(
      [
        { title: 'ON DISK' },
        { title: 'ROWS', align: 'right' },
        { title: 'TABLE', align: 'right' },
        { title: 'INDEXES', align: 'right' },
      ],
      diskRows(load, estimate),
      paint,
    ),
    '',
    ...facts(totals(load, estimate), paint),
    '',
    ...table(
      [
        { title: 'OF ONE SERVER' },
        { title: 'NEEDED', align: 'right' },
        { title: 'AVAILABLE', align: 'right' },
        { title: 'LASTS TO (REQUESTS/S)', align: 'right' },
      ],
      bounds.map(({ resource, needed, available, share, lastsTo }) => [
        resource,
        share > 1 ? { text: needed, style: 'red' } : needed,
        available,
        numberText(lastsTo),
      ]),
      paint,
    ),
    '',
    ...advice,
  ]
}

function diskRows({ rate, jobs }: Workload, { keys, effects, disk }: Estimate): string[][] {
  return [
    ['Keys', numberText(keys), bytesText(disk.keyTable), bytesText(disk.keyIndexes)],
    ['Effects', numberText(effects), bytesText(disk.effectTable), bytesText(disk.effectIndexes)],
    ['Jobs, if delivered within a minute', numberText(rate * jobs * 60), bytesText(disk.jobs), ''],
  ]
}

function totals(load: Workload, estimate: Estimate): [string, string][] {
  const { log, vacuum, reaper, connections, serverCores, nodeCores } = estimate
  const { statements, roundTrips, transactions } = estimate
  return [
    [
      'A request',
      `${statements} statements in ${roundTrips} round trips; ${transactions} commits wait for the disk`,
    ],
    [
      'Log',
      `${bytesText(log.perSecond)}/s, ${bytesText(log.perDay)} a day: ${bytesText(log.perRequest)} a request, and ${bytesText(log.pagesPerRequest)} in whole pages`,
    ],
    [
      'Vacuum',
      `${numberText(vacuum.deadPerSecond)} dead rows/s; due every ${durationText(vacuum.everySeconds * 1_000)}, takes ${durationText(vacuum.seconds * 1_000)}, by default`,
    ],
    ['Reaper', `${percentText(reaper.share)} of what one deletes at its default pace`],
    [
      'Connections',
      `${numberText(connections)} busy at a time, with ${durationText(load.roundTripMs)} to the database; twice that for peaks`,
    ],
    ['CPU', `${numberText(serverCores)} cores of PostgreSQL, ${numberText(nodeCores)} of Node.js`],
  ]
}
