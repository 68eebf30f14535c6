/** The one transformation of our boards: which columns a table shows, in which order, under which names. */

import type {DataFrame} from '@grafana/data';
import type {Transformation} from './board';

interface Organize {
  excludeByName?: Record<string, boolean>;
  indexByName?: Record<string, number>;
  renameByName?: Record<string, string>;
}

function organize(frame: DataFrame, options: Organize): DataFrame {
  const place = (name: string) => options.indexByName?.[name] ?? Number.MAX_SAFE_INTEGER;
  const fields = frame.fields
    .filter((field) => !options.excludeByName?.[field.name])
    .map((field, index) => ({field, index}))
    .sort((one, other) => place(one.field.name) - place(other.field.name) || one.index - other.index)
    .map(({field}) => {
      const name = options.renameByName?.[field.name];
      return name ? {...field, name, config: {...field.config, displayName: name}} : field;
    });
  return {...frame, fields};
}

export function transformed(frames: DataFrame[], transformations: Transformation[] = []): DataFrame[] {
  return transformations.reduce((current, {id, options}) => {
    if (id !== 'organize') {
      throw new Error(`the transformation ${id} cannot be drawn`);
    }
    return current.map((frame) => organize(frame, options));
  }, frames);
}
