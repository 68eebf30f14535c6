/** Answers of Prometheus as Grafana's data frames, in the form that its own data source gives them. */

import {DataFrame, FieldType, toDataFrame} from '@grafana/data';
import type {Target} from './board';
import {Matrix, parsed, Vector} from './prometheus';

/** The name of a line: the target's form with labels put in, or all labels. */
export function legend(target: Target, metric: Record<string, string>): string {
  const form = target.legendFormat;
  if (form && form !== '__auto') {
    return form.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? '');
  }
  const {__name__, ...labels} = metric;
  const inside = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return `${__name__ ?? ''}${inside.length ? `{${inside.join(', ')}}` : ''}` || target.expr;
}

function line(target: Target, metric: Record<string, string>, points: [number, string][]): DataFrame {
  const {__name__, ...labels} = metric;
  const name = legend(target, metric);
  return toDataFrame({
    refId: target.refId,
    name,
    fields: [
      {name: 'Time', type: FieldType.time, values: points.map(([time]) => time * 1000)},
      {
        name: 'Value',
        type: FieldType.number,
        labels,
        values: points.map(([, text]) => parsed(text)),
        config: {displayNameFromDS: name},
      },
    ],
  });
}

/** The points with one without a value behind each that has no next one: lines of several series would be drawn across the gap. */
function withGaps(points: [number, string][], step: number): [number, string][] {
  return points.flatMap((point, place) => {
    const next = points[place + 1];
    return next && next[0] - point[0] > 1.5 * step ? [point, [point[0] + step, 'NaN'] as [number, string]] : [point];
  });
}

/** One frame for each series of a range. */
export function lines(target: Target, found: Matrix[], step: number): DataFrame[] {
  return found.map((series) => line(target, series.metric, withGaps(series.values, step)));
}

/** One frame for each series of an instant. */
export function numbers(target: Target, found: Vector[]): DataFrame[] {
  return found.map((series) => line(target, series.metric, [series.value]));
}

/** One frame for all series of an instant: a column for the time, for each label, and for the value. */
export function table(target: Target, found: Vector[]): DataFrame {
  const labels = [...new Set(found.flatMap((series) => Object.keys(series.metric)))].filter((name) => name !== '__name__').sort();
  return toDataFrame({
    refId: target.refId,
    fields: [
      {name: 'Time', type: FieldType.time, values: found.map((series) => series.value[0] * 1000)},
      ...labels.map((label) => ({name: label, type: FieldType.string, values: found.map((series) => series.metric[label] ?? '')})),
      {name: 'Value', type: FieldType.number, values: found.map((series) => parsed(series.value[1]))},
    ],
  });
}
