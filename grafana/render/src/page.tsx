/** The board as a page: heading, variables, links, rows and panels on Grafana's grid of 24 columns. */

import React, {useEffect, useState} from 'react';
import {DataFrame, GrafanaTheme2} from '@grafana/data';
import {PanelChrome} from '@grafana/ui';
import {Board, GridPos, Panel, shownPanels} from './board';
import {framesOf, timeRange} from './data';
import type {Episode} from './episodes';
import type {Options} from './options';
import {Body} from './panels';
import {PanelReport, report} from './report';
import type {Values} from './variables';

const CELL = 30;
const GAP = 8;
const EDGE = 16;
const HEAD = 92;
// A variable with more letters makes room for the others.
const LONG = 30;

interface Shared {
  options: Options;
  values: Values;
  episodes: Episode[];
  theme: GrafanaTheme2;
  width: number;
  tell: (report: PanelReport) => void;
}

interface Place {
  left: number;
  top: number;
  width: number;
  height: number;
}

function placed({x, y, w, h}: GridPos, width: number): Place {
  const column = (width - 2 * EDGE + GAP) / 24;
  return {left: EDGE + x * column, top: HEAD + y * (CELL + GAP), width: w * column - GAP, height: h * (CELL + GAP) - GAP};
}

class Guard extends React.Component<{children: React.ReactNode; onFail: (error: string) => void}, {error: string}> {
  state = {error: ''};

  static getDerivedStateFromError(error: unknown) {
    return {error: String(error)};
  }

  componentDidCatch(error: unknown) {
    this.props.onFail(String(error));
  }

  render() {
    return this.state.error ? <pre>{this.state.error}</pre> : this.props.children;
  }
}

function PanelView({panel, row, shared}: {panel: Panel; row: string; shared: Shared}) {
  const {options, values, episodes, theme, tell} = shared;
  const [frames, setFrames] = useState<DataFrame[]>();
  const [error, setError] = useState('');
  const place = placed(panel.gridPos, shared.width);
  const fail = (text: string) => {
    setError(text);
    tell(report(panel, row, [], text));
  };
  useEffect(() => {
    framesOf(panel, options, values, theme, place.width).then((found) => {
      setFrames(found);
      tell(report(panel, row, found));
    }, (reason) => fail(String(reason)));
  }, []);
  return (
    <div style={{position: 'absolute', left: place.left, top: place.top}}>
      <PanelChrome title={panel.title} width={place.width} height={place.height} padding={panel.type === 'table' ? 'none' : 'md'}>
        {(width, height) => (
          <Guard onFail={fail}>
            {error ? <pre>{error}</pre> : frames && <Body panel={panel} frames={frames} episodes={episodes} theme={theme} time={timeRange(options)} width={width} height={height} />}
          </Guard>
        )}
      </PanelChrome>
    </div>
  );
}

function Head({board, shared}: {board: Board; shared: Shared}) {
  const {options, values, theme} = shared;
  const moment = (seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ');
  const box = {padding: '4px 8px', border: `1px solid ${theme.colors.border.medium}`, borderRadius: 2, whiteSpace: 'nowrap' as const};
  const cut = {overflow: 'hidden', textOverflow: 'ellipsis', background: theme.colors.background.secondary};
  return (
    <div style={{position: 'absolute', left: EDGE, right: EDGE, top: 12}}>
      <div style={{display: 'flex', justifyContent: 'space-between', alignItems: 'baseline'}}>
        <h1 style={{fontSize: 20, margin: 0}}>{board.title}</h1>
        <span>{`${moment(options.from)} to ${moment(options.to)} UTC`}</span>
      </div>
      <div style={{display: 'flex', gap: 8, marginTop: 12}}>
        {board.templating.list.map(({name, label}) => (
          <span key={name} style={{...box, ...cut, flexShrink: values[name].text.length > LONG ? 1 : 0}}>
            <span style={{color: theme.colors.text.secondary}}>{`${label ?? name} `}</span>
            {values[name].text}
          </span>
        ))}
        {board.links.map(({title, asDropdown}) => (
          <span key={title} style={{...box, flexShrink: 0, color: theme.colors.text.link}}>{asDropdown ? `${title} \u25be` : title}</span>
        ))}
      </div>
    </div>
  );
}

/** The whole board; when every panel has its data and is drawn, `onDone` gets what each shows. */
export function Page({board, onDone, ...given}: {board: Board; onDone: (reports: PanelReport[]) => void} & Omit<Shared, 'tell'>) {
  const panels = shownPanels(board);
  const [told] = useState(() => new Map<number, PanelReport>());
  const tell = (one: PanelReport) => {
    told.set(one.id, one);
    if (told.size === panels.length) {
      // Once more behind the drawing: a panel may fail in it, and canvases are filled a frame later.
      requestAnimationFrame(() => requestAnimationFrame(() => onDone(panels.map(({panel}) => told.get(panel.id)!))));
    }
  };
  const shared = {...given, tell};
  const bottom = Math.max(...board.panels.map(({gridPos}) => gridPos.y + gridPos.h));
  return (
    <div style={{position: 'relative', height: HEAD + bottom * (CELL + GAP) + EDGE}}>
      <Head board={board} shared={shared} />
      {board.panels.filter(({type}) => type === 'row').map((row) => {
        const {left, top} = placed(row.gridPos, given.width);
        return <h2 key={row.id} style={{position: 'absolute', left, top, fontSize: 16, lineHeight: `${CELL}px`, margin: 0}}>{row.title}</h2>;
      })}
      {panels.map(({panel, row}) => <PanelView key={panel.id} panel={panel} row={row} shared={shared} />)}
    </div>
  );
}
