import type { ButtonHTMLAttributes, ComponentChildren, Ref } from 'preact'
import { Icon, type IconName } from './icon.js'

interface ButtonProps extends Omit<ButtonHTMLAttributes, 'icon'> {
  /** `primary`: what the page is for. `danger`: what cannot be taken back. `quiet`: without a border. */
  readonly kind?: 'primary' | 'plain' | 'danger' | 'quiet'
  readonly icon?: IconName
  /** It has been pressed, and its work is not done. Its size stays. */
  readonly isBusy?: boolean
  readonly buttonRef?: Ref<HTMLButtonElement>
  readonly children?: ComponentChildren
}

export function Button({
  kind = 'plain',
  icon,
  isBusy = false,
  buttonRef,
  children,
  type = 'button',
  disabled = false,
  class: className = '',
  onClick,
  ...rest
}: ButtonProps) {
  return (
    <button
      {...rest}
      {...(buttonRef !== undefined && { ref: buttonRef })}
      type={type}
      class={`button button-${kind} ${isBusy ? 'button-busy' : ''} ${className as string}`}
      // Not `disabled`, which would lose the focus.
      aria-disabled={isBusy || undefined}
      disabled={disabled}
      onClick={isBusy ? (event) => event.preventDefault() : onClick}
    >
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </button>
  )
}
