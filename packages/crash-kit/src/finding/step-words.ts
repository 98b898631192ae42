/**
 * What a step does, in words that follow `before` or `after`. `{phase}` stands for the phase, `{nth}` for the occurrence. Without
 * the latter, a second occurrence is followed by ` the 2nd time`.
 */
export interface StepWords {
  readonly what: string
  /**
   * Whether the place has to be named, as in `in ride_created, before COMMIT`. With `phase`, the words name the phase themselves.
   * Otherwise it is the only connection on which the place does not have to be named.
   */
  readonly place: 'transaction' | 'phase' | Connection
}

/** Names that sessions have in place of a phase's name. */
type Connection =
  | 'reserve'
  | 'replica'
  | 'renewal'
  | 'raise'
  | 'give_back'
  | 'pipelines'
  | 'duplicates'
  | 'completer'
  | 'relay'
  | 'reaper'
  | 'operator'
  | 'doctor'
  | 'migrate'

/** The places of those connections, for steps that usually run on another one. */
export const CONNECTION_WORDS: ReadonlyMap<string, string> = new Map<Connection, string>([
  ['reserve', 'in the reservation'],
  ['replica', 'on the replica'],
  ['renewal', 'in the lease keeper'],
  ['raise', 'while the fence was raised'],
  ['give_back', 'at the end of the run'],
  ['pipelines', 'while pipelines were recorded'],
  ['duplicates', 'while duplicates were counted'],
  ['completer', 'in the completer'],
  ['relay', 'in the relay'],
  ['reaper', 'in the reaper'],
  ['operator', 'in the operator'],
  ['doctor', 'in the doctor'],
  ['migrate', 'in migrate'],
])

