/** A word that meant several things, or one of several words for one thing, and what to write instead. */
export interface RetiredWord {
  /** Of one line. */
  readonly word: RegExp
  /** The words of `docs/concepts.md` that took its place. */
  readonly instead: string
  /** Lines in which it has its ordinary meaning. */
  readonly unless?: readonly RegExp[]
}

export const RETIRED_WORDS: readonly RetiredWord[] = [
  {
    word: /abandon/i,
    instead:
      'unattended (due, and held by nobody), too_old and maxAgeMs (stuck by its age), answer (a person gives the response)',
  },
  {
    word: /\bpawl resume\b|\bresum(?:ed?_?(?:at|ms)|e_?key)\b/i,
    instead: 'unstick, unstuck_at: the engine resumes a key, a person unsticks it',
  },
  {
    word: /\b(?:person|operator|somebody|anybody)\W+(?:\w+\W+){0,2}resum|\bresum\w*\W+(?:\w+\W+)?stuck\b|\bresumed by hand\b/i,
    instead: 'unstick: the engine resumes a key, a person unsticks it',
  },
  {
    word: /\breleas|Release/,
    instead:
      'give back (a holder ends its hold), revoke (a person takes the lease), unstick (a person lets a key run)',
    unless: [
      // A connection goes back to its pool.
      /\brelease(?:Session|Connection|\()|\bclient|\bconnection|\bsession|\bpool\b|usedAfterRelease/i,
      /savepoint/i,
      // Software.
      /## Unreleased|"Unreleased"|never changed once released|process and release|the released ones|node:os|release\(\)/,
      // Lease.
      /expireLease/i,
    ],
  },
  { word: /take_?lease_?away/i, instead: 'revoke_lease, revokeLease' },
  {
    word: /\b(?:left|leaves?|leaving)\b[^.]{0,40}\b(?:for|to) (?:the|a) completer/i,
    instead: 'enqueue, enqueued: the completer runs it instead of the caller',
  },
  { word: /unlisted|forgettable/i, instead: 'atomic: a handler that is one local phase' },
  {
    word: /starts_with\((?:k\.)?pipeline/i,
    instead: "the column kind: a pipeline may have any name, also one that begins with 'atomic.'",
  },
  {
    word: /\b(?:stick|sticks|sticking|mayStick\w*|give_up\w*|giveUpKey|gaveUp|giveToPerson)\b/,
    instead: 'mark stuck: markStuck, mark_stuck',
  },
  { word: /\bbell\b|\.ring\(\)/i, instead: 'wake signal, WakeSignal' },
  { word: /settings-?book/i, instead: 'ResolvedSettings' },
  { word: /\bworkplace\b/i, instead: 'OperatorContext' },
  { word: /look-?first\b|\blookFirst\b/i, instead: 'ReplayLikelihood', unless: [/look(?:ing)? first/i] },
  { word: /\bown-copies\b|\bOwnCopies\b/, instead: 'JsonCopies' },
  { word: /\bbegin-by\b|\bbeginBy\b/, instead: 'begin-statement' },
  { word: /\bplain-member\b|\bplainMember\b/i, instead: 'LeanStatement' },
  { word: /\bkept-result\b|\bKeptResult\b/, instead: 'call-result' },
  { word: /\b(?:is|unless)Overtaken\b|\bunlessFencedOff\b/, instead: 'isFencedOff, heldOrThrow' },
  { word: /\bsettle-?Outcome\b/i, instead: 'awaitOutcome: settle is what a phase does with a result' },
  { word: /\blate-result\.|\breleaseWhenSettled\b/, instead: 'give-back-after-call' },
  // The crash kit was a theatre once.
  { word: /theatre/i, instead: 'environment, Environment' },
  { word: /\bscenes?\b|Scene\b/i, instead: 'trial, Trial: one run of a case or a race' },
  { word: /\bcast\//, instead: 'actors' },
  { word: /rehears/i, instead: 'instrument, instrumentPipeline' },
  { word: /\bjot(?:s|ted|ting)?\b/i, instead: 'record, recordNow' },
  { word: /yardstick/i, instead: 'baseline, Baseline' },
  { word: /\bimpostor/i, instead: 'mismatch (the actor), otherRequest (what it sends)' },
  { word: /\bplayers?\b/i, instead: 'SteppedActor' },
  { word: /\bdirector\b/i, instead: 'Scheduler; decide, in the tests of the wire' },
  {
    word: /\bvisit\(|\bvisit(?:or|s|InPassing)\b/,
    instead: 'sendOnce, sendImpatiently',
    unless: [/\bvisits\b/],
  },
  {
    word: /\btoldFinally\b|\btoldTruth\b|\btoldWithoutAFault\b|\bhistory\.told\b|rule: 'told'|`told`/i,
    instead: "outcomes, ReturnedOutcome, the rule 'outcome'",
  },
  { word: /\bProvider-?Desk\b|\bthe desk\b/i, instead: 'RequestHandler' },
  {
    word: /\bbooks\b/i,
    instead: 'ledger (the effects), ProviderState',
    unless: [/\bprovider's books\b|\bits books\b|\bkeeps the books\b/],
  },
]

/** Files that name a retired word without using it. */
export const NOT_SEARCHED: readonly RegExp[] = [
  /^pnpm-lock\.yaml$/,
  /\.(?:png|svg|tgz|log)$/,
  /^test\/docs\/(?:retired-words|words\.test)\.ts$/,
  // What the style table of CONTRIBUTING shows is how not to write.
  /^CONTRIBUTING\.md$/,
  // A changelog says what a thing was called before.
  /^CHANGELOG\.md$/,
]
