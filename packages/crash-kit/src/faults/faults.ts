import { clockSkew } from './clock-skew.js'
import { deadlock, serializationFailure, statementTimeout } from './conflict-faults.js'
import { connectionKilled, lostCommit, lostCommitAck, readOnlyFailover } from './connection-faults.js'
import { crash } from './crash.js'
import { databaseClocks } from './database-clocks.js'
import { disconnect, disconnectAndCrash } from './disconnect.js'
import { failovers } from './failovers.js'
import { erasure } from './erasure.js'
import { expiry } from './expiry.js'
import type { Fault } from './fault.js'
import { freeze } from './freeze.js'
import { leaseExpiry } from './lease-expiry.js'
import { memory } from './memory.js'
import { otherVersion } from './other-version.js'
import {
  provider429,
  provider5xx,
  providerDisconnect,
  providerMalformed,
  providerTimeouts,
} from './provider-faults.js'
import { reaper } from './reaper.js'
import { serverCrash } from './server-crash.js'
import { slowProvider } from './slow-provider.js'
import { tableLock } from './table-lock.js'
import { throwing } from './throwing.js'

/** Every fault, by the name that `exhaustive` takes. Some come in several forms. */
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
  disconnect: [disconnect, disconnectAndCrash],
  clockSkew: [clockSkew],
  databaseClock: databaseClocks,
  serverCrash: [serverCrash],
  failover: failovers,
  reaper: [reaper],
  expiry: [expiry],
  erasure: [erasure],
  otherVersion: [otherVersion],
  memory: [memory],
} as const satisfies Record<string, readonly Fault[]>

/** The names that `exhaustive` takes in its list of faults. */
export type FaultName = keyof typeof FAULTS
