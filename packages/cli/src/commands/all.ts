import type { Command } from '../command.js'
import { abandonCommand } from './abandon.js'
import { deadCommand } from './dead.js'
import { diagramCommand } from './diagram.js'
import { doctorCommand } from './doctor.js'
import { drainCommand } from './drain.js'
import { helpCommand } from './help.js'
import { listCommand } from './list.js'
import { migrateCommand } from './migrate.js'
import { reapCommand } from './reap.js'
import { reconcileCommand } from './reconcile.js'
import { releaseCommand } from './release.js'
import { requeueCommand } from './requeue.js'
import { resumeCommand } from './resume.js'
import { showCommand } from './show.js'
import { statusCommand } from './status.js'

/** In the order of the help: set up, look, steer, plan. */
export const allCommands: readonly Command[] = [
  migrateCommand,
  doctorCommand,
  statusCommand,
  listCommand,
  showCommand,
  deadCommand,
  resumeCommand,
  releaseCommand,
  abandonCommand,
  requeueCommand,
  reapCommand,
  drainCommand,
  reconcileCommand,
  diagramCommand,
  helpCommand,
]
