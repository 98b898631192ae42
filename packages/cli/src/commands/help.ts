import { defineCommand } from '../command.js'
import { EXIT } from '../exit-code.js'
import { renderCommandHelp, renderHelp } from '../render/help.js'
import { unknownCommand } from '../unknown-command.js'

export const helpCommand = defineCommand({
  name: 'help',
  summary: 'help on all commands, or on one',
  args: [{ name: 'command', count: 'optional' }],
  options: {},
  details: [],
  exits: {},
  async run({ args }, { commands, paint }) {
    const [name] = args
    const command = commands.find((each) => each.name === name)
    if (name !== undefined && command === undefined) throw unknownCommand(name, commands)
    const lines = command === undefined ? renderHelp(commands, paint) : renderCommandHelp(command, paint)
    const described = (command === undefined ? commands : [command]).map(({ name: title, summary }) => ({
      name: title,
      summary,
    }))
    return { exit: EXIT.ok, lines, json: { commands: described } }
  },
})
