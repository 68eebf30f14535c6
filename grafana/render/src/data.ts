/** From a panel's queries to frames that are ready to be drawn. */

import {DataFrame, dateTime, GrafanaTheme2, rangeUtil, TimeRange} from '@grafana/data';
import type {Panel, Target} from './board';
import {configured} from './fields';
import {lines, numbers, table} from './frames';
import type {Options} from './options';
import {aligned, instant, range, rateInterval} from './prometheus';
import {transformed} from './transform';
import {interpolate, Values} from './variables';

export function timeRange({from, to}: Options): TimeRange {
  const [start, end] = [dateTime(from * 1000), dateTime(to * 1000)];
  return {from: start, to: end, raw: {from: start, to: end}};
}

/** Seconds between two points, as Grafana chooses them for a panel of this width; a panel may ask for more. */
function stepOf(panel: Panel, options: Options, width: number): number {
  const least = panel.interval ?? `${options.scrape}s`;
  return rangeUtil.calculateInterval(timeRange(options), Math.max(1, Math.floor(width)), least).intervalMs / 1000;
}

async function answer(target: Target, options: Options, values: Values, step: number): Promise<DataFrame[]> {
  const {from, to, scrape} = options;
  const expr = interpolate(target.expr, values, {
    __interval: `${step}s`,
    __rate_interval: `${rateInterval(step, scrape)}s`,
    __range: `${Math.round(to - from)}s`,
  });
  if (!target.instant) {
    return lines(target, await range(expr, aligned(from, to, step)), step);
  }
  const found = await instant(expr, to);
  return target.format === 'table' ? [table(target, found)] : numbers(target, found);
}

export async function framesOf(panel: Panel, options: Options, values: Values, theme: GrafanaTheme2, width: number): Promise<DataFrame[]> {
  const step = stepOf(panel, options, width);
  const answers = await Promise.all((panel.targets ?? []).map((target) => answer(target, options, values, step)));
  return configured(panel, transformed(answers.flat(), panel.transformations), values, theme);
}
