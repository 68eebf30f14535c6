/** The parts of a dashboard's JSON that our boards use. */

export interface GridPos {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Target {
  refId: string;
  expr: string;
  legendFormat?: string;
  instant?: boolean;
  format?: string;
}

export interface Transformation {
  id: string;
  options: Record<string, any>;
}

export interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: GridPos;
  targets?: Target[];
  /** Least time between two points. */
  interval?: string;
  fieldConfig: {defaults: Record<string, any>; overrides?: any[]};
  options?: Record<string, any>;
  transformations?: Transformation[];
  panels?: Panel[];
}

export interface Variable {
  name: string;
  label?: string;
  type: string;
  query?: any;
  includeAll?: boolean;
  allValue?: string;
}

export interface Board {
  title: string;
  panels: Panel[];
  templating: {list: Variable[]};
  links: {title: string; type: string; asDropdown?: boolean}[];
  annotations?: {list: {expr?: string; enable?: boolean; iconColor?: string}[]};
}

/** Every panel that shows something with the heading of its row; rows themselves are left out. */
export function shownPanels(board: Board): {panel: Panel; row: string}[] {
  const found: {panel: Panel; row: string}[] = [];
  let row = '';
  for (const panel of board.panels) {
    if (panel.type === 'row') {
      row = panel.title;
      found.push(...(panel.panels ?? []).map((inner) => ({panel: inner, row})));
    } else {
      found.push({panel, row});
    }
  }
  return found;
}
