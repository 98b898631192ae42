import type { Command } from '../command.js'
import { answerCommand } from './answer.js'
import { consoleCommand } from './console.js'
import { deadCommand } from './dead.js'
import { diagramCommand } from './diagram.js'
import { doctorCommand } from './doctor.js'
import { drainCommand } from './drain.js'
import { eraseCommand } from './erase.js'
import { extendCommand } from './extend.js'
import { forgetCommand } from './forget.js'
import { helpCommand } from './help.js'
import { listCommand } from './list.js'
import { migrateCommand } from './migrate.js'
import { nextCommand } from './next.js'
import { reapCommand } from './reap.js'
import { reconcileCommand } from './reconcile.js'
import { revokeCommand } from './revoke.js'
import { requeueCommand } from './requeue.js'
import { unstickCommand } from './unstick.js'
import { showCommand } from './show.js'
import { sizeCommand } from './size.js'
import { statusCommand } from './status.js'

/** In the order of the help: set up, look, steer, plan. */
export const allCommands: readonly Command[] = [
  migrateCommand,
  doctorCommand,
  statusCommand,
  listCommand,
  showCommand,
  nextCommand,
  deadCommand,
  consoleCommand,
  unstickCommand,
  revokeCommand,
  answerCommand,
  extendCommand,
  forgetCommand,
  requeueCommand,
  reapCommand,
  eraseCommand,
  drainCommand,
  reconcileCommand,
  diagramCommand,
  sizeCommand,
  helpCommand,
]
