import { Failure, serve } from "handler_connector";
import { converted, now } from "./zones.ts";

serve({
  clock_now: (args) => told(() => now(String(args.zone))),
  clock_convert: (args) => told(() => converted(String(args.time), String(args.from), String(args.to))),
});

/** What `zones.ts` throws is a code of the interface. */
function told<T>(work: () => T): T {
  try {
    return work();
  } catch (fault) {
    throw fault instanceof RangeError ? new Failure(fault.message) : fault;
  }
}