/** Every step of core. A test reads its sources, and fails when one is missing here. */
export const STEP_WORDS: ReadonlyMap<string, StepWords> = new Map([
  // Inside a phase's transaction.
  ...at('transaction', {
    begin: 'BEGIN',
    query: 'its {nth} query',
    insert_staged_job: 'its {nth} job was staged',
    insert_effect: 'its effect was recorded',
    index_scans_only: 'sequential scans were turned off',
    advance_key: 'its recovery point was written',
    finish_key: 'the response was written',
    commit: 'COMMIT',
    rollback: 'ROLLBACK',
  }),
  // Around a phase.
  ...at('phase', {
    skip_phase: '{phase} was skipped',
    declare_call: 'the call of {phase} was declared',
    call: '{phase} was called',
    reconcile: 'the provider was asked about {phase}',
  }),
  // Getting, keeping and giving back a key.
  ...at('reserve', {
    insert_key: 'the key was reserved',
    write_out: 'the reservation was on the disk',
    read_written_position: 'the primary was asked for its position',
    read_cache_epoch: 'the epoch of cached keys was read',
    note_caching: 'it was noted that keys are cached',
    find_key: 'the key was looked up',
    take_token: 'a token of its scope was taken',
    find_tokens: 'the tokens left to its scope were looked up',
    return_token: 'a token that was taken for nothing was returned',
    count_unfinished_of_scope: 'the unfinished keys of its scope were counted',
    find_last_effect: 'an effect of a deleted key was looked for',
    find_key_by_id: 'the key was looked up by its id',
    find_progress: 'those who wait asked how far the key had come',
    find_own_key: 'the key was looked up for its owner',
    take_over_key: 'the key was taken over',
    mark_unheld_stuck: 'the key, which nobody held, was marked as stuck',
  }),
  ...at('replica', { read_replay_position: 'the replica was asked for its position' }),
  ...at('renewal', { renew_leases: 'the lease was renewed' }),
  ...at('raise', { raise_fence: 'the fence was raised' }),
  ...at('give_back', {
    give_back_key: 'the key was given back',
    forget_key: 'the key was forgotten',
    mark_stuck: 'the key was marked as stuck',
    keep_late_end: 'what a call came to late was kept',
  }),
  // Beside requests.
  ...at('pipelines', { record_pipelines: 'pipelines were recorded' }),
  ...at('duplicates', { count_duplicates: 'duplicates were counted' }),
  // Background services.
  ...at('completer', {
    find_unattended_keys: 'the completer looked for unattended keys',
    find_unattended_of_version: 'the completer looked for unattended keys of a version',
    find_unattended_by_scope: 'the completer looked for unattended keys of one scope after another',
    forget_atomic_keys: 'the completer deleted unattended keys of atomic handlers',
    find_left_keys: 'the completer looked for unattended keys of atomic handlers',
    forget_left_keys: 'the completer deleted the keys of atomic handlers that it had found',
  }),
  ...at('relay', {
    claim_jobs: 'the relay claimed its jobs',
    find_due_jobs: 'the relay looked for jobs that are due',
    find_due_by_scope: 'the relay looked for due jobs of one scope after another',
    claim_these_jobs: 'the relay claimed the jobs that it had found',
    delete_jobs: 'the relay deleted what it had delivered',
    return_jobs: 'the relay gave back what it had not delivered',
  }),
  ...at('reaper', {
    reap_keys: 'the reaper deleted expired keys',
    find_expired_keys: 'the reaper looked for expired keys',
    reap_these_keys: 'the reaper deleted the expired keys that it had found',
    put_off_keys: 'the reaper put off keys that it could not delete',
    reap_effects: 'the reaper deleted old effects',
    find_old_effects: 'the reaper looked for old effects',
    delete_effects: 'the reaper deleted the old effects that it had found',
    find_idle_usage: 'the reaper looked for usage of idle scopes',
    reap_buckets: 'the reaper deleted buckets that are full',
    find_old_duplicates: 'the reaper looked for old counts of duplicates',
    delete_duplicates: 'the reaper deleted the old counts that it had found',
    fold_bytes: 'what is counted of stored bytes was put together',
  }),
  // What people do.
  ...at('operator', {
    unstick_key: 'an operator unstuck the key',
    revoke_lease: 'an operator revoked the lease',
    answer_key: 'an operator answered the key',
    extend_key: 'an operator extended the key',
    forget_finished_key: 'an operator had the key forgotten',
    raise_cache_epoch: 'what was cached became useless',
    find_standing_effects: 'effects of the key that stand were read',
    is_noted: 'a note was looked for',
    is_answered: 'whether an operator had answered the key was looked for',
    note_round: 'the beginning or the end of a round was noted',
    find_ids_of_key: 'the ids of the key were looked up',
    find_keys_to_erase: 'keys to erase were looked for',
    erase_keys: 'keys were erased',
    find_jobs_to_erase: 'jobs to erase were looked for',
    erase_jobs: 'jobs were erased',
    erase_usage: 'the usage of a scope was erased',
    erase_duplicates: 'the counts of duplicates of a scope were erased',
    find_counts_of_scope: 'what is counted of a scope was looked up',
    find_effects_to_erase: 'effects to erase were looked for',
    delete_erased_effects: 'effects were deleted under their names',
    copy_erased_effect: 'an effect was written without its names',
    find_interventions_to_erase: 'interventions to erase were looked for',
    delete_erased_interventions: 'interventions were deleted under their scope',
    copy_erased_intervention: 'an intervention was written without its scope',
    find_interventions: 'interventions were read',
    find_effects_of_key: 'the effects of the key were read',
    find_effects: 'effects were read',
    find_jobs_of_key: 'the jobs of the key were read',
    find_dead_jobs: 'dead jobs were read',
    requeue_these_jobs: 'chosen dead jobs were put back',
    requeue_dead_jobs: 'dead jobs were put back',
    find_dead_job_names: 'dead jobs were looked for',
    note_requeue: 'putting dead jobs back was noted',
    requeue_named_jobs: 'the dead jobs that were found were put back',
    read_clock: "the database's clock was read",
    list_running: 'running keys were listed',
    list_stuck: 'stuck keys were listed',
    list_finished: 'finished keys were listed',
    group_unfinished: 'unfinished keys were grouped',
    group_stuck: 'stuck keys were grouped',
    find_overdue: 'overdue keys were looked for',
    find_retried: 'keys that are retried for long were looked for',
    find_missing_rights: 'missing rights were looked for',
    count_rows: 'rows were counted',
    count_unfinished: 'unfinished keys were counted',
    has_keys_of: 'keys of a pipeline were looked for',
    find_versions: 'versions in use were read',
    find_finished_lately: 'keys that finished lately were read',
    find_keys_indexed: 'keys of a name were read by their index',
    find_unfinished_named: 'unfinished keys of a name were looked for',
    find_finished_named: 'finished keys of a name were looked for',
    group_flow: 'unfinished keys were grouped by where they stand',
    has_scope: 'a scope was looked for',
    find_forgetting: 'who forgot a key was looked for',
    find_latest_interventions: 'the latest interventions were read',
    list_interventions: 'interventions were listed',
    note_look: 'it was noted that somebody looked',
    find_effects_indexed: 'effects of a name were read by their indexes',
    find_effects_lately: 'the latest effects of a name were looked for',
    find_top_duplicates: 'the scopes with the most duplicates were read',
    find_duplicates_by_pipeline: 'duplicates were read by pipeline',
    find_duplicates_by_minute: 'duplicates were read by minute',
    find_pipelines: 'recorded pipelines were read',
    find_pipeline: 'a recorded pipeline was read',
    find_reading: 'the numbers that are kept for all were read',
    take_reading_turn: 'the turn to read numbers was taken',
    store_reading: 'numbers were kept for all',
    find_search_indexes: 'indexes for a search were looked for',
    read_table_sizes: 'the sizes of the tables were read',
  }),
  ...at('doctor', {
    read_layout: 'the layout of the tables was read',
    read_shards: 'the shards of the tables were counted',
    find_shards: 'the shards of scopes were looked up',
    find_placements: 'the servers of shards were looked up',
    ask_server: 'one server of a cluster was asked',
    read_server: "the server's settings were read",
    has_history: 'the list of migrations was looked for',
    read_version: 'the version of the tables was read',
    read_indexes: 'the indexes were read',
    read_references: 'references to keys were read',
    read_table_care: "the key table's statistics were read",
  }),
  ...at('migrate', {
    read_session: 'role, server and search path were read',
    find_first_schema: 'the first schema of the search path was looked for',
    find_lock_holders: 'the holders of locks on the tables were looked for',
    migrate_begin: 'migrate began',
    migrate_lock: 'the lock of migrations was taken',
    migrate_lock_tables: 'the tables were locked',
    migrate_look: 'the schema was looked at',
    migrate_schema: 'the schema was created',
    migrate_history: 'the list of migrations was created',
    migrate_version: 'the list of migrations was read',
    migrate_step: 'a migration was run',
    migrate_record: 'a migration was listed',
  }),
])

function at(
  place: StepWords['place'],
  words: Readonly<Record<string, string>>,
): (readonly [step: string, StepWords])[] {
  return Object.entries(words).map(([step, what]) => [step, { what, place }])
}
