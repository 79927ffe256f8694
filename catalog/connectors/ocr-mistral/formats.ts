import { Failure } from "handler_connector";

export type Media =
  | "application/pdf"
  | "image/png"
  | "image/jpeg"
  | "image/gif"
  | "image/webp"
  | "image/tiff"
  | "image/bmp";

const MAX_PIXELS = 40_000_000;
const STARTS: [string, Media][] = [
  ["%PDF-", "application/pdf"],
  ["\x89PNG\r\n\x1a\n", "image/png"],
  ["\xff\xd8\xff", "image/jpeg"],
  ["GIF8", "image/gif"],
  ["II*\0", "image/tiff"],
  ["MM\0*", "image/tiff"],
  ["BM", "image/bmp"],
];

/** What a file is by its first bytes, whatever its name says; Failure where it is nothing that is read. */
export function mediaOf(data: Uint8Array): Media {
  const start = String.fromCharCode(...data.subarray(0, 32));
  const found = start.startsWith("RIFF") && start.slice(8, 12) === "WEBP"
    ? "image/webp"
    : STARTS.find(([magic]) => start.startsWith(magic))?.[1];
  if (!found) throw new Failure("unsupported_format", "the first bytes are no PDF's and no image's");
  if (found === "image/png" && data.length >= 24) {
    const header = new DataView(data.buffer, data.byteOffset, data.byteLength);
    if (header.getUint32(16) * header.getUint32(20) > MAX_PIXELS) {
      throw new Failure("too_large", `the picture has more than ${MAX_PIXELS} pixels`);
    }
  }
  return found;
}
