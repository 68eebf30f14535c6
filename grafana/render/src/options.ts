/** What the address of the page says: which theme, which time, which values of variables. */

export interface Options {
  theme: 'dark' | 'light';
  /** Unix seconds. */
  from: number;
  to: number;
  /** Scrape interval in seconds, as a data source in Grafana is told. */
  scrape: number;
  variables: Record<string, string>;
}

export function readOptions(search: string): Options {
  const asked = new URLSearchParams(search);
  const variables: Record<string, string> = {};
  asked.forEach((value, key) => {
    if (key.startsWith('var-')) {
      variables[key.slice('var-'.length)] = value;
    }
  });
  return {
    theme: asked.get('theme') === 'light' ? 'light' : 'dark',
    from: number(asked, 'from'),
    to: number(asked, 'to'),
    scrape: number(asked, 'scrape'),
    variables,
  };
}

function number(asked: URLSearchParams, key: string): number {
  const value = Number(asked.get(key) ?? NaN);
  if (!Number.isFinite(value)) {
    throw new Error(`the address has no number for ${key}`);
  }
  return value;
}
