/** The board's annotations: when episodes were open, behind every graph. */

import {useLayoutEffect} from 'react';
import type {UPlotConfigBuilder} from '@grafana/ui';
import type {Board} from './board';
import type {Options} from './options';
import {aligned, range} from './prometheus';
import {interpolate, Values} from './variables';

export interface Episode {
  /** Unix seconds. */
  start: number;
  end: number;
  colour: string;
}

const STEP = 5;

/** Stretches of time in which an annotation's query has an answer; steps without one part them. */
export async function episodesOf(board: Board, options: Options, values: Values): Promise<Episode[]> {
  const found: Episode[] = [];
  for (const {expr, iconColor, enable} of board.annotations?.list ?? []) {
    if (!enable || !expr) {
      continue;
    }
    for (const series of await range(interpolate(expr, values), aligned(options.from, options.to, STEP))) {
      let last: Episode | undefined;
      for (const [time] of series.values) {
        if (last && time - last.end <= STEP) {
          last.end = time;
        } else {
          last = {start: time, end: time, colour: iconColor ?? '#d55e00'};
          found.push(last);
        }
      }
    }
  }
  return found;
}

/** Draws them on a graph: a light band, and a dashed line where it begins. */
export function Episodes({config, episodes}: {config: UPlotConfigBuilder; episodes: Episode[]}) {
  useLayoutEffect(() => {
    config.addHook('draw', (plot) => {
      const {ctx, bbox} = plot;
      const place = (seconds: number) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(seconds * 1000, 'x', true)));
      ctx.save();
      for (const {start, end, colour} of episodes) {
        const [left, right] = [place(start), place(end)];
        ctx.fillStyle = `${colour}1a`;
        ctx.fillRect(left, bbox.top, Math.max(1, right - left), bbox.height);
        ctx.strokeStyle = colour;
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(left, bbox.top);
        ctx.lineTo(left, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    });
  }, [config, episodes]);
  return null;
}
