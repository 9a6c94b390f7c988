/** uPlot formats numbers in the language of the browser when it is loaded, and fails if that is none, as under LANG=C. */
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}

export {};
