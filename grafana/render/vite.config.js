import {defineConfig} from 'vite';

export default defineConfig({
  // Grafana's packages ask for what only a Node process has.
  define: {'process.env.NODE_ENV': '"production"', 'process.env': '{}', global: 'globalThis'},
  // One big bundle, read once from loopback: its size does not matter.
  build: {chunkSizeWarningLimit: 20000, reportCompressedSize: false},
});
