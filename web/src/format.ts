export type Num = number | string; // "inf" and "nan" are texts

export function short(value: Num | undefined | null): string {
  if (value === undefined || value === null) return "0";
  if (typeof value === "string") return value;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(3)));
  return value.toExponential(1).replace("e+", "e");
}

function scaled(value: number, units: string[], step: number): string {
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  const digits = unit === 0 ? String(Math.round(value * 100) / 100) : value >= 100 ? value.toFixed(0) : value.toFixed(1);
  return `${digits} ${units[unit]}`.trim();
}

export const bytes = (value: number): string => scaled(value, ["B", "kB", "MB", "GB", "TB"], 1000);
export const count = (value: number): string => scaled(value, ["", "k", "M", "G", "T"], 1000);
export const flops = (value: number): string => scaled(value, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"], 1000);
export const milliseconds = (value: number): string =>
  value >= 100 ? `${value.toFixed(0)} ms` : value >= 1 ? `${value.toFixed(2)} ms` : `${(value * 1000).toFixed(1)} \u00b5s`;
export const percent = (share: number): string => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
export const plural = (n: number, what: string): string => `${n.toLocaleString("en-US")} ${what}${n === 1 ? "" : "s"}`;

// For sorting and for axes: not finite is larger than anything.
export function size(value: Num | undefined | null): number {
  if (value === undefined || value === null) return 0;
  return typeof value === "string" ? Infinity : value;
}
