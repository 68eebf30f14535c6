/** What each panel shows, told to whoever drives the browser. */

import {DataFrame, FieldType} from '@grafana/data';
import type {Panel} from './board';

export interface PanelReport {
  id: number;
  row: string;
  title: string;
  type: string;
  /** Lines of a graph that have a value, rows of a table, numbers of a tile. */
  shown: number;
  /** Names of the lines, in order. */
  names: string[];
  /** Why it may be empty; '' if it may not. */
  excuse: string;
  error: string;
}

declare global {
  interface Window {
    boardReport?: PanelReport[];
    boardError?: string;
  }
}

function hasValue(frame: DataFrame): boolean {
  return frame.fields.some((field) => field.type === FieldType.number && field.values.some((value) => Number.isFinite(value)));
}

export function report(panel: Panel, row: string, frames: DataFrame[], error = ''): PanelReport {
  const full = frames.filter(hasValue);
  return {
    id: panel.id,
    row,
    title: panel.title,
    type: panel.type,
    shown: panel.type === 'table' ? frames.reduce((rows, frame) => rows + frame.length, 0) : full.length,
    names: panel.type === 'timeseries' ? full.map((frame) => frame.name ?? '') : [],
    excuse: panel.fieldConfig.defaults.noValue ?? '',
    error,
  };
}
