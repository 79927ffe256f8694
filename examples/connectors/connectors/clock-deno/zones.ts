const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

export type Told = { time: string; summerTime: boolean };

/** The time of a zone now; RangeError with a code of the interface. */
export function now(zone: string): Told & { zone: string } {
  return { zone, ...told(Date.now(), zone) };
}

/** A time of today in one zone, told in another; RangeError with a code of the interface. */
export function converted(time: string, from: string, to: string): Told {
  offsetMs(Date.now(), to);
  const today = Date.now() + offsetMs(Date.now(), from);
  if (!/^([01]\d|2[0-3]):[0-5]\d$/.test(time)) throw new RangeError("bad_time");
  const [hours, minutes] = time.split(":").map(Number);
  const wanted = today - (today % DAY_MS) + (hours * 60 + minutes) * MINUTE_MS;
  let moment = wanted - offsetMs(wanted, from); // the offset of then, not of now
  moment = wanted - offsetMs(moment, from);
  return told(moment, to);
}

function told(moment: number, zone: string): Told {
  const offset = offsetMs(moment, zone);
  const local = new Date(moment + offset).toISOString().slice(0, 19);
  const sign = offset < 0 ? "-" : "+";
  const minutes = Math.abs(offset) / MINUTE_MS;
  const two = (number: number) => String(Math.floor(number)).padStart(2, "0");
  const year = new Date(moment).getUTCFullYear();
  const usual = Math.min(offsetMs(Date.UTC(year, 0, 1), zone), offsetMs(Date.UTC(year, 6, 1), zone));
  return { time: `${local}${sign}${two(minutes / 60)}:${two(minutes % 60)}`, summerTime: offset > usual };
}

/** How far a zone is ahead of UTC at a moment. */
function offsetMs(moment: number, zone: string): number {
  let parts: Intl.DateTimeFormatPart[];
  try {
    parts = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" }).formatToParts(moment);
  } catch {
    throw new RangeError("unknown_zone");
  }
  const name = parts.find((part) => part.type === "timeZoneName")?.value ?? "";
  const found = /^GMT(?:([+-])(\d\d):(\d\d)(?::\d\d)?)?$/.exec(name);
  if (!found) throw new RangeError("unknown_zone");
  if (!found[1]) return 0;
  return (found[1] === "-" ? -1 : 1) * (Number(found[2]) * 60 + Number(found[3])) * MINUTE_MS;
}
