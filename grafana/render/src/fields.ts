/** Options of fields: what the panel says, its overrides, thresholds, mappings and links. */

import {applyFieldOverrides, DataFrame, FieldConfigOptionsRegistry, getFieldDisplayName, GrafanaTheme2, ScopedVars} from '@grafana/data';
import type {Panel} from './board';
import {interpolate, Values} from './variables';

const STANDARD = ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'color', 'thresholds', 'mappings', 'links'];
const CUSTOM = [
  'drawStyle', 'lineInterpolation', 'lineWidth', 'lineStyle', 'fillOpacity', 'fillBelowTo', 'gradientMode', 'showPoints', 'pointSize',
  'spanNulls', 'insertNulls', 'stacking', 'axisPlacement', 'axisLabel', 'axisSoftMin', 'axisSoftMax', 'axisColorMode', 'thresholdsStyle',
  'scaleDistribution', 'hideFrom', 'align', 'cellOptions', 'width', 'minWidth', 'inspect',
];
const CELL = /\$\{__data\.fields\["([^"]+)"\]\}/g;

function option(path: string, isCustom: boolean): any {
  return {
    id: isCustom ? `custom.${path}` : path,
    path,
    name: path,
    isCustom,
    settings: {},
    process: (value: unknown) => value,
    shouldApply: () => true,
    editor: () => null,
    override: () => null,
  };
}

const REGISTRY = new FieldConfigOptionsRegistry(() => [
  ...STANDARD.map((path) => option(path, false)),
  ...CUSTOM.map((path) => option(path, true)),
]);

/** What Grafana's own panels begin with, where a board says nothing. */
const BEGIN: Record<string, {color: string; custom: Record<string, unknown>}> = {
  timeseries: {color: 'palette-classic', custom: {lineWidth: 1, fillOpacity: 0, showPoints: 'auto', spanNulls: false}},
  stat: {color: 'thresholds', custom: {}},
  table: {color: 'thresholds', custom: {align: 'auto', cellOptions: {type: 'auto'}}},
};

/** Frames with everything that the panel says of their fields. */
export function configured(panel: Panel, frames: DataFrame[], values: Values, theme: GrafanaTheme2): DataFrame[] {
  const {color, custom} = BEGIN[panel.type];
  const defaults = panel.fieldConfig.defaults;
  return applyFieldOverrides({
    data: frames,
    fieldConfig: {
      defaults: {...defaults, color: defaults.color ?? {mode: color}, custom: {...custom, ...defaults.custom}} as any,
      overrides: panel.fieldConfig.overrides ?? [],
    },
    fieldConfigRegistry: REGISTRY,
    replaceVariables: (text, scoped) => interpolate(withCells(text, scoped), values),
    theme,
    timeZone: 'utc',
  });
}

/** Put cells of the same row into a link. */
function withCells(text: string, scoped?: ScopedVars): string {
  const context = scoped?.__dataContext?.value;
  return text.replace(CELL, (whole, wanted) => {
    const field = context?.frame?.fields.find((one: any) => getFieldDisplayName(one, context?.frame) === wanted);
    return field && context?.rowIndex !== undefined ? encodeURIComponent(field.values[context.rowIndex]) : whole;
  });
}
