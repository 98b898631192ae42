import { deadlock, serializationFailure, statementTimeout } from './conflict.js'
import { connectionKilled, lostCommit, lostCommitAck, readOnlyFailover } from './connection.js'
import { crash } from './crash.js'
import { failovers } from './failover.js'
import { databaseClocks } from './database-clock.js'
import type { Fault } from './fault.js'
import { abandonment, disconnect, memory, otherVersion, serverCrash } from './others.js'
import {
  provider429,
  provider5xx,
  providerDisconnect,
  providerMalformed,
  providerTimeouts,
} from './provider.js'
import { tableLock } from './table-lock.js'
import { throwing } from './throw.js'
import { clockSkew, freeze, leaseExpiry, reaper, slowProvider } from './time.js'

/** Every fault by the name that `exhaustive` takes. Some come in two forms. */
export const FAULTS = {
  crash: [crash],
  throw: [throwing],
  connectionKilled: [connectionKilled],
  lostCommitAck: [lostCommitAck],
  lostCommit: [lostCommit],
  readOnlyFailover: [readOnlyFailover],
  serializationFailure: [serializationFailure],
  deadlock: [deadlock],
  statementTimeout: [statementTimeout],
  tableLock: [tableLock],
  providerTimeout: providerTimeouts,
  providerDisconnect,
  provider429: [provider429],
  provider5xx,
  providerMalformed: [providerMalformed],
  freeze: [freeze],
  leaseExpiry: [leaseExpiry],
  slowProvider: [slowProvider],
  disconnect: [disconnect, abandonment],
  clockSkew: [clockSkew],
  databaseClock: databaseClocks,
  serverCrash: [serverCrash],
  failover: failovers,
  reaper: [reaper],
  otherVersion: [otherVersion],
  memory: [memory],
} as const satisfies Record<string, readonly Fault[]>

/** What `exhaustive` takes in its list of faults. */
export type FaultName = keyof typeof FAULTS
