import { Field, type FieldControl } from '../components/field.js'
import type { Entered, ReadForm } from './action-form.js'
import type { KeyAction } from './key-action.js'

interface ActionFieldsProps {
  readonly action: KeyAction
  readonly entered: Entered
  readonly onEnter: (change: Partial<Entered>) => void
  readonly read: ReadForm
  /** Whether to say what is wrong: not before there was a chance to fill it in. */
  readonly isTold: boolean
}

/** What an action has to be told besides a reason. */
export function ActionFields({ action, entered, onEnter, read, isTold }: ActionFieldsProps) {
  const errorOf = (name: keyof Entered) => (read.isRight ? null : (read.errors[name] ?? null))
  const told = (name: keyof Entered & ('result' | 'body' | 'status' | 'until')) =>
    isTold || entered[name].trim() !== '' ? errorOf(name) : null
  switch (action) {
    case 'retry':
    case 'not-executed':
    case 'revoke':
      return null
    case 'executed':
      return (
        <Field
          label="What the call would have returned, as JSON"
          hint="The phase is settled with it, as if the provider had answered."
          error={told('result')}
        >
          {(control) => (
            <JsonArea
              control={control}
              value={entered.result}
              onText={(result) => onEnter({ result })}
              placeholder='{"id": "ch_88"}'
            />
          )}
        </Field>
      )
    case 'answer':
      return (
        <>
          <Field label="Status" hint="410 says: gone, do not ask again." error={told('status')}>
            {(control) => (
              <input
                {...control}
                class="input input-short"
                inputMode="numeric"
                autoComplete="off"
                value={entered.status}
                onInput={({ currentTarget }) => onEnter({ status: currentTarget.value })}
              />
            )}
          </Field>
          <Field
            label="Body, as JSON"
            hint="Every retry of its client gets exactly this. Empty for none."
            error={told('body')}
          >
            {(control) => (
              <JsonArea
                control={control}
                value={entered.body}
                onText={(body) => onEnter({ body })}
                placeholder='{"code": "too_late"}'
              />
            )}
          </Field>
        </>
      )
    case 'extend':
      return (
        <Field label="Until" hint="In your time zone." error={told('until')}>
          {(control) => (
            <input
              {...control}
              class="input input-moment"
              type="datetime-local"
              value={entered.until}
              onInput={({ currentTarget }) => onEnter({ until: currentTarget.value })}
            />
          )}
        </Field>
      )
    case 'forget':
      return (
        <Check
          label="I have undone its effects at the provider"
          isOn={entered.effectsUndone}
          onSwitch={(effectsUndone) => onEnter({ effectsUndone })}
        />
      )
    case 'erase':
      return (
        <>
          <Check
            label="Also effects of the last day: a retry would run again"
            isOn={entered.recentEffects}
            onSwitch={(recentEffects) => onEnter({ recentEffects })}
          />
          <Check
            label="Also jobs that are still to be delivered: they never are"
            isOn={entered.undeliveredJobs}
            onSwitch={(undeliveredJobs) => onEnter({ undeliveredJobs })}
          />
        </>
      )
  }
}

interface JsonAreaProps {
  readonly control: FieldControl
  readonly value: string
  readonly onText: (text: string) => void
  readonly placeholder: string
}

function JsonArea({ control, value, onText, placeholder }: JsonAreaProps) {
  return (
    <textarea
      {...control}
      value={value}
      placeholder={placeholder}
      class="input input-json"
      rows={3}
      spellcheck={false}
      autoComplete="off"
      dir="ltr"
      onInput={({ currentTarget }) => onText(currentTarget.value)}
    />
  )
}

interface CheckProps {
  readonly label: string
  readonly isOn: boolean
  readonly onSwitch: (isOn: boolean) => void
}

function Check({ label, isOn, onSwitch }: CheckProps) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isOn}
        onChange={({ currentTarget }) => onSwitch(currentTarget.checked)}
      />
      <span>{label}</span>
    </label>
  )
}
