/** Variables of a board: their values, and texts with these put in. */

import type {Variable} from './board';
import {labelValues} from './prometheus';

export interface Value {
  /** What queries get. */
  value: string;
  /** What the reader sees. */
  text: string;
}

export type Values = Record<string, Value>;

const LABEL_VALUES = /^label_values\((.*), *(\w+)\)$/s;
const PLACE = /\$\{(\w+)(?::(\w+))?\}|\$(\w+)/g;

/** Give each variable the value that was asked for, or the one that Grafana would begin with. */
export async function resolve(list: Variable[], asked: Record<string, string>, from: number, to: number): Promise<Values> {
  const values: Values = {};
  for (const variable of list) {
    values[variable.name] = await first(variable, asked[variable.name], values, from, to);
  }
  return values;
}

async function first(variable: Variable, asked: string | undefined, values: Values, from: number, to: number): Promise<Value> {
  if (variable.type === 'datasource') {
    return {value: 'prometheus', text: 'Prometheus'};
  }
  if (asked !== undefined) {
    return {value: asked, text: asked};
  }
  if (variable.includeAll) {
    return {value: variable.allValue ?? '.*', text: 'All'};
  }
  const query = LABEL_VALUES.exec(typeof variable.query === 'string' ? variable.query : variable.query?.query ?? '');
  if (variable.type !== 'query' || !query) {
    const text = String(variable.query ?? '');
    return {value: text, text};
  }
  const options = await labelValues(query[2], interpolate(query[1], values), from, to);
  const value = options.sort()[0] ?? '';
  return {value, text: value};
}

/** Put values into a text; what has no value stays as it is. */
export function interpolate(text: string, values: Values, more: Record<string, string> = {}): string {
  return text.replace(PLACE, (whole, braced, format, bare) => {
    const name = braced ?? bare;
    const value = more[name] ?? values[name]?.value;
    if (value === undefined) {
      return whole;
    }
    return format === 'percentencode' ? encodeURIComponent(value) : value;
  });
}
