import { CliError } from '../cli-error.js'
import { defineCommand, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { loadModule, pipelinesOf } from '../load-module.js'
import { parseText } from '../parse/value.js'

export const diagramCommand = defineCommand({
  name: 'diagram',
  summary: 'pipelines as Mermaid state diagrams; needs no database',
  args: [{ name: 'module', count: 'one' }],
  options: { name: value('NAME', parseText, 'only the pipeline with this name') },
  details: [
    'The module exports pipelines: each on its own, in a list, or in an object with a list named pipelines, such as the options of an engine. Its path is relative to the working directory. The module is imported, so whatever it does at the top level happens.',
  ],
  exits: { [EXIT.failed]: 'the module cannot be loaded, or exports no such pipeline' },
  async run({ args, options }, { cwd }) {
    const [path = ''] = args
    const all = pipelinesOf(await loadModule(path, cwd), path)
    const { name = null } = options
    const chosen = all.filter((pipeline) => name === null || pipeline.name === name)
    if (chosen.length === 0) {
      const names = all.map((pipeline) => pipeline.name).join(', ')
      throw new CliError('not_found', `Module '${path}' exports no pipeline '${name}'; it exports ${names}.`)
    }
    const drawn = chosen.map((pipeline) => ({
      name: pipeline.name,
      version: pipeline.version,
      diagram: pipeline.diagram(),
    }))
    const lines = drawn.flatMap(({ name: title, version, diagram }, index) => [
      ...(index === 0 ? [] : ['']),
      // A Mermaid comment, so that the text can be piped as it is.
      `%% ${title}@${version}`,
      ...diagram.trimEnd().split('\n'),
    ])
    return { exit: EXIT.ok, lines, json: { pipelines: drawn } }
  },
})
