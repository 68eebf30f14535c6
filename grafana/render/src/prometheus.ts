/** Prometheus's HTTP API, as far as boards need it, by way of the proxy that serves this page. */

export interface Vector {
  metric: Record<string, string>;
  value: [number, string];
}

export interface Matrix {
  metric: Record<string, string>;
  values: [number, string][];
}

export interface Span {
  start: number;
  end: number;
  step: number;
}

const BASE = '/prometheus/api/v1';

async function ask(path: string, parameters: Record<string, string | number>): Promise<any> {
  const query = new URLSearchParams(Object.entries(parameters).map(([key, value]) => [key, String(value)]));
  const answer = await fetch(`${BASE}/${path}?${query}`);
  const body = await answer.json();
  if (body.status !== 'success') {
    throw new Error(body.error ?? `Prometheus answers with status ${answer.status}`);
  }
  return body.data;
}

export async function instant(expr: string, time: number): Promise<Vector[]> {
  const data = await ask('query', {query: expr, time});
  // A scalar has no labels, and is shown as a vector of one.
  return data.resultType === 'scalar' ? [{metric: {}, value: data.result}] : data.result;
}

export async function range(expr: string, span: Span): Promise<Matrix[]> {
  return (await ask('query_range', {query: expr, ...span})).result;
}

export async function labelValues(label: string, match: string, start: number, end: number): Promise<string[]> {
  return ask(`label/${encodeURIComponent(label)}/values`, {'match[]': match, start, end});
}

/** The range with its ends on multiples of the step, as Grafana's data source asks for it. */
export function aligned(from: number, to: number, step: number): Span {
  return {start: Math.floor(from / step) * step, end: Math.floor(to / step) * step, step};
}

/** What `$__rate_interval` stands for, in seconds: at least four scrapes, and a scrape more than the step. */
export function rateInterval(step: number, scrape: number): number {
  return Math.max(step + scrape, 4 * scrape);
}

/** A value of Prometheus as a number; what is not one is a gap. */
export function parsed(text: string): number | null {
  if (text === '+Inf' || text === '-Inf') {
    return text === '+Inf' ? Infinity : -Infinity;
  }
  const value = Number(text);
  return Number.isNaN(value) ? null : value;
}
