#!/usr/bin/env node
// Not built, so that it can be linked before the first build.
await import('../dist/main.js')
