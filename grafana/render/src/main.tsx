/** Draws the board that this server serves, at the time and with the variables of the address. */

import React from 'react';
import {createRoot} from 'react-dom/client';
import {createTheme, EventBusSrv, ThemeContext} from '@grafana/data';
import {GlobalStyles, PanelContextProvider} from '@grafana/ui';
import type {Board} from './board';
import {episodesOf} from './episodes';
import {readOptions} from './options';
import {Page} from './page';
import {resolve} from './variables';

async function draw(): Promise<void> {
  const options = readOptions(location.search);
  const board: Board = await (await fetch('/board.json')).json();
  const values = await resolve(board.templating.list, options.variables, options.from, options.to);
  const episodes = await episodesOf(board, options, values);
  const theme = createTheme({colors: {mode: options.theme}});
  document.body.style.background = theme.colors.background.canvas;
  const context: any = {eventsScope: 'board', eventBus: new EventBusSrv(), canAddAnnotations: () => false};
  createRoot(document.getElementById('root')!).render(
    <ThemeContext.Provider value={theme}>
      <PanelContextProvider value={context}>
        <GlobalStyles {...({isExtensionSidebarOpen: false} as any)} />
        <Page
          board={board}
          options={options}
          values={values}
          episodes={episodes}
          theme={theme}
          width={document.documentElement.clientWidth}
          onDone={(reports) => (window.boardReport = reports)}
        />
      </PanelContextProvider>
    </ThemeContext.Provider>,
  );
}

draw().catch((error) => (window.boardError = String(error)));
