// Its types are a package of their own, which nothing else here needs.
declare module 'react-dom/client';
