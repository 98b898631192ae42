// The one entry point of all npm scripts: `node scripts/run.mjs <command> [arguments]`.
// It must parse on any Node, so that an old one gets this message and not a syntax error.

const OLDEST_NODE = 20

if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
  console.error(`Pawl needs Node.js ${OLDEST_NODE} or later; this is ${process.version}.`)
  process.exitCode = 1
} else {
  void import('./commands.mjs').then(({ main }) => main(process.argv.slice(2)))
}
