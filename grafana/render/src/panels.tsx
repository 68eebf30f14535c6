/** The three kinds of panels of our boards, each drawn by Grafana's own component. */

import React from 'react';
import {DataFrame, getFieldDisplayValues, GrafanaTheme2, ReducerID, TimeRange} from '@grafana/data';
import {BigValue, BigValueColorMode, BigValueGraphMode, BigValueTextMode, LegendDisplayMode, TimeSeries, UPlotConfigBuilder} from '@grafana/ui';
import {TableNG} from '@grafana/ui/unstable';
import type {Panel} from './board';
import {Episode, Episodes} from './episodes';

interface Drawn {
  panel: Panel;
  frames: DataFrame[];
  episodes: Episode[];
  theme: GrafanaTheme2;
  time: TimeRange;
  width: number;
  height: number;
}

function Graph({panel, frames, episodes, time, width, height}: Drawn) {
  const legend: any = {displayMode: LegendDisplayMode.List, placement: 'bottom', showLegend: true, calcs: [], ...panel.options?.legend};
  return (
    <TimeSeries {...({} as any)} frames={frames} timeRange={time} timeZone="utc" width={width} height={height} legend={legend}>
      {(config: UPlotConfigBuilder) => <Episodes config={config} episodes={episodes} />}
    </TimeSeries>
  );
}

function Tiles({panel, frames, theme, width, height}: Drawn) {
  const reduce = panel.options?.reduceOptions ?? {};
  const shown = getFieldDisplayValues({
    data: frames,
    fieldConfig: panel.fieldConfig as any,
    reduceOptions: {values: false, ...reduce, calcs: reduce.calcs?.length ? reduce.calcs : [ReducerID.lastNotNull]},
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
  return (
    <div style={{display: 'flex'}}>
      {shown.map(({display}, place) => (
        <BigValue
          key={place}
          value={display}
          width={width / shown.length}
          height={height}
          theme={theme}
          colorMode={panel.options?.colorMode ?? BigValueColorMode.Value}
          graphMode={BigValueGraphMode.None}
          textMode={shown.length > 1 ? BigValueTextMode.ValueAndName : BigValueTextMode.Value}
        />
      ))}
    </div>
  );
}

function Table({panel, frames, width, height}: Drawn) {
  return <TableNG {...({} as any)} data={frames[0]} width={width} height={height} noValue={panel.fieldConfig.defaults.noValue} />;
}

/** What Grafana writes into a panel without data. */
function Nothing({panel, height}: Drawn) {
  const text = panel.fieldConfig.defaults.noValue ?? 'No data';
  return <div style={{display: 'flex', height, alignItems: 'center', justifyContent: 'center'}}>{text}</div>;
}

export function Body(drawn: Drawn) {
  const {panel, frames} = drawn;
  if (frames.every((frame) => frame.length === 0)) {
    return <Nothing {...drawn} />;
  }
  switch (panel.type) {
    case 'timeseries':
      return <Graph {...drawn} />;
    case 'stat':
      return <Tiles {...drawn} />;
    case 'table':
      return <Table {...drawn} />;
    default:
      throw new Error(`a panel of type ${panel.type} cannot be drawn`);
  }
}
