import type { Strike } from './fault.js'

/** Lets the provider execute, and answer only when `happen` is done. */
export function whileAnswerWaits(
  { trial, fired, meanwhile, until, cleanUp }: Strike,
  happen: () => Promise<unknown>,
): void {
  const { provider } = trial.environment
  if (provider === null) return
  const armed = provider.arm('hold')
  cleanUp(() => {
    armed.disarm()
    provider.letGo()
  })
  meanwhile(async () => {
    await until(armed.struck)
    await happen()
    fired()
    provider.letGo()
  })
}
